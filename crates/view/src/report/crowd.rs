//! Marks and bands too close to be told apart, drawn as one that counts or covers them all.

use std::ops::Range;

/// Equal parts of a span of time.
#[derive(Clone, Copy, Debug)]
pub struct Buckets {
    start: u64,
    span: u64,
    count: u64,
}

impl Buckets {
    /// `count` buckets over the times of `range`, its end included.
    pub fn new(range: Range<u64>, count: usize) -> Buckets {
        let span = range.end.saturating_sub(range.start).saturating_add(1);
        Buckets { start: range.start, span, count: count.max(1) as u64 }
    }

    pub fn of(&self, time: u64) -> u64 {
        let at = u128::from(time.saturating_sub(self.start)) * u128::from(self.count);
        (at / u128::from(self.span)) as u64
    }
}

/// One mark of the picture: `count` events of one kind, from `time` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tick {
    pub time: u64,
    pub kind: u8,
    pub count: u64,
}

/// Draws the events of one kind in one bucket as one mark with their number.
///
/// Up to `limit` marks nothing is folded: each event is a mark of its own.
pub fn fold(buckets: Buckets, limit: usize, marks: &[(u64, u8)]) -> Vec<Tick> {
    let alone = marks.len() <= limit;
    let mut ticks: Vec<Tick> = Vec::new();
    let mut open = [None::<(u64, usize)>; 256];
    for &(time, kind) in marks {
        let bucket = buckets.of(time);
        match open[usize::from(kind)] {
            Some((at, tick)) if !alone && at == bucket => ticks[tick].count += 1,
            _ => {
                open[usize::from(kind)] = Some((bucket, ticks.len()));
                ticks.push(Tick { time, kind, count: 1 });
            }
        }
    }
    ticks
}

/// A stretch of time in one congestion state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Band {
    pub from: u64,
    pub to: u64,
    pub state: u8,
}

/// Joins bands that start in one bucket, under the gravest of their states.
///
/// Up to `limit` bands nothing is joined.
pub fn join(buckets: Buckets, limit: usize, bands: &[Band]) -> Vec<Band> {
    if bands.len() <= limit {
        return bands.to_vec();
    }
    let mut joined: Vec<Band> = Vec::new();
    for &band in bands {
        match joined.last_mut() {
            Some(last) if buckets.of(last.from) == buckets.of(band.from) => {
                last.to = last.to.max(band.to);
                last.state = last.state.max(band.state);
            }
            _ => joined.push(band),
        }
    }
    joined
}
