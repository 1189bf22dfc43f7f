//! What stands before a program's own words, so that its sockets are of the stack that its host
//! has.

use std::path::{Path, PathBuf};

use crate::experiment::{Experiment, Flow, Over, Protocol, Stack};
use crate::hosts::{self, Place};

/// The programs on the library's sockets; the lab's own is `transom`.
pub const LIBRARY: &str = "transom-netstack";
/// Makes TCP sockets MPTCP's where a program asks for them (`LD_PRELOAD`), and costs nothing
/// afterwards.
pub const MPTCPIZE: &str = "mptcpize";

/// Where the connections of a flow's program on the library are recorded.
pub fn trace(directory: &Path, host: &str, flow: &str) -> PathBuf {
    directory.join(format!("trace-{host}-{flow}.parquet"))
}

/// The whole command line for a program of a flow; `trace`: where the library is recorded.
pub fn words(
    transom: &Path,
    experiment: &Experiment,
    place: &Place,
    flow: &Flow,
    trace: Option<&Path>,
    program: Vec<String>,
) -> Vec<String> {
    let host = &experiment.hosts[&place.host];
    let before = match host.stack {
        Stack::Library => library(transom, experiment, place, flow, trace),
        Stack::Host if host.mptcp && flow.protocol == Protocol::Tcp => {
            [MPTCPIZE, "run"].map(str::to_owned).into()
        }
        Stack::Host => Vec::new(),
    };
    before.into_iter().chain(program).collect()
}

fn library(
    transom: &Path,
    experiment: &Experiment,
    place: &Place,
    flow: &Flow,
    trace: Option<&Path>,
) -> Vec<String> {
    let mut words = vec![transom.display().to_string(), "run".to_owned()];
    if let Some(trace) = trace {
        words.extend(["--record".to_owned(), trace.display().to_string(), "--force".to_owned()]);
    }
    let mptcp = experiment.hosts[&place.host].mptcp;
    let first = (flow.over == Over::First || place.cellular.is_none()).then_some(&place.interface);
    let second = place.cellular.as_ref().filter(|_| mptcp || first.is_none());
    for path in first.into_iter().chain(second.map(|it| &it.interface)) {
        words.extend(["--path".to_owned(), path.clone()]);
    }
    if mptcp {
        words.push("--mptcp".to_owned());
    }
    for setting in hosts::sysctls(experiment, &place.host) {
        words.extend(["--sysctl".to_owned(), setting]);
    }
    words.push("--".to_owned());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The command line of the phone's iperf, with these keys of the phone and of the flow.
    fn line(phone: &str, flow: &str, trace: Option<&Path>) -> String {
        let text = format!(
            "title = \"t\"\nsource = \"s\"\nquestion = \"q\"\nduration_s = 1\nrepeats = 1\n\
             [hosts.phone]\n{phone}\n[hosts.server]\n\
             [flows.up]\nfrom = \"phone\"\nto = \"server\"\n{flow}\n"
        );
        let experiment: Experiment = toml::from_str(&text).unwrap();
        let places = hosts::places("lab", &experiment).unwrap();
        let flow = &experiment.flows["up"];
        let program = vec!["iperf".to_owned()];
        words("transom".as_ref(), &experiment, &places[0], flow, trace, program).join(" ")
    }

    const SYSCTL: &str = "--sysctl net.ipv4.tcp_no_metrics_save=1";

    #[test]
    fn a_program_on_the_hosts_stack_runs_as_it_is() {
        assert_eq!(line("cellular.rtt_ms = 40", "over = \"cellular\"", None), "iperf");
        assert_eq!(line("mptcp = true", "protocol = \"udp\"", None), "iperf");
    }

    #[test]
    fn on_the_hosts_multipath_tcp_only_its_sockets_are_others() {
        assert_eq!(line("mptcp = true", "", None), "mptcpize run iperf");
    }

    #[test]
    fn on_the_library_it_has_the_first_interface_and_the_hosts_settings() {
        let phone = "stack = \"library\"\ncellular.rtt_ms = 40";
        assert_eq!(line(phone, "", None), format!("transom run --path eth0 {SYSCTL} -- iperf"));
        let buffered = format!("{phone}\nsend_buffer = 65536");
        let line = line(&buffered, "", None);
        assert!(line.contains("--sysctl net.ipv4.tcp_wmem=4096 16384 65536 --"), "{line}");
    }

    #[test]
    fn the_library_has_the_cellular_interface_alone_or_with_mptcp_beside_the_first() {
        let phone = "stack = \"library\"\ncellular.rtt_ms = 40";
        let over = "over = \"cellular\"";
        let alone = format!("transom run --path rmnet0 {SYSCTL} -- iperf");
        assert_eq!(line(phone, over, None), alone);
        let both = format!("transom run --path eth0 --path rmnet0 --mptcp {SYSCTL} -- iperf");
        assert_eq!(line(&format!("{phone}\nmptcp = true"), "", None), both);
    }

    #[test]
    fn the_library_is_recorded_by_the_run_itself() {
        let trace = trace("r".as_ref(), "phone", "up");
        let line = line("stack = \"library\"", "", Some(&trace));
        let begin = "transom run --record r/trace-phone-up.parquet --force --path eth0 ";
        assert!(line.starts_with(begin), "{line}");
    }
}
