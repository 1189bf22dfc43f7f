//! What a generation did to each host: its windows with it against its windows without it, when
//! all that happens to the whole fleet is taken out.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::waves::{Arm, History};

/// A ratio of two sums over the connections of a host: `retransmitted / sent`. Names are columns of
/// `connections`; `connections` itself counts them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Metric {
    pub of: String,
    pub per: String,
}

impl FromStr for Metric {
    type Err = String;

    fn from_str(text: &str) -> Result<Metric, String> {
        let is_name = |name: &str| {
            !name.is_empty()
                && name.chars().all(|c| c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit())
        };
        match text.split_once('/').map(|(of, per)| (of.trim(), per.trim())) {
            Some((of, per)) if is_name(of) && is_name(per) => {
                Ok(Metric { of: of.to_owned(), per: per.to_owned() })
            }
            _ => Err(format!(
                "'{text}' is no metric: write COLUMN / COLUMN, or COLUMN / connections"
            )),
        }
    }
}

impl TryFrom<String> for Metric {
    type Error = String;

    fn try_from(text: String) -> Result<Metric, String> {
        text.parse()
    }
}

impl From<Metric> for String {
    fn from(metric: Metric) -> String {
        metric.to_string()
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} / {}", self.of, self.per)
    }
}

/// Of one host in one window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sums {
    pub of: f64,
    pub per: f64,
}

impl Sums {
    /// Half an event more than was counted, so that none is not infinitely few.
    fn log_ratio(self) -> f64 {
        ((self.of + 0.5) / (self.per + 0.5)).ln()
    }
}

/// A host's difference, as a logarithm of a ratio: 0.1 is 10 % more with the generation.
#[derive(Clone, Debug, PartialEq)]
pub struct Contrast {
    pub host: String,
    /// Of a host outside: the arm it is taken for, in which it has nothing.
    pub arm: Arm,
    pub is_treated: bool,
    pub difference: f64,
    /// Standard error of it.
    pub error: f64,
}

/// A host's windows with their number.
pub type Windows = Vec<(i64, Sums)>;

/// Windows on each side that a difference needs.
pub(crate) const LEAST: usize = 2;
/// How many windows of its own a host's scatter is worth less than that of all (a prior).
const PRIOR: f64 = 8.0;

/// The differences of all hosts that have enough. Hosts outside of the wave are compared as if they
/// were in either arm: what comes out of that is chance.
pub fn contrasts(history: &History, hosts: &[(String, Windows)], least: f64) -> Vec<Contrast> {
    let arm_of = |host: &str| history.arm(host);
    let hosts: Vec<(&str, Arm, &Windows)> =
        hosts.iter().map(|(host, windows)| (host.as_str(), arm_of(host), windows)).collect();
    let center = centers(&hosts, least);
    let mut raw = Vec::new();
    for (host, arm, windows) in hosts {
        let is_treated = arm != Arm::Outside;
        let taken = if is_treated { vec![arm] } else { vec![Arm::First, Arm::Second] };
        let arms = history.arms(host);
        for taken in taken {
            let had = |window: i64| {
                if is_treated {
                    history.had_in(&arms, window)
                } else {
                    history.would_have(taken, window)
                }
            };
            let residuals = windows.iter().filter(|(_, sums)| sums.per >= least);
            let (on, off): (Vec<_>, Vec<_>) = residuals
                .filter_map(|(at, sums)| Some((*at, sums.log_ratio() - center.get(at)?)))
                .partition(|(at, _)| had(*at));
            if on.len() >= LEAST && off.len() >= LEAST {
                raw.push((host, taken, is_treated, Scatter::of(&on), Scatter::of(&off)));
            }
        }
    }
    let common = common_variance(raw.iter().map(|(.., on, off)| on.pooled(off)));
    raw.into_iter()
        .map(|(host, arm, is_treated, on, off)| {
            let (variance, freedom) = on.pooled(&off);
            let variance = (variance * freedom + common * PRIOR) / (freedom + PRIOR);
            Contrast {
                host: host.to_owned(),
                arm,
                is_treated,
                difference: on.mean - off.mean,
                error: (variance * (1.0 / on.n + 1.0 / off.n)).sqrt(),
            }
        })
        .collect()
}

