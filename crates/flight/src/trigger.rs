//! When the last minutes are worth a file: so many events of a kind on one connection in so long.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::str::FromStr;

use transom_event::{Kind, Raw};

/// Connections that are counted at once; beyond it those begin anew that were counted longest ago.
const MOST: usize = 65_536;

/// `rto`, `rto=2`, `retransmit=50/1s`: KIND, how many, and within which time [10 s].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    pub kind: Kind,
    pub number: u32,
    pub within_ns: u64,
}

const WITHIN_NS: u64 = 10_000_000_000;

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, number, ns) = (self.kind.name(), self.number, self.within_ns);
        match ns {
            _ if ns.is_multiple_of(60_000_000_000) => {
                write!(f, "{kind}={number}/{}m", ns / 60_000_000_000)
            }
            _ if ns.is_multiple_of(1_000_000_000) => {
                write!(f, "{kind}={number}/{}s", ns / 1_000_000_000)
            }
            _ => write!(f, "{kind}={number}/{}ms", ns as f64 / 1e6),
        }
    }
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Condition, String> {
        let (kind, rest) = text.split_once('=').map_or((text, None), |(k, r)| (k, Some(r)));
        let Some(kind) = Kind::from_name(kind) else {
            let names: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
            return Err(format!("'{kind}' is no kind of event: {}", names.join(", ")));
        };
        let (number, time) = match rest {
            None => ("1", None),
            Some(rest) => rest.split_once('/').map_or((rest, None), |(n, t)| (n, Some(t))),
        };
        let number = match number.parse() {
            Ok(number @ 1..=100_000) => number,
            _ => return Err(format!("'{number}' events: give a number from 1 to 100000")),
        };
        let within_ns = time.map_or(Ok(WITHIN_NS), nanoseconds)?;
        Ok(Condition { kind, number, within_ns })
    }
}

fn nanoseconds(text: &str) -> Result<u64, String> {
    let at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let scale = match unit {
        "ms" => 1e6,
        "" | "s" => 1e9,
        "m" | "min" => 60e9,
        "h" => 3600e9,
        _ => return Err(format!("'{unit}' is no unit of this time: use ms, s, m or h")),
    };
    match number.parse::<f64>() {
        Ok(number) if number > 0.0 && number * scale <= 3600e9 => Ok((number * scale) as u64),
        _ => Err(format!("'{text}' is no time: give one up to an hour, as 500ms or 10s")),
    }
}

/// Watches for one condition.
pub struct Trigger {
    pub condition: Condition,
    /// Times of the last such events of each connection.
    times: HashMap<u64, VecDeque<u64>>,
}

impl Trigger {
    pub fn new(condition: Condition) -> Trigger {
        Trigger { condition, times: HashMap::new() }
    }

    /// Whether this event fulfils it; counting begins anew then.
    pub fn sees(&mut self, raw: &Raw) -> bool {
        let Condition { kind, number, within_ns } = self.condition;
        if u32::from(raw.head.kind) != kind as u32 {
            return false;
        }
        if self.times.len() >= MOST && !self.times.contains_key(&raw.head.cookie) {
            let now = raw.head.time_ns;
            self.times.retain(|_, times| times.back().is_some_and(|t| t + within_ns > now));
            if self.times.len() >= MOST {
                self.times.clear();
            }
        }
        let times = self.times.entry(raw.head.cookie).or_default();
        times.push_back(raw.head.time_ns);
        while times.front().is_some_and(|&first| first + within_ns < raw.head.time_ns) {
            times.pop_front();
        }
        let is_fulfilled = times.len() >= number as usize;
        if is_fulfilled {
            times.clear();
        }
        is_fulfilled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transom_event::{Body, Event, Place, State};

    fn event(ms: u64, cookie: u64, kind: Kind) -> Raw {
        let (time_ns, body) = (ms * 1_000_000, Body::State(State::default()));
        let place = Place::SetState;
        Raw::from(&Event { time_ns, cookie, tgid: 1, cpu: 0, kind, place, aux: [0, 0], body })
    }

    fn fires(condition: &str, events: &[(u64, u64, Kind)]) -> Vec<u64> {
        let mut trigger = Trigger::new(condition.parse().unwrap());
        let fired =
            events.iter().filter(|&&(ms, cookie, kind)| trigger.sees(&event(ms, cookie, kind)));
        fired.map(|&(ms, ..)| ms).collect()
    }

    #[test]
    fn so_many_of_one_connection_in_so_long() {
        let rto = |ms, cookie| (ms, cookie, Kind::Rto);
        assert_eq!(fires("rto=2/1s", &[rto(0, 1), rto(900, 1)]), [900]);
        assert_eq!(fires("rto=2/1s", &[rto(0, 1), rto(1100, 1), rto(1200, 1)]), [1200]);
        assert_eq!(fires("rto=2/1s", &[rto(0, 1), rto(1, 2), rto(2, 3)]), [] as [u64; 0]);
        assert_eq!(fires("rto", &[(5, 1, Kind::Ack), rto(6, 1), rto(7, 1)]), [6, 7]);
    }

    #[test]
    fn after_it_was_fulfilled_counting_begins_anew() {
        let rto = |ms| (ms, 1, Kind::Rto);
        assert_eq!(fires("rto=2/10s", &[rto(0), rto(1), rto(2), rto(3)]), [1, 3]);
    }

    #[test]
    fn a_condition_is_written_as_it_is_read() {
        for text in ["retransmit=50/1s", "rto=2/10m", "rto=2/1500ms", "rto=1/0.5ms"] {
            let condition: Condition = text.parse().unwrap();
            assert_eq!(condition.to_string(), text);
        }
        let condition: Condition = "rto".parse().unwrap();
        assert_eq!(condition.to_string(), "rto=1/10s");
    }

    #[test]
    fn an_hour_is_the_longest_time_and_has_a_word() {
        let hour: Condition = "rto=2/1h".parse().unwrap();
        assert_eq!((hour.within_ns, hour), (3_600_000_000_000, "rto=2/60m".parse().unwrap()));
        let longer = "rto=2/61m".parse::<Condition>().unwrap_err();
        assert!(longer.contains("up to an hour"), "{longer}");
    }

    #[test]
    fn a_mistake_is_named() {
        let refusal = |text: &str| text.parse::<Condition>().unwrap_err();
        assert!(refusal("timeout").contains("'timeout' is no kind of event"));
        assert!(refusal("rto=0").contains("'0' events"));
        assert!(refusal("rto=2/1y").contains("'y' is no unit"));
        assert!(refusal("rto=2/0s").contains("'0s' is no time"));
    }
}
