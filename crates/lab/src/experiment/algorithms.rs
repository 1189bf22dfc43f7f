//! Congestion controls that an experiment names and no kernel has that could run it: neither the
//! simulated one nor the one that runs here.

use std::collections::BTreeSet;
use std::fs;
use std::sync::LazyLock;

use transom_control::{Policy, available_algorithms};

use super::problem::{Problem, instead};
use super::{Experiment, Host, Protocol, Stack};

/// Of the simulated kernel, which is the library's, too (linux/arch/configs).
pub const SIMULATED: [&str; 4] = ["bbr", "cubic", "reno", "steady"];

/// Of the kernel that runs here, modules that it would load among them.
static HERE: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
    let mut all: BTreeSet<String> = available_algorithms().into_iter().collect();
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let modules = fs::read_to_string(format!("/lib/modules/{release}/modules.dep"));
    all.extend(in_modules(&modules.unwrap_or_default()));
    all
});

/// `kernel/net/ipv4/tcp_bbr.ko.zst: …` as `bbr`.
fn in_modules(text: &str) -> impl Iterator<Item = String> {
    let files = text.lines().filter_map(|line| line.split_once(':')?.0.rsplit('/').next());
    files.filter_map(|file| Some(file.strip_prefix("tcp_")?.split_once(".ko")?.0.to_owned()))
}

/// Each of those, where the file names it.
pub fn unknown(experiment: &Experiment) -> Vec<Problem> {
    let mut found = Vec::new();
    for (name, host) in &experiment.hosts {
        found.extend(missing(format!("hosts.{name}.algorithm"), host, host.algorithm.as_deref()));
        let given = host.policy.as_ref().map(given_by).unwrap_or_default();
        found.extend(given.into_iter().enumerate().filter_map(|(n, given)| {
            let key = format!("hosts.{name}.policy.rule.{n}.action.algorithm");
            missing(key, host, given.as_deref())
        }));
    }
    for (name, flow) in &experiment.flows {
        let Some(host) = experiment.hosts.get(&flow.from) else { continue };
        if flow.protocol == Protocol::Tcp {
            let key = format!("flows.{name}.algorithm");
            found.extend(missing(key, host, flow.algorithm.as_deref()));
        }
    }
    found
}

fn missing(key: String, host: &Host, name: Option<&str>) -> Option<Problem> {
    let name = name.filter(|name| !SIMULATED.contains(name))?;
    let (has, known) = match host.stack {
        Stack::Host => {
            let here = HERE.iter().map(String::as_str);
            let known: BTreeSet<&str> = here.chain(SIMULATED).collect();
            ("neither this kernel nor the simulated one has", known.into_iter().collect())
        }
        Stack::Library => ("the library has no", SIMULATED.to_vec()),
    };
    let is_known = known.contains(&name);
    (!is_known).then(|| {
        Problem::new(key, format!("{has} congestion control \"{name}\""), instead(name, known))
    })
}

/// What each rule of a policy gives; one that is none gives nothing.
fn given_by(policy: &toml::Table) -> Vec<Option<String>> {
    let text = toml::to_string(policy).unwrap_or_default();
    let policy = Policy::parse_for_elsewhere(&text);
    let rules = policy.into_iter().flat_map(|policy| policy.rules);
    rules.map(|rule| rule.treatment.algorithm).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_simulated_kernel_is_built_with_these() {
        let config = include_str!("../../../../linux/arch/configs/transom_defconfig");
        let built_in = config.lines().filter_map(|line| line.strip_suffix("=y"));
        let named = built_in.filter_map(|line| line.strip_prefix("CONFIG_TCP_CONG_"));
        let mut named: BTreeSet<String> = named.map(str::to_lowercase).collect();
        // No algorithm: it lets the others be chosen. Reno is always there, `steady` by linux/arch.
        assert!(named.remove("advanced"));
        named.extend(["reno", "steady"].map(String::from));
        assert_eq!(named, SIMULATED.map(String::from).into());
    }

    #[test]
    fn modules_are_known_by_their_files() {
        let text = "kernel/net/ipv4/tcp_bbr.ko.zst: kernel/a.ko\nkernel/net/ipv4/tcp_cdg.ko:\n\
                    kernel/net/tls/tls.ko:\n";
        assert_eq!(in_modules(text).collect::<Vec<_>>(), ["bbr", "cdg"]);
    }
}