/// What each window was for the hosts that have nothing.
fn centers(hosts: &[(&str, Arm, &Windows)], least: f64) -> HashMap<i64, f64> {
    let mut all: HashMap<i64, Vec<f64>> = HashMap::new();
    for (_, _, windows) in hosts.iter().filter(|(_, arm, _)| *arm == Arm::Outside) {
        for (at, sums) in windows.iter().filter(|(_, sums)| sums.per >= least) {
            all.entry(*at).or_default().push(sums.log_ratio());
        }
    }
    all.into_iter().map(|(at, mut values)| (at, median(&mut values))).collect()
}

struct Scatter {
    n: f64,
    mean: f64,
    squares: f64,
}

impl Scatter {
    fn of(values: &[(i64, f64)]) -> Scatter {
        let n = values.len() as f64;
        let mean = values.iter().map(|(_, value)| value).sum::<f64>() / n;
        let squares = values.iter().map(|(_, value)| (value - mean).powi(2)).sum();
        Scatter { n, mean, squares }
    }

    /// Variance within both, and its degrees of freedom.
    fn pooled(&self, other: &Scatter) -> (f64, f64) {
        let freedom = self.n + other.n - 2.0;
        ((self.squares + other.squares) / freedom, freedom)
    }
}

fn common_variance(all: impl Iterator<Item = (f64, f64)>) -> f64 {
    let mut variances: Vec<f64> = all.map(|(variance, _)| variance).collect();
    median(&mut variances)
}

/// 0 of nothing.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    let middle = values.len() / 2;
    *values.select_nth_unstable_by(middle, f64::total_cmp).1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waves::Waves;

    #[test]
    fn a_metric_is_two_columns() {
        let metric: Metric = "retransmitted / sent".parse().unwrap();
        assert_eq!((metric.of.as_str(), metric.per.as_str()), ("retransmitted", "sent"));
        for wrong in ["", "sent", "a / ", "drop table / x;", "A / b"] {
            assert!(wrong.parse::<Metric>().unwrap_err().contains("is no metric"), "{wrong}");
        }
    }

    fn history() -> History {
        let waves = Waves { windows: 4, shares: vec![0.0, 0.5, 1.0], ..Waves::default() };
        History { waves, generation: 1, first: "host-0".to_owned(), began: vec![0, 8] }
    }

    #[test]
    fn what_happens_to_all_is_no_difference_and_what_happens_to_the_treated_is() {
        let history = history();
        let windows = |host: &str| -> Windows {
            let of = |at: i64| {
                let day = 100.0 * (1.0 + at.rem_euclid(5) as f64);
                let worse = if history.had(host, at) { 2.0 } else { 1.0 };
                Sums { of: day * worse, per: 10_000.0 }
            };
            (-6..16).map(|at| (at, of(at))).collect()
        };
        let hosts: Vec<_> = (0..40).map(|n| format!("host-{n}")).collect();
        let hosts: Vec<_> = hosts.into_iter().map(|host| (host.clone(), windows(&host))).collect();
        let all = contrasts(&history, &hosts, 100.0);
        let treated = all.iter().filter(|it| it.is_treated).count();
        assert_eq!(all.len(), treated + 2 * (40 - treated), "one in its arm, or taken for both");
        assert!((10..30).contains(&treated), "{treated}");
        for it in all {
            let expected = if it.is_treated { 2f64.ln() } else { 0.0 };
            assert!((it.difference - expected).abs() < 0.01, "{it:?}");
        }
    }

    #[test]
    fn hosts_with_too_little_are_left_out() {
        let few: Windows = (-6..16).map(|at| (at, Sums { of: 1.0, per: 50.0 })).collect();
        let hosts: Vec<_> = (0..9).map(|n| (format!("host-{n}"), few.clone())).collect();
        assert!(contrasts(&history(), &hosts, 100.0).is_empty());
        assert!(!contrasts(&history(), &hosts, 10.0).is_empty());
    }
}
