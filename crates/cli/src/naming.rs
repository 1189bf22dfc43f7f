//! `--numeric` and `--names`: what ports and addresses are called in texts for people.

use std::collections::HashMap;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::Result;
use transom_event::Names;
use transom_output::note;

use crate::names::cache::{self, Cache, is_host_name};
use crate::service;

const HOSTS: &str = "/etc/hosts";

#[derive(clap::Args)]
pub struct NamingArgs {
    /// Print ports as numbers, not as services of /etc/services; JSON always has numbers
    #[arg(short = 'n', long)]
    numeric: bool,
    /// Print names of addresses: those of /etc/hosts, and those that `transom names` has stored
    /// [FILE: another cache]. Sends no query
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, conflicts_with = "numeric")]
    names: Option<Option<PathBuf>>,
}

impl NamingArgs {
    /// # Errors
    /// The file given with --names cannot be read, or is no cache.
    pub fn names(&self) -> Result<Names> {
        if self.numeric {
            return Ok(Names::default());
        }
        let hosts = match &self.names {
            None => HashMap::new(),
            Some(file) => hosts(file.as_deref())?,
        };
        Ok(Names::new(service::names(), hosts))
    }
}

/// As most machines are configured, /etc/hosts comes before what a DNS server said.
fn hosts(file: Option<&Path>) -> Result<HashMap<IpAddr, String>> {
    let cached = match file {
        Some(path) => Cache::read(path)?.ok_or_else(|| cache::missing(path))?,
        None => usual_cache(),
    };
    let mut hosts = cached.names();
    hosts.extend(of_hosts_file(&fs::read_to_string(HOSTS).unwrap_or_default()));
    Ok(hosts)
}

/// A cache that is not there, or cannot be read, costs the names and nothing else.
fn usual_cache() -> Cache {
    let read =
        cache::to_read().and_then(|path| Cache::read(&path)?.ok_or_else(|| cache::missing(&path)));
    read.unwrap_or_else(|error| {
        note!("transom: only names of {HOSTS}: {error:#}");
        Cache::default()
    })
}

/// `192.0.2.1 server.example server # comment`: the first name of each address.
fn of_hosts_file(text: &str) -> HashMap<IpAddr, String> {
    let mut hosts = HashMap::new();
    for line in text.lines() {
        let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
        let address = words.next().and_then(|word| word.parse().ok());
        if let (Some(address), Some(name)) = (address, words.next())
            && is_host_name(name)
        {
            hosts.entry(address).or_insert_with(|| name.to_owned());
        }
    }
    hosts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_name_of_an_address_in_the_hosts_file_is_its_name() {
        let text = "# hosts\n127.0.0.1 localhost loop\n127.0.0.1\tother\n2001:db8::1 six # six\n\
                    nonsense here\n192.0.2.1\n192.0.2.2 e\u{1b}[31mvil\n";
        let hosts = of_hosts_file(text);
        let name = |address: &str| hosts.get(&address.parse().unwrap()).map(String::as_str);
        assert_eq!((name("127.0.0.1"), name("2001:db8::1")), (Some("localhost"), Some("six")));
        assert_eq!(hosts.len(), 2, "{hosts:?}");
    }
}
