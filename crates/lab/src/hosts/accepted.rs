//! Settings of hosts that something else reads: sysctls by this kernel, rules of the middleware by
//! its own program. What they would refuse in every run is refused here.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Result, bail};

use super::namespace;
use crate::experiment::problem::{Problem, instead};
use crate::experiment::{Host, Loaded, Stack, sysctl};
use crate::sweep::{Point, points};

/// # Errors
/// Every setting that is refused, with file, line and remedy.
pub fn check(loaded: &Loaded) -> Result<()> {
    let all: Vec<&Point> = points(loaded, false).iter().chain(points(loaded, true)).collect();
    let hosts = || all.iter().flat_map(|point| point.experiment.hosts.values());
    let sysctls = hosts().filter(|host| is_of_kernel(host)).flat_map(|host| &host.sysctl);
    let refused = refused_sysctls(&sysctls.collect());
    let mut problems = Vec::new();
    for point in all {
        for (name, host) in &point.experiment.hosts {
            for problem in of_host(name, host, &refused) {
                let problem = point.blame(problem);
                if !problems.contains(&problem) {
                    problems.push(problem);
                }
            }
        }
    }
    if problems.is_empty() { Ok(()) } else { bail!(loaded.in_words(&problems)) }
}

/// The library's sysctls are its own, those of another kernel.
fn is_of_kernel(host: &Host) -> bool {
    host.stack == Stack::Host
}

fn of_host(name: &str, host: &Host, refused: &RefusedSysctls) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (sysctl, value) in host.sysctl.iter().filter(|_| is_of_kernel(host)) {
        if let Some((what, remedy)) = refused.get(&(sysctl.clone(), value.clone())) {
            let key = format!("hosts.{name}.sysctl.{sysctl}");
            problems.push(Problem::new(key, what, remedy));
        }
    }
    if let Some(Err(what)) = host.peer.as_ref().map(peer_rules) {
        problems.push(Problem::new(format!("hosts.{name}.peer"), what, "see docs/peer.md"));
    }
    problems
}

/// What is wrong, and the remedy.
type Refused = (String, String);

fn peer_rules(rules: &toml::Table) -> Result<(), String> {
    let text = toml::to_string(rules).map_err(|error| error.to_string())?;
    let parsed = transom_peers::Rules::from_toml(&text);
    // The last line of what TOML's reader says is its reason.
    parsed.map(drop).map_err(|said| said.trim_end().lines().last().unwrap_or_default().to_owned())
}

/// Sysctls and values that this kernel refuses.
type RefusedSysctls = BTreeMap<(String, String), Refused>;

/// Tries them in a new network namespace. Only root may create one; for others, only sysctls that
/// do not exist count as refused.
fn refused_sysctls(sysctls: &BTreeSet<(&String, &String)>) -> RefusedSysctls {
    if sysctls.is_empty() {
        return RefusedSysctls::new();
    }
    let ask = |may_set: bool| -> RefusedSysctls {
        let answer = |&(name, value): &(&String, &String)| {
            Some(((name.clone(), value.clone()), refusal(name, value, may_set)?))
        };
        sysctls.iter().filter_map(answer).collect()
    };
    let is_root = rustix::process::geteuid().is_root();
    let asked = is_root.then(|| namespace::fresh(|| ask(true)).ok()).flatten();
    asked.unwrap_or_else(|| ask(false))
}

fn refusal(name: &str, value: &str, may_set: bool) -> Option<Refused> {
    let path = sysctl::path(&of_any_interface(name));
    if !path.is_file() {
        let what = "this kernel has no such sysctl for a network namespace".to_owned();
        return Some((what, neighbours(&path)));
    }
    if !may_set {
        return None;
    }
    let refused = fs::write(&path, value).err()?;
    let now = fs::read_to_string(&path).unwrap_or_default();
    let remedy = format!("it is \"{}\" now", now.trim().replace('\t', " "));
    Some((format!("the kernel refuses the value \"{value}\" ({refused})"), remedy))
}

/// A fresh namespace has no interface of a host's yet: what each will begin with.
fn of_any_interface(name: &str) -> String {
    let mut parts: Vec<&str> = name.split('.').collect();
    if let [_, "conf" | "neigh", interface @ ("wlan0" | "eth0" | "rmnet0"), ..] = &mut parts[..] {
        *interface = "default";
    }
    parts.join(".")
}

/// The nearest name in the same folder.
fn neighbours(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let entries = path.parent().and_then(|folder| fs::read_dir(folder).ok());
    let names: Vec<String> = entries
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    match instead(&name, names.iter().map(String::as_str)) {
        near if near.starts_with("did") => near,
        _ => "`sysctl -a` lists those there are; leave the leading `net.` out".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::parse;

    const FILE: &str = r#"title = "t"
source = "s"
question = "q"
duration_s = 5
repeats = 1
[hosts.a]
HERE
[hosts.b]
[flows.up]
from = "a"
to = "b"
"#;

    fn checked(host: &str) -> Result<(), String> {
        let loaded =
            parse("x.toml".as_ref(), FILE.replace("HERE", host)).map_err(|e| e.to_string())?;
        check(&loaded).map_err(|error| error.to_string())
    }

    #[test]
    fn sysctls_may_be_written_both_ways_and_must_be_of_this_kernel() {
        for name in ["ipv4.tcp_sack", "ipv4/tcp_sack"] {
            assert_eq!(checked(&format!("sysctl = {{ \"{name}\" = \"0\" }}")), Ok(()), "{name}");
            let wrong = name.replace("sack", "sacks");
            let said = checked(&format!("sysctl = {{ \"{wrong}\" = \"0\" }}")).unwrap_err();
            assert_eq!(
                said,
                "x.toml:7: `hosts.a.sysctl.ipv4.tcp_sacks`: this kernel has no such sysctl for a \
                 network namespace; did you mean `tcp_sack`?"
            );
        }
        assert_eq!(checked("sysctl = { 'ipv6.conf.eth0.accept_dad' = 0 }"), Ok(()));
        assert!(
            checked("sysctl = { 'net.ipv4.tcp_sack' = 0 }").unwrap_err().contains("leave it out")
        );
    }

    #[test]
    fn rules_of_the_middleware_that_would_not_be_accepted_are_refused_at_once() {
        let peer = |rules: &str| {
            checked(&format!(
                "station.phy_mbit = 54\nstation.queue_packets = 9\npeer = {{ {rules} }}\n[air]"
            ))
        };
        assert_eq!(peer("function = 'share'"), Ok(()));
        let said = peer("share = { queue_ms = 0 }").unwrap_err();
        assert!(said.contains("`hosts.a.peer`: share.queue_ms must be from 1 to 1000"), "{said}");
        let said = peer("function = 'shares'").unwrap_err();
        assert!(said.contains("`hosts.a.peer`: unknown variant `shares`"), "{said}");
    }
}
