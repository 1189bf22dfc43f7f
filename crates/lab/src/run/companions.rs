//! Programs that the hosts of an experiment need besides the lab itself.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use super::peers;
use crate::experiment::{Experiment, Host, Stack};
use crate::flows::launch::{LIBRARY, MPTCPIZE};

/// One of our own, which is found beside `transom` or in the PATH.
struct Own {
    program: &'static str,
    /// What a host has that asks for it.
    key: &'static str,
    asks: fn(&Host) -> bool,
    remedy: &'static str,
}

const OWN: [Own; 2] = [
    Own {
        program: peers::PROGRAM,
        key: "a `peer`",
        asks: |host| host.peer.is_some(),
        remedy: "make peer",
    },
    Own {
        program: LIBRARY,
        key: "`stack = \"library\"`",
        asks: |host| host.stack == Stack::Library,
        remedy: "make netstack",
    },
];

/// The program of the lab itself.
pub const LAB: &str = "transom-lab";

/// The programs of ours that runs of these experiments are made by: `transom`, the lab, and those
/// that hosts ask for.
pub fn own<'a>(
    transom: &Path,
    path: &OsStr,
    experiments: impl Iterator<Item = &'a Experiment>,
) -> Vec<PathBuf> {
    let hosts: Vec<&Host> = experiments.flat_map(|experiment| experiment.hosts.values()).collect();
    let asked = OWN.iter().filter(|own| hosts.iter().any(|host| (own.asks)(host)));
    let beside = asked.filter_map(|own| find(own.program, transom, path));
    let lab = find(LAB, transom, path);
    std::iter::once(transom.to_owned()).chain(lab).chain(beside).collect()
}

/// One of ours: beside `transom`, or in the PATH.
pub fn find(program: &str, transom: &Path, path: &OsStr) -> Option<PathBuf> {
    let first = std::iter::once(transom.with_file_name(program));
    let others = std::env::split_paths(path).map(|folder| folder.join(program));
    first.chain(others).find(|program| program.is_file())
}

/// Whether all that hosts of these experiments ask for is there.
///
/// # Errors
/// What is missing, with the remedy.
pub fn check<'a>(
    transom: &Path,
    path: &OsStr,
    experiments: impl Iterator<Item = &'a Experiment>,
) -> Result<()> {
    let hosts: Vec<&Host> = experiments.flat_map(|experiment| experiment.hosts.values()).collect();
    let in_path = |name: &str| std::env::split_paths(path).any(|it| it.join(name).is_file());
    for Own { program, key, asks, remedy } in OWN {
        let is_there = || find(program, transom, path).is_some();
        if hosts.iter().any(|host| asks(host)) && !is_there() {
            bail!(
                "a host has {key}, but {program} is neither beside {} nor in the PATH: build it \
                 with `{remedy}`",
                transom.display()
            );
        }
    }
    let wraps = |host: &&Host| host.mptcp && host.stack == Stack::Host;
    if hosts.iter().any(wraps) && !in_path(MPTCPIZE) {
        bail!(
            "a host has `mptcp`, and {MPTCPIZE}, which gives its programs MPTCP's sockets, is not \
             installed: it comes with the package mptcpize (apt-get install mptcpize)"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An experiment that asks for nothing, and a folder that has nothing: `transom` would lie in
    /// it, and it is the PATH.
    struct Bare {
        folder: tempfile::TempDir,
        experiment: Experiment,
    }

    impl Bare {
        fn new() -> Bare {
            let text = include_str!("../../../../experiments/two-phones.toml").to_owned();
            let loaded = crate::experiment::parse("x.toml".as_ref(), text).unwrap();
            Bare { folder: tempfile::tempdir().unwrap(), experiment: loaded.experiment }
        }

        fn looked_for(&self) -> Result<(), String> {
            let folder = self.folder.path();
            let experiments = [&self.experiment].into_iter();
            check(&folder.join("transom"), folder.as_os_str(), experiments)
                .map_err(|error| error.to_string())
        }

        fn with(&mut self, host: Host) {
            self.experiment.hosts.insert("other".into(), host);
        }

        fn install(&self, program: &str) {
            std::fs::write(self.folder.path().join(program), "").unwrap();
        }
    }

    #[test]
    fn the_middleware_must_be_there_if_a_host_asks_for_it() {
        let mut bare = Bare::new();
        assert_eq!(bare.looked_for(), Ok(()));
        bare.with(Host { peer: Some(toml::Table::new()), ..Host::default() });
        assert!(bare.looked_for().unwrap_err().contains("make peer"));
        bare.install(peers::PROGRAM);
        assert_eq!(bare.looked_for(), Ok(()));
    }

    #[test]
    fn what_a_stack_needs_must_be_there_if_a_host_asks_for_it() {
        let mut bare = Bare::new();
        assert_eq!(bare.looked_for(), Ok(()));
        let wrapped = Host { mptcp: true, ..Host::default() };
        bare.with(wrapped.clone());
        assert!(bare.looked_for().unwrap_err().contains("apt-get install mptcpize"));
        bare.with(Host { stack: Stack::Library, ..wrapped });
        assert!(bare.looked_for().unwrap_err().contains("make netstack"));
        bare.install(LIBRARY);
        assert_eq!(bare.looked_for(), Ok(()), "the library has MPTCP itself");
    }
}
