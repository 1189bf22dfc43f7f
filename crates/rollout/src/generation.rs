//! What the hosts of a fleet are given, and until when it holds.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::gate::Gate;
use crate::progress::Progress;
use crate::waves::{Arm, Waves};

/// Of a generation and of what is current. A host that reads a higher one does nothing and says so.
pub const FORMAT: u32 = 1;

/// `policy/gen-N`: never changed once it is there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Generation {
    pub format: u32,
    pub number: u64,
    /// Text for `transom tune apply`; none: nothing is tuned, which is how one goes back.
    pub policy: Option<String>,
    pub waves: Waves,
    pub gates: Vec<Gate>,
    /// What `whatif` expects of it, for each gate: the ends of an interval, as shares.
    #[serde(default)]
    pub expected: Vec<(String, f64, f64)>,
}

/// `policy/current`: where the roll-out is. Renewed with each window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Current {
    pub format: u32,
    pub generation: u64,
    /// The one before, which control and hosts outside have; 0: none.
    pub before: u64,
    pub wave: usize,
    /// The host of the first wave.
    pub first: String,
    /// When the wave began, and when this was written, seconds since 1970.
    pub began_s: u64,
    pub written_s: u64,
    /// It holds so long from when it was written.
    pub lease_s: u64,
    /// What the controller goes on from; hosts do not look at it.
    #[serde(default)]
    pub progress: Progress,
}

/// What a host has seen, so that nobody shows it something older.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    pub generation: u64,
    pub written_s: u64,
}

/// What a host is to have now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The policy of this generation; 0: nothing.
    Have(u64),
    /// Nothing, and why.
    Nothing(Reason),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Nobody renewed it.
    LeaseOver {
        since_s: u64,
    },
    /// It was shown before, or something newer was.
    Replayed {
        known: Known,
    },
    Newer {
        format: u32,
    },
    /// It was written later than now: one of both clocks is wrong.
    Future {
        by_s: u64,
    },
}

/// How far two clocks may be apart.
const CLOCKS_S: u64 = 300;

impl Current {
    /// Whether a host that knows this much believes it. It is known when this returns.
    ///
    /// # Errors
    /// It does not, and why: nothing is known that was not before.
    pub fn believe(&self, now_s: u64, known: &mut Known) -> Result<(), Reason> {
        if self.format > FORMAT {
            return Err(Reason::Newer { format: self.format });
        }
        let seen = Known { generation: self.generation, written_s: self.written_s };
        if (seen.generation, seen.written_s) < (known.generation, known.written_s) {
            return Err(Reason::Replayed { known: *known });
        }
        if self.written_s > now_s.saturating_add(CLOCKS_S) {
            return Err(Reason::Future { by_s: self.written_s - now_s });
        }
        *known = seen;
        Ok(())
    }

    /// For this host now. `known` is what it has seen before, and has seen when this returns.
    pub fn turn(&self, waves: &Waves, host: &str, now_s: u64, known: &mut Known) -> Turn {
        if let Err(reason) = self.believe(now_s, known) {
            return Turn::Nothing(reason);
        }
        let ends = self.ends_s();
        if now_s >= ends {
            return Turn::Nothing(Reason::LeaseOver { since_s: now_s - ends });
        }
        let window = now_s.saturating_sub(self.began_s) / waves.window_s.max(1);
        let arm = waves.arm(host, &self.first, self.generation, self.wave);
        let has = arm != Arm::Outside
            && waves.has(arm, self.wave, u32::try_from(window).unwrap_or(u32::MAX));
        Turn::Have(if has { self.generation } else { self.before })
    }

    /// When it holds no longer, seconds since 1970.
    pub fn ends_s(&self) -> u64 {
        self.written_s.saturating_add(self.lease_s)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::LeaseOver { since_s } => {
                write!(f, "its lease was over {since_s} s ago: nobody renews it")
            }
            Reason::Replayed { known } => write!(
                f,
                "it is older than what was there before, generation {} of {}: replayed?",
                known.generation, known.written_s
            ),
            Reason::Newer { format } => {
                write!(f, "it has the format {format}, and this program reads {FORMAT}: upgrade it")
            }
            Reason::Future { by_s } => {
                write!(f, "it was written {by_s} s from now: a clock is wrong")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn current() -> Current {
        Current {
            format: FORMAT,
            generation: 5,
            before: 4,
            wave: 4,
            first: "a".to_owned(),
            began_s: 10_000,
            written_s: 20_000,
            lease_s: 3_600,
            progress: Progress::default(),
        }
    }

    fn turn(current: &Current, now_s: u64, known: &mut Known) -> Turn {
        current.turn(&Waves::default(), "a", now_s, known)
    }

    #[test]
    fn a_lease_that_is_not_renewed_undoes_itself() {
        let mut known = Known::default();
        assert_eq!(turn(&current(), 23_599, &mut known), Turn::Have(5));
        let over = Turn::Nothing(Reason::LeaseOver { since_s: 0 });
        assert_eq!(turn(&current(), 23_600, &mut known), over);
        let renewed = Current { written_s: 23_600, ..current() };
        assert_eq!(turn(&renewed, 23_600, &mut known), Turn::Have(5));
    }

    #[test]
    fn what_is_older_than_what_was_seen_is_not_believed() {
        let mut known = Known { generation: 5, written_s: 20_001 };
        let replayed = Turn::Nothing(Reason::Replayed { known });
        assert_eq!(turn(&current(), 20_100, &mut known), replayed);
        let mut known = Known { generation: 6, written_s: 1 };
        assert!(matches!(turn(&current(), 20_100, &mut known), Turn::Nothing(_)));
        let mut known = Known { generation: 4, written_s: 99_999 };
        assert_eq!(turn(&current(), 20_100, &mut known), Turn::Have(5), "a newer generation");
        assert_eq!(known, Known { generation: 5, written_s: 20_000 });
    }

    #[test]
    fn what_is_of_a_newer_format_or_from_the_future_is_left_alone() {
        let mut known = Known::default();
        let newer = Current { format: FORMAT + 1, ..current() };
        assert_eq!(turn(&newer, 20_100, &mut known), Turn::Nothing(Reason::Newer { format: 2 }));
        let future = Turn::Nothing(Reason::Future { by_s: 301 });
        assert_eq!(turn(&current(), 19_699, &mut known), future);
        assert_eq!(known, Known::default(), "and is not remembered");
        assert_eq!(turn(&current(), 19_700, &mut known), Turn::Have(5));
    }

    #[test]
    fn control_and_hosts_outside_keep_the_one_before() {
        let waves = Waves::default();
        let in_wave = Current { wave: 2, lease_s: 36_000, ..current() };
        let of = |host: &str, now_s| in_wave.turn(&waves, host, now_s, &mut Known::default());
        let half = u64::from(waves.windows) * waves.window_s;
        for number in 0..1000 {
            let host = format!("host-{number}");
            let halves = [of(&host, 20_000), of(&host, 20_000 + half)];
            let expected = match waves.arm(&host, "a", 5, 2) {
                Arm::Outside => [4, 4],
                // The wave began 10,000 s ago: that is in its third half of an hour.
                Arm::First => [5, 4],
                Arm::Second => [4, 5],
            };
            let expected = expected.map(Turn::Have);
            assert!(
                halves == expected || matches!(halves[1], Turn::Nothing(_)),
                "{host}: {halves:?}"
            );
        }
    }
}
