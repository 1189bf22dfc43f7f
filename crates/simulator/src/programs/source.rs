//! What a sending program has to write, and when.

use transom_emulator::{Nanos, Stream};
use transom_scenario::Traffic;

pub fn nanos(seconds: f64) -> Nanos {
    (seconds * 1e9).round() as Nanos
}

/// Of one connection.
#[derive(Clone, Debug)]
pub enum Source {
    Bulk {
        lasts: Option<Nanos>,
        /// Counted from the first write on.
        until: Option<Nanos>,
        left: Option<u64>,
    },
    OnOff {
        on: bool,
        changes: Nanos,
        until: Nanos,
        means: (f64, f64),
        random: Stream,
    },
    /// Those still to be written; the first is under way with what is left of it.
    Writes {
        writes: std::vec::IntoIter<(Nanos, u64)>,
        current: Option<(Nanos, u64)>,
    },
}

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Write so many bytes at most.
    Write(u64),
    /// Nothing before this time.
    Wait(Nanos),
    End,
}

impl Source {
    /// `start`: of the flow.
    pub fn new(traffic: &Traffic, start: Nanos, random: Stream) -> Option<Source> {
        match traffic {
            Traffic::Bulk { seconds, bytes } => {
                let lasts = seconds.map(nanos);
                Some(Source::Bulk { lasts, until: None, left: *bytes })
            }
            Traffic::OnOff { on_s, off_s, seconds } => Some(Source::OnOff {
                on: false,
                changes: start,
                until: start + nanos(*seconds),
                means: (*on_s, *off_s),
                random,
            }),
            Traffic::Writes { writes } => {
                let all: Vec<_> =
                    writes.iter().map(|(at, bytes)| (start + nanos(*at), *bytes)).collect();
                let mut writes = all.into_iter();
                let current = writes.next();
                Some(Source::Writes { writes, current })
            }
            Traffic::Requests { .. } | Traffic::Constant { .. } => None,
        }
    }

    pub fn turn(&mut self, now: Nanos) -> Turn {
        match self {
            Source::Bulk { until, left, .. } => {
                if until.is_some_and(|until| now >= until) || *left == Some(0) {
                    return Turn::End;
                }
                Turn::Write(left.unwrap_or(u64::MAX))
            }
            Source::OnOff { on, changes, until, means, random } => {
                if now >= *until {
                    return Turn::End;
                }
                while now >= *changes {
                    *on = !*on;
                    let mean = if *on { means.0 } else { means.1 };
                    *changes += nanos(random.exponential(mean)).max(1);
                }
                if *on { Turn::Write(u64::MAX) } else { Turn::Wait((*changes).min(*until)) }
            }
            Source::Writes { writes, current } => loop {
                match current {
                    None => return Turn::End,
                    Some((at, _)) if *at > now => return Turn::Wait(*at),
                    Some((_, 0)) => *current = writes.next(),
                    Some((_, bytes)) => return Turn::Write(*bytes),
                }
            },
        }
    }

    /// So many of them are in the socket.
    pub fn wrote(&mut self, bytes: u64, now: Nanos) {
        if let Source::Bulk { lasts: Some(lasts), until, .. } = self {
            until.get_or_insert(now + *lasts);
        }
        match self {
            Source::Bulk { left: Some(left), .. }
            | Source::Writes { current: Some((_, left)), .. } => {
                *left = left.saturating_sub(bytes);
            }
            _ => {}
        }
    }

    /// When it is to be looked at again though the socket is full.
    pub fn changes(&self) -> Option<Nanos> {
        match self {
            Source::Bulk { until, .. } => *until,
            Source::OnOff { changes, until, .. } => Some((*changes).min(*until)),
            Source::Writes { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(traffic: Traffic) -> Source {
        Source::new(&traffic, 1_000, Stream::new(1, "test")).unwrap()
    }

    #[test]
    fn bulk_ends_with_its_time_or_its_bytes() {
        let mut timed = source(Traffic::Bulk { seconds: Some(1.0), bytes: None });
        assert_eq!(timed.turn(1_000), Turn::Write(u64::MAX));
        timed.wrote(1, 5_000);
        assert_eq!(timed.turn(1_000_004_999), Turn::Write(u64::MAX));
        assert_eq!(timed.turn(1_000_005_000), Turn::End, "a second after the first write");
        let mut counted = source(Traffic::Bulk { seconds: None, bytes: Some(10) });
        counted.wrote(4, 1_000);
        assert_eq!(counted.turn(1_000), Turn::Write(6));
        counted.wrote(6, 1_000);
        assert_eq!(counted.turn(1_000), Turn::End);
    }

    #[test]
    fn each_write_waits_for_its_time_and_for_the_one_before() {
        let mut source = source(Traffic::Writes { writes: vec![(0.0, 5), (1e-6, 7)] });
        assert_eq!(source.turn(1_000), Turn::Write(5));
        source.wrote(2, 1_000);
        assert_eq!(source.turn(5_000), Turn::Write(3), "the first is not through");
        source.wrote(3, 1_000);
        assert_eq!(source.turn(1_500), Turn::Wait(2_000));
        assert_eq!(source.turn(2_000), Turn::Write(7));
        source.wrote(7, 2_000);
        assert_eq!(source.turn(2_000), Turn::End);
    }

    #[test]
    fn on_and_off_take_turns_with_their_means() {
        let traffic = Traffic::OnOff { on_s: 0.1, off_s: 0.3, seconds: 2_000.0 };
        let mut source = source(traffic);
        let (mut on, mut now) = (0u64, 1_000);
        while source.turn(now) != Turn::End {
            let next = source.changes().unwrap();
            on += if matches!(source.turn(now), Turn::Write(_)) { next - now } else { 0 };
            now = next;
        }
        let share = on as f64 / 2e12;
        assert!((0.22..0.28).contains(&share), "{share}");
    }
}
