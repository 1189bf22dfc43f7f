//! The pieces of PromQL that dashboard and alert rules are made of. Every series is named by its
//! definition, so that no query asks for a metric that is not served.

use crate::agent;
use crate::definition::{Definition, Kind};

/// Which series, and over how long a rate is taken.
#[derive(Clone, Copy)]
pub struct Scope {
    matcher: &'static str,
    window: &'static str,
    /// Of what rises with interim rows, where that takes another one.
    window_of_rows: Option<&'static str>,
}

const ALL: Scope = Scope { matcher: "", window: "", window_of_rows: None };

/// The instances that are chosen above the dashboard; Grafana knows how often they are scraped.
pub const CHOSEN: Scope =
    Scope { matcher: "instance=~\"$instance\"", window: "$__rate_interval", ..ALL };
/// Of the time that the dashboard shows.
pub const SHOWN: Scope = Scope { window: "$__range", ..CHOSEN };
/// The hosts that are chosen above the dashboard of a fleet. Of one host the agent and the node exporter
/// have addresses with other ports.
pub const HOSTS: Scope = Scope { matcher: "instance=~\"(?:$host)(?::[0-9]+)?\"", ..CHOSEN };
/// Of the time that the dashboard shows.
pub const HOSTS_SHOWN: Scope = Scope { window: "$__range", ..HOSTS };
/// As a rule asks for what needs no rate.
pub const ANY: Scope = ALL;
/// Twice the time between two interim rows.
pub const INTERIMS: &str = "10m";
/// As a rule asks. A rate begins at the first scrape within its window: two interim rows are in it
/// at every moment when it is as long as they, a scrape in a minute, and a walk that writes a row late.
pub const TEN_MINUTES: Scope = Scope { window: "10m", window_of_rows: Some("12m"), ..ALL };

impl Scope {
    fn window(self, of: &Definition) -> &'static str {
        self.window_of_rows.filter(|_| of.by_interim_rows).unwrap_or(self.window)
    }

    fn series(self, name: &str, labels: &str) -> String {
        let matchers: Vec<&str> =
            [self.matcher, labels].into_iter().filter(|one| !one.is_empty()).collect();
        let matchers = matchers.join(",");
        if matchers.is_empty() { name.into() } else { format!("{name}{{{matchers}}}") }
    }

    /// As it is now.
    pub fn now(self, of: &Definition) -> String {
        self.series(&of.series(), "")
    }

    /// As it is now, of these labels.
    pub fn labelled(self, of: &Definition, labels: &str) -> String {
        self.series(&of.series(), labels)
    }

    /// `labels`: matchers, or nothing.
    pub fn rate_of(self, of: &Definition, labels: &str) -> String {
        assert_eq!(of.kind, Kind::Counter);
        format!("rate({}[{}])", self.series(&of.series(), labels), self.window(of))
    }

    pub fn rate(self, of: &Definition, by: &str) -> String {
        sum(by, &self.rate_of(of, ""))
    }

    /// Retransmissions of connections that were established. Others retransmit SYNs, which are no
    /// data segments: no share of those is made of them.
    pub fn retransmitted(self, by: &str) -> String {
        let established = format!("type!=\"{}\"", agent::SYN);
        sum(by, &self.rate_of(&agent::RETRANSMITTED, &established))
    }

    pub fn retransmitted_share(self, by: &str) -> String {
        format!("{} / {}", self.retransmitted(by), self.rate(&agent::DATA_SEGMENTS, by))
    }

    pub fn increase(self, of: &Definition, by: &str) -> String {
        assert_eq!(of.kind, Kind::Counter);
        sum(by, &format!("increase({}[{}])", self.series(&of.series(), ""), self.window(of)))
    }

    /// Of native histograms where they are scraped, else of classic ones.
    pub fn quantile(self, quantile: &str, of: &Definition, by: &str) -> String {
        assert_eq!(of.kind, Kind::Histogram);
        let name = of.series();
        let rate = |name: &str| format!("rate({}[{}])", self.series(name, ""), self.window(of));
        let classic_by = if by.is_empty() { "le".into() } else { format!("{by}, le") };
        format!(
            "histogram_quantile({quantile}, {}) or histogram_quantile({quantile}, {})",
            sum(by, &rate(&name)),
            sum(&classic_by, &rate(&format!("{name}_bucket"))),
        )
    }
}

pub fn sum(by: &str, of: &str) -> String {
    if by.is_empty() { format!("sum({of})") } else { format!("sum by ({by}) ({of})") }
}
