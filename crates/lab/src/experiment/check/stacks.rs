//! Which stack the programs of a host have, its second interface, and what a flow may ask of both.

use super::Found;
use crate::experiment::{Experiment, Flow, Host, Over, Protocol, Stack, Tool};

/// iperf3's largest block (`MAX_BLOCKSIZE`); the datagrams of iperf hold numbers of their own.
const WRITES: [(Protocol, (f64, f64)); 2] =
    [(Protocol::Tcp, (1.0, 1_048_576.0)), (Protocol::Udp, (64.0, 65_507.0))];

impl Found {
    pub(super) fn stack(&mut self, name: &str, host: &Host) {
        let key = |part: &str| format!("hosts.{name}.{part}");
        if let Some(path) = &host.cellular {
            self.path(&key("cellular"), path);
        }
        if let Some(segments) = host.gso_max_segs {
            self.within(key("gso_max_segs"), segments.into(), (1.0, 65_535.0), "segments");
        }
        if host.stack == Stack::Host {
            return;
        }
        let of_the_host = [
            ("initial_window", host.initial_window.is_some(), "a metric of the host's routes"),
            ("largest_window", host.largest_window.is_some(), "a metric of the host's routes"),
            ("gso_max_segs", host.gso_max_segs.is_some(), "of the host's device"),
            ("policy", host.policy.is_some(), "for connections of the host's kernel"),
            ("peer", host.peer.is_some(), "for connections of the host's kernel"),
        ];
        for (part, given, of) in of_the_host {
            if given {
                let what = format!("is {of}, which the library does not use");
                self.add(key(part), what, "remove it, or `stack = \"library\"`");
            }
        }
    }

    pub(super) fn ends(&mut self, experiment: &Experiment, name: &str, flow: &Flow) {
        let key = |part: &str| format!("flows.{name}.{part}");
        if let Some(bytes) = flow.write {
            let range = WRITES.iter().find(|(protocol, _)| *protocol == flow.protocol);
            let range = range.map_or((1.0, 1.0), |(_, range)| *range);
            self.within(key("write"), bytes.into(), range, "bytes");
            if let Some(most) = flow.most_at_once().filter(|&most| bytes > most) {
                let what = format!("iperf 2 is to send {most} bytes a second, and refuses more");
                self.add(key("write"), what, "give less, or raise `rate_mbit`");
            }
        }
        if flow.reverse && flow.tool == Tool::Iperf {
            let remedy = "set `tool = \"iperf3\"`, or remove it";
            self.add(key("reverse"), "iperf 2 reports only the sender's side of it", remedy);
        }
        let host = |name: &str| experiment.hosts.get(name);
        let cellular = |name: &str| host(name).is_some_and(|host| host.cellular.is_some());
        if flow.over == Over::Cellular && !cellular(&flow.from) && !cellular(&flow.to) {
            let what = "neither end has a cellular interface";
            self.add(key("over"), what, "give one a [hosts.NAME.cellular], or remove it");
        }
        if host(flow.listens()).is_some_and(|host| host.stack == Stack::Library) {
            let what =
                format!("'{}' would listen on the library, unseen by the lab", flow.listens());
            let remedy = match flow.reverse {
                true => "remove `reverse`, so that it opens the connection",
                false => "set `reverse = true`, so that it opens the connection",
            };
            self.add(key("reverse"), what, remedy);
        }
    }
}
