//! Whether a generation does harm: to the mean of the hosts that have it, or to some of them.

use serde::{Deserialize, Serialize};

use crate::chance::{STUDENT_95, at_least, student_tail};
use crate::contrast::{Contrast, Metric, median};
use crate::waves::Arm;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Worse {
    Higher,
    Lower,
}

/// What may not become worse.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gate {
    pub name: String,
    pub metric: Metric,
    pub worse: Worse,
    /// A change by this share is none: 0.1.
    pub tolerate: f64,
    /// Least sum below the line for a window of a host to count.
    #[serde(default = "least")]
    pub least: f64,
}

/// Where a gate does not say.
pub(crate) const LEAST: f64 = 100.0;

fn least() -> f64 {
    LEAST
}

/// What a gate found in one look.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    pub gate: String,
    /// Hosts that have it or had it, and hosts outside.
    pub treated: usize,
    pub outside: usize,
    /// Mean change of the treated as a share, with its interval of 95 %; 0.1 is 10 % more. Of a few
    /// hosts the interval is by their own errors, and says nothing of others.
    pub change: Option<(f64, f64, f64)>,
    /// How likely what is seen is without harm: to the mean, and to some hosts.
    pub chance_of_mean: f64,
    pub chance_of_hosts: f64,
    /// The hosts that stand out most, worst first, with their change.
    pub worst: Vec<(String, f64)>,
}

/// Below that, the scatter of those outside says nothing about the one treated host.
pub const LEAST_OUTSIDE: usize = 20;
/// Below that, there is no mean to speak of.
const LEAST_TREATED: usize = 5;
const WORST: usize = 5;

impl Gate {
    /// Worse is up.
    fn sign(&self) -> f64 {
        if self.worse == Worse::Higher { 1.0 } else { -1.0 }
    }

    /// The bound as a logarithm: a ratio that falls by 10 % is 0.9, not 1/1.1.
    fn bound(&self) -> f64 {
        match self.worse {
            Worse::Higher => self.tolerate.ln_1p(),
            Worse::Lower => -(-self.tolerate.min(0.99)).ln_1p(),
        }
    }

    pub fn judge(&self, contrasts: &[Contrast]) -> Judged {
        let chance = [Arm::First, Arm::Second].map(|arm| Chance::of(contrasts, arm, self.sign()));
        let of = |arm| &chance[usize::from(arm == Arm::Second)];
        let (mut found, mut tails, mut variance) = (Vec::new(), Vec::new(), 0.0);
        for it in contrasts.iter().filter(|it| it.is_treated) {
            let change = self.sign() * it.difference - of(it.arm).center;
            found.push((it.host.clone(), change));
            tails.push(of(it.arm).tail((change - self.bound()) / it.error));
            variance += (it.error * of(it.arm).scale).powi(2);
        }
        // In the first half of a wave, nobody in its second arm has had it yet.
        let is_in = |arm| contrasts.iter().any(|it| it.is_treated && it.arm == arm);
        let arms = [Arm::First, Arm::Second].into_iter().filter(|arm| is_in(*arm));
        let all = chance.iter().map(|it| it.outside.len()).max().unwrap_or(0);
        let outside = arms.map(|arm| of(arm).outside.len()).min().unwrap_or(all);
        let mut judged = Judged {
            gate: self.name.clone(),
            treated: found.len(),
            outside,
            chance_of_mean: 1.0,
            chance_of_hosts: 1.0,
            ..Judged::default()
        };
        if outside < LEAST_OUTSIDE || found.is_empty() {
            return judged;
        }
        judged.chance_of_hosts = scan(&mut tails);
        if found.len() >= LEAST_TREATED {
            self.judge_mean(&found, &chance, &mut judged);
        } else {
            let n = found.len() as f64;
            let mean = found.iter().map(|(_, change)| change).sum::<f64>() / n;
            judged.change = Some(self.interval(mean, variance.sqrt() / n * STUDENT_95));
        }
        found.sort_by(|a, b| b.1.total_cmp(&a.1));
        let as_share = |log: f64| (self.sign() * log).exp_m1();
        judged.worst =
            found.into_iter().take(WORST).map(|(host, log)| (host, as_share(log))).collect();
        judged
    }

    fn judge_mean(&self, found: &[(String, f64)], chance: &[Chance; 2], judged: &mut Judged) {
        let (mean, variance) = moments(found.iter().map(|(_, change)| *change));
        let arms = chance.iter().filter(|it| !it.outside.is_empty());
        let scatter: Vec<f64> = arms.map(|it| moments(it.outside.iter().copied()).1).collect();
        // One host is outside in both arms.
        let outside = scatter.iter().sum::<f64>() / scatter.len() as f64 / judged.outside as f64;
        let error = (variance / found.len() as f64 + outside).sqrt().max(1e-9);
        judged.chance_of_mean = student_tail((mean - self.bound()) / error);
        judged.change = Some(self.interval(mean, 1.96 * error));
    }

