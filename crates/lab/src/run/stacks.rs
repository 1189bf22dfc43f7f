//! What the stacks of an experiment's hosts need besides the lab itself.

use std::ffi::OsStr;
use std::path::Path;

use anyhow::{Result, bail};

use crate::experiment::{Experiment, Host, Stack};
use crate::flows::launch::{LIBRARY, MPTCPIZE};

/// Whether the library is beside `transom` or in `path`, and `mptcpize` in `path`, if experiments
/// ask for them.
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
    let beside = transom.with_file_name(LIBRARY).is_file();
    if hosts.iter().any(|host| host.stack == Stack::Library) && !beside && !in_path(LIBRARY) {
        bail!(
            "a host has `stack = \"library\"`, but {LIBRARY} is neither beside {} nor in the PATH: \
             build it with `make netstack`",
            transom.display()
        );
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

    #[test]
    fn what_a_stack_needs_must_be_there_if_a_host_asks_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let transom = folder.path().join("transom");
        let text = include_str!("../../../../experiments/two-phones.toml").to_owned();
        let loaded = crate::experiment::parse("x.toml".as_ref(), text).unwrap();
        let mut experiment = loaded.experiment;
        let looked_for = |experiment: &Experiment| {
            check(&transom, folder.path().as_os_str(), [experiment].into_iter())
                .map_err(|error| error.to_string())
        };
        assert_eq!(looked_for(&experiment), Ok(()));
        let wrapped = Host { mptcp: true, ..Host::default() };
        experiment.hosts.insert("other".into(), wrapped.clone());
        assert!(looked_for(&experiment).unwrap_err().contains("apt-get install mptcpize"));
        experiment.hosts.insert("other".into(), Host { stack: Stack::Library, ..wrapped });
        assert!(looked_for(&experiment).unwrap_err().contains("make netstack"));
        std::fs::write(folder.path().join(LIBRARY), "").unwrap();
        assert_eq!(looked_for(&experiment), Ok(()), "the library has MPTCP itself");
    }
}
