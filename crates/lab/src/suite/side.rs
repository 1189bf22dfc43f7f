//! One side of a comparison: a kernel, and settings.

use std::collections::BTreeMap;
use std::str::FromStr;

use anyhow::{Error, Result, bail};
use transom_scenario::Scenario;

/// `6.12`, `6.1,cc=bbr`, `6.12,ipv4.tcp_recovery=0`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Side {
    /// As it was given.
    pub label: String,
    /// Series; empty: the engine's newest.
    kernel: String,
    /// Of every host, without `net.`.
    sysctl: BTreeMap<String, String>,
    /// Of the flows that name none.
    congestion: Option<String>,
}

impl FromStr for Side {
    type Err = Error;

    fn from_str(text: &str) -> Result<Side> {
        let mut parts = text.split(',');
        let kernel = parts.next().unwrap_or_default().trim().to_owned();
        if !kernel.chars().all(|c| c.is_ascii_digit() || c == '.') || kernel.is_empty() {
            bail!("'{text}' does not begin with a kernel's series, as 6.12 is one");
        }
        let mut side = Side { label: text.to_owned(), kernel, ..Side::default() };
        for part in parts {
            let Some((key, value)) = part.split_once('=') else {
                bail!("'{part}' is no setting: give a sysctl without `net.` or cc, = and a value");
            };
            let (key, value) = (key.trim(), value.trim().to_owned());
            match key.strip_prefix("net.").unwrap_or(key) {
                "cc" => side.congestion = Some(value),
                key => {
                    side.sysctl.insert(key.to_owned(), value);
                }
            }
        }
        Ok(side)
    }
}

impl Side {
    pub(super) fn apply(&self, scenario: &mut Scenario) {
        for host in scenario.hosts.values_mut() {
            host.kernel = Some(self.kernel.clone());
            host.sysctl.extend(self.sysctl.clone());
        }
        for flow in scenario.flows.values_mut() {
            flow.sender.congestion = flow.sender.congestion.take().or(self.congestion.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_side_is_a_series_and_settings() {
        let side: Side = "6.12,cc=bbr,net.ipv4.tcp_sack=0".parse().unwrap();
        assert_eq!((side.kernel.as_str(), side.congestion.as_deref()), ("6.12", Some("bbr")));
        assert_eq!(side.sysctl["ipv4.tcp_sack"], "0");
    }

    #[test]
    fn what_is_no_side_says_what_one_is() {
        for (text, says) in [("bbr", "series"), ("", "series"), ("6.12,tcp_sack", "no setting")] {
            let error = text.parse::<Side>().unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
