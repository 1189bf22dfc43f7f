//! Hosts of a wave of which a gate has nothing to judge: with the generation they have no rows.
//!
//! A row comes when a connection ends. A generation with which none ends any more, or no row arrives,
//! looks like one that does no harm; so does one that no host has, since its name is another.

use crate::chance::at_least;
use crate::contrast::{LEAST, Windows};
use crate::gate::{Gate, Judged, LEAST_OUTSIDE};
use crate::waves::{Arm, History};

/// Of one gate, at the end of a wave.
#[derive(Clone, Debug, PartialEq)]
pub struct Silence {
    pub gate: Gate,
    /// Those without rows with the generation, and of how many some are expected.
    pub hosts: Vec<String>,
    pub of: usize,
}

/// That so many are silent is chance: less likely than that, it is none.
const CHANCE: f64 = 0.001;

/// `None`: enough hosts have rows. `hosts` are the windows of each host that has any, up to now.
pub(crate) fn silence(
    history: &History,
    gate: &Gate,
    hosts: &[(String, Windows)],
    judged: &Judged,
) -> Option<Silence> {
    let began = history.began.last().copied().unwrap_or(0);
    let counts = |windows: &Windows, is_it: &dyn Fn(i64) -> bool| {
        windows.iter().filter(|(at, sums)| sums.per >= gate.least && is_it(*at)).count()
    };
    let is_known = |windows: &Windows| counts(windows, &|at| at < began) > 0;
    // From the first host rows are expected, whether it had some before or not.
    let first = Some(&history.first).filter(|_| history.began.len() == 1);
    let (mut silent, mut of, mut arms) = (Vec::new(), 0, Vec::new());
    for (host, windows) in hosts {
        let arm = history.arm(host);
        if arm == Arm::Outside || !(first == Some(host) || is_known(windows)) {
            continue;
        }
        of += 1;
        arms.push(arm);
        if counts(windows, &|at| at >= began && history.had(host, at)) < LEAST {
            silent.push(host.clone());
        }
    }
    if of == 0 {
        let hosts: Vec<String> = first.into_iter().cloned().collect();
        return Some(Silence { gate: gate.clone(), of: hosts.len(), hosts });
    }
    // How many of those who have nothing are silent in the same windows.
    let (mut outside, mut silent_outside) = (0, 0);
    for (_, windows) in hosts.iter().filter(|(host, _)| history.arm(host) == Arm::Outside) {
        for arm in [Arm::First, Arm::Second].into_iter().filter(|arm| arms.contains(arm)) {
            if is_known(windows) {
                let rows = counts(windows, &|at| history.would_have(arm, at));
                outside += 1;
                silent_outside += usize::from(rows < LEAST);
            }
        }
    }
    let each = (silent_outside as f64 + 1.0) / (outside as f64 + 2.0);
    let is_blind = judged.treated == 0 && judged.outside >= LEAST_OUTSIDE;
    let is_silent = silent.len() == of || at_least(silent.len(), of, each) < CHANCE;
    (is_blind || is_silent).then(|| Silence { gate: gate.clone(), hosts: silent, of })
}
