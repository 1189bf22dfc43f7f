//! A rule in words, as the kernel has it.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use transom_event::Prefix;

use crate::contract::{RawPrefix, RawRule, text16};
use crate::policy::milliseconds;

impl fmt::Display for RawRule {
    /// `cubic, cap 20: program nginx, port 80 or 443`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", actions(self).join(", "), self.matches())
    }
}

impl RawRule {
    /// Which connections, in words: `program nginx, port 80 or 443`, or `all`.
    pub fn matches(&self) -> String {
        let matching = matching(self);
        if matching.is_empty() { "all".to_owned() } else { matching.join(", ") }
    }
}

fn actions(rule: &RawRule) -> Vec<String> {
    let wish = &rule.wish;
    let (algorithm, steady) = (text16(&wish.algorithm), &wish.steady);
    let mut all = Vec::new();
    all.extend((!algorithm.is_empty()).then_some(algorithm));
    all.extend((steady.target > 0).then(|| format!("target {}", steady.target)));
    all.extend((steady.cap > 0).then(|| format!("cap {}", steady.cap)));
    all.extend(
        (wish.initial_window > 0).then(|| format!("initial window {}", wish.initial_window)),
    );
    all
}

fn matching(rule: &RawRule) -> Vec<String> {
    let some = |name: &str, values: Vec<String>| {
        (!values.is_empty()).then(|| format!("{name} {}", values.join(" or ")))
    };
    let programs = rule.program.iter().take(rule.programs as usize).map(text16).collect();
    let ports = rule.port.iter().take(rule.ports as usize).map(u16::to_string).collect();
    let prefixes = rule.prefix.iter().take(rule.prefixes as usize).map(prefix).collect();
    let mut all = Vec::new();
    all.extend(some("program", programs));
    all.extend(some("port", ports));
    all.extend(some("remote", prefixes));
    all.extend((rule.cgroup != 0).then(|| format!("cgroup of number {}", rule.cgroup)));
    all.extend((rule.ifindex != 0).then(|| format!("interface of index {}", rule.ifindex)));
    let end = |us, open| if us == open { String::new() } else { milliseconds(us).replace(' ', "") };
    let rtt = [end(rule.rtt_least_us, 0), end(rule.rtt_most_us, u32::MAX)].join("..");
    all.extend((rtt != "..").then(|| format!("rtt {rtt}")));
    all
}

fn prefix(raw: &RawPrefix) -> String {
    const AF_INET: u16 = 2;
    let [a, b, c, d, ..] = raw.addr;
    let addr = match raw.family {
        AF_INET => IpAddr::V4(Ipv4Addr::new(a, b, c, d)),
        _ => IpAddr::V6(raw.addr.into()),
    };
    Prefix { addr, length: raw.length as u8 }.to_string()
}
