//! Links that change over time, and traffic that is not of the hosts.

use serde::{Deserialize, Serialize};

use super::problem::Problems;

/// Bytes that one opportunity of a trace delivers: an Ethernet frame's payload and 4 more, as
/// Mahimahi counts.
pub(crate) const OPPORTUNITY_BYTES: u64 = 1504;

/// Times of a trace above this are taken for a mistake of units, ms: a day.
const LATEST_MS: u32 = 86_400_000;

/// A link that sends when a recording says so (Netravali et al., "Mahimahi: accurate
/// record-and-replay for HTTP", 2015): each time is an opportunity to send 1504 bytes, which is
/// lost if nothing waits. After the last time the trace begins again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Trace {
    /// Of an experiment file: a file with one time per line, relative to the experiment's folder.
    /// It is replaced by `ms` before the emulator starts.
    pub file: Option<String>,
    /// ms after the start, in ascending order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ms: Vec<u32>,
}

/// The link is gone for a while, and another one after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Handover {
    /// When the outage begins, s.
    pub at_s: f64,
    pub outage_ms: f64,
    /// What arrives during the outage is lost instead of waiting.
    pub lose: bool,
    /// From the end of the outage on; none: as before it.
    pub rate_mbit: Option<f64>,
    pub delay_ms: Option<f64>,
}

/// Packets that wait and are sent as others do, and then reach nobody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cross {
    /// While it is on, from the IP header on.
    pub rate_mbit: f64,
    /// Of each packet, from the IP header on: 1500.
    pub packet_bytes: Option<u32>,
    pub arrivals: Arrivals,
    /// Means of exponentially distributed times; none: always on.
    pub on_ms: Option<f64>,
    pub off_ms: Option<f64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    /// The times between packets are exponentially distributed.
    #[default]
    Poisson,
    Constant,
}

impl Trace {
    /// Reads Mahimahi's format: a number of ms on each line.
    ///
    /// # Errors
    /// What is wrong, with its line.
    pub fn parse(text: &str) -> Result<Trace, String> {
        let mut ms = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() {
                continue;
            }
            let time = line.parse::<u32>().map_err(|_| {
                format!("line {}: \"{line}\" is no whole number of milliseconds", index + 1)
            })?;
            ms.push(time);
        }
        Ok(Trace { file: None, ms })
    }

    pub(super) fn problems(&self, problems: &mut Problems<'_>) {
        match (&self.file, self.ms.as_slice()) {
            (Some(_), []) => {}
            (Some(_), _) => problems.add("trace", "times, and a file of times", "keep one of them"),
            (None, []) => {
                let remedy = "set `file`, one time in ms per line, or `ms`, a list";
                problems.add("trace", "has no opportunity to send", remedy);
            }
            (None, [.., last]) => {
                if let Some(at) = self.ms.windows(2).position(|pair| pair[1] < pair[0]) {
                    let what = format!("{} follows {}", self.ms[at + 1], self.ms[at]);
                    problems.add("trace", what, "give times in ascending order");
                }
                if *last == 0 {
                    let what = "the last time is 0, so that it would never end to repeat";
                    problems.add("trace", what, "end it with a later time");
                } else if *last > LATEST_MS {
                    let what = format!("{last} ms is more than a day");
                    problems.add("trace", what, "give times in ms");
                }
            }
        }
    }
}

impl Handover {
    fn ends_s(&self) -> f64 {
        self.at_s + self.outage_ms / 1e3
    }
}

pub(super) fn check_handovers(handovers: &[Handover], problems: &mut Problems<'_>) {
    for (index, handover) in handovers.iter().enumerate() {
        let key = |name: &str| format!("handovers.{index}.{name}");
        problems.within(&key("at_s"), Some(handover.at_s), 0.0, 86_400.0, "s");
        problems.within(&key("outage_ms"), Some(handover.outage_ms), 0.0, 60_000.0, "ms");
        problems.within(&key("rate_mbit"), handover.rate_mbit, 0.001, 100_000.0, "Mbit/s");
        problems.within(&key("delay_ms"), handover.delay_ms, 0.0, 60_000.0, "ms");
        let early = index > 0 && handover.at_s < handovers[index - 1].ends_s();
        if early {
            let what = "begins before the one before it has ended";
            problems.add(&key("at_s"), what, "give them in the order of time");
        }
    }
}

/// Steps of a value, `[s, value]`.
pub(super) fn check_steps(
    key: &str,
    steps: &[(f64, f64)],
    (from, to, unit): (f64, f64, &str),
    problems: &mut Problems<'_>,
) {
    for (index, (at, value)) in steps.iter().enumerate() {
        problems.within(&format!("{key}.{index}.0"), Some(*at), 0.0, 86_400.0, "s");
        problems.within(&format!("{key}.{index}.1"), Some(*value), from, to, unit);
    }
    match steps {
        [] => return,
        [(first, _), ..] if *first != 0.0 => {
            problems.add(key, "says nothing of the beginning", "let the first begin at 0 s");
        }
        _ => {}
    }
    if let Some(at) = steps.windows(2).position(|pair| pair[1].0 <= pair[0].0) {
        let what = format!("{} s does not follow {} s", steps[at + 1].0, steps[at].0);
        problems.add(key, what, "give steps in the order of time");
    }
}

impl Cross {
    pub(crate) fn bytes(&self) -> u32 {
        self.packet_bytes.unwrap_or(1500)
    }

    pub(super) fn problems(&self, problems: &mut Problems<'_>) {
        problems.within("cross.rate_mbit", Some(self.rate_mbit), 0.001, 100_000.0, "Mbit/s");
        let bytes = self.packet_bytes.map(f64::from);
        problems.within("cross.packet_bytes", bytes, 20.0, 65_535.0, "bytes");
        problems.within("cross.on_ms", self.on_ms, 0.001, 3.6e6, "ms");
        problems.within("cross.off_ms", self.off_ms, 0.001, 3.6e6, "ms");
        if self.on_ms.is_some() != self.off_ms.is_some() {
            problems.add("cross", "on and off need a time each", "set `on_ms` and `off_ms`");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Trace;

    #[test]
    fn a_trace_is_a_number_on_each_line() {
        assert_eq!(Trace::parse("0\n 3\r\n3\n\n12\n").unwrap().ms, [0, 3, 3, 12]);
        assert!(Trace::parse("").unwrap().ms.is_empty());
        for (text, says) in
            [("1\n2.5\n", "line 2: \"2.5\""), ("1\n-1\n", "line 2"), ("x", "line 1")]
        {
            let error = Trace::parse(text).unwrap_err();
            assert!(error.contains(says) && error.contains("milliseconds"), "{error}");
        }
    }
}