    /// As shares, the lower one first.
    fn interval(&self, mean: f64, half: f64) -> (f64, f64, f64) {
        let [one, mean, other] =
            [mean - half, mean, mean + half].map(|log| (self.sign() * log).exp_m1());
        (one.min(other), mean, one.max(other))
    }
}

/// What hosts outside show in an arm in which they had nothing.
struct Chance {
    center: f64,
    /// Their differences around it.
    outside: Vec<f64>,
    /// By how much their scatter is more than their errors say.
    scale: f64,
    /// By how much far outliers are more frequent than the tail says.
    excess: f64,
}

impl Chance {
    fn of(contrasts: &[Contrast], arm: Arm, sign: f64) -> Chance {
        let all: Vec<&Contrast> =
            contrasts.iter().filter(|it| !it.is_treated && it.arm == arm).collect();
        let center = median(&mut all.iter().map(|it| sign * it.difference).collect::<Vec<_>>());
        let outside: Vec<f64> = all.iter().map(|it| sign * it.difference - center).collect();
        let in_errors = |it: (&f64, &&Contrast)| it.0 / it.1.error;
        let units: Vec<f64> = outside.iter().zip(&all).map(in_errors).collect();
        // The median deviation of a normal distribution is 0.6745 of its standard deviation.
        let deviation = median(&mut units.iter().map(|unit| unit.abs()).collect::<Vec<_>>());
        let scale = (deviation / 0.6745).max(0.5);
        let mut tails: Vec<f64> = units.iter().map(|unit| student_tail(unit / scale)).collect();
        tails.sort_by(f64::total_cmp);
        let n = tails.len() as f64;
        let excess = tails
            .iter()
            .enumerate()
            .map(|(at, tail)| (at as f64 + 1.0) / n / tail)
            .fold(1.0, f64::max);
        Chance { center, outside, scale, excess }
    }

    fn tail(&self, units: f64) -> f64 {
        (student_tail(units / self.scale) * self.excess).min(1.0)
    }
}

/// How likely such small tails are, one or several of them: for each number of hosts the binomial
/// tail, and all these questions share the chance to err.
fn scan(tails: &mut [f64]) -> f64 {
    tails.sort_by(f64::total_cmp);
    let each = tails.iter().enumerate().map(|(at, tail)| {
        let many = at + 1;
        at_least(many, tails.len(), *tail) * (many * (many + 1)) as f64
    });
    each.fold(1.0, f64::min)
}

fn moments(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let values: Vec<f64> = values.collect();
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance =
        values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    (mean, variance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_host_has_an_interval_by_its_own_error_and_no_mean() {
        let gate: Gate = "loss = retransmitted / sent, higher, 10 %".parse().unwrap();
        let of = |n: usize, arm, is_treated, difference| Contrast {
            host: format!("host-{n}"),
            arm,
            is_treated,
            difference,
            error: 0.1,
        };
        let mut contrasts = vec![of(0, Arm::First, true, 2f64.ln())];
        for arm in [Arm::First, Arm::Second] {
            // As far apart as their errors say: quantiles of a normal distribution, nearly.
            let outside = |n: usize| ((n as f64 - 12.0) / 12.0 * 1.2).tan() * 0.08;
            contrasts.extend((0..25).map(|n| of(n + 1, arm, false, outside(n))));
        }
        let judged = gate.judge(&contrasts);
        let (low, change, high) = judged.change.unwrap();
        assert!((change - 1.0).abs() < 1e-9, "twice as much is 100 % more: {change}");
        assert!(0.4 < low && low < change && change < high && high < 2.0, "{low} to {high}");
        assert_eq!((judged.treated, judged.chance_of_mean), (1, 1.0));
        // In the first half of a wave, hosts outside can be taken for its first arm only.
        contrasts.retain(|it| it.arm == Arm::First);
        let in_first_half = gate.judge(&contrasts);
        assert_eq!((in_first_half.outside, in_first_half.change), (25, judged.change));
        assert!(in_first_half.chance_of_hosts < 1e-3, "{}", in_first_half.chance_of_hosts);
    }

    #[test]
    fn what_is_tolerated_is_a_share_in_either_direction() {
        let bound = |text: &str| text.parse::<Gate>().unwrap().bound();
        assert!((bound("a / b, higher, 10 %") - 1.1f64.ln()).abs() < 1e-12);
        assert!((bound("a / b, higher, 300 %") - 4f64.ln()).abs() < 1e-12);
        assert!((bound("a / b, lower, 10 %") + 0.9f64.ln()).abs() < 1e-12);
        assert!(bound("a / b, lower, 300 %") > 4.0, "less than nothing is not possible");
    }
}
