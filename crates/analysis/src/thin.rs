//! Fewer points for a picture, without hiding what they show.
//!
//! The time axis is cut into equal buckets; each keeps its first and last
//! point and, for every curve, a point with its least and one with its
//! greatest value (the M4 aggregation of Jugel et al., VLDB 2014, for many
//! curves at once); a value that is not set counts as less than all others, so
//! that gaps stay. Points beside an error mark are kept besides.

use crate::{CURVES, Mark, Sample};

/// The least budget: first, last and both extremes of each curve.
pub const MIN_BUDGET: usize = 2 + 2 * CURVES.len();

/// What is left of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thinned {
    /// Indices, ascending.
    pub kept: Vec<usize>,
    /// How many buckets of time it took; 0 = everything was kept.
    pub buckets: usize,
}

/// Indices of the samples to draw, ascending, at most `budget` of them
/// (budgets under [`MIN_BUDGET`] are raised to it).
///
/// The sample before and the one at or after each error mark are kept; where
/// these alone would take more than half of the budget, an even selection of
/// them. `samples` must be in the order of time.
pub fn thin(samples: &[Sample], marks: &[Mark], budget: usize) -> Thinned {
    let mut beside = Vec::new();
    for mark in marks.iter().filter(|mark| mark.is_error()) {
        let at = samples.partition_point(|s| s.time_ns < mark.time_ns);
        beside.extend(at.checked_sub(1));
        beside.extend((at < samples.len()).then_some(at));
    }
    thin_rows(samples.len(), |i| samples[i].time_ns, |i| samples[i].curves(), &beside, budget)
}

/// [`thin`] for any table: `time(i)` ascending, `values(i)` one value a curve.
///
/// `beside` are the indices to keep first.
pub fn thin_rows<const N: usize>(
    rows: usize,
    time: impl Fn(usize) -> u64,
    values: impl Fn(usize) -> [Option<u64>; N],
    beside: &[usize],
    budget: usize,
) -> Thinned {
    let budget = budget.max(2 + 2 * N);
    if rows <= budget {
        return Thinned { kept: (0..rows).collect(), buckets: 0 };
    }
    let mut beside: Vec<usize> = beside.iter().copied().filter(|&i| i < rows).collect();
    beside.sort_unstable();
    beside.dedup();
    let room = (budget - (2 + 2 * N)).min(budget / 2);
    let beside = evenly(beside, room);

    let (start, end) = (time(0), time(rows - 1));
    let mut buckets = ((budget - beside.len()) / 4).max(1);
    loop {
        let mut kept = extremes(rows, &time, &values, start, end, buckets);
        kept.extend_from_slice(&beside);
        kept.sort_unstable();
        kept.dedup();
        if kept.len() <= budget || buckets <= 1 {
            return Thinned { kept, buckets };
        }
        // The share that was too much, and a little more, so that few passes are needed.
        buckets = ((buckets * budget / kept.len()).min(buckets - 1) * 15 / 16).max(1);
    }
}

/// At most `room` of the indices, evenly spread.
fn evenly(indices: Vec<usize>, room: usize) -> Vec<usize> {
    if indices.len() <= room {
        return indices;
    }
    (0..room).map(|i| indices[i * indices.len() / room]).collect()
}

/// Per bucket the first and last row and one row with each extreme of each curve.
fn extremes<const N: usize>(
    rows: usize,
    time: &impl Fn(usize) -> u64,
    values: &impl Fn(usize) -> [Option<u64>; N],
    start: u64,
    end: u64,
    buckets: usize,
) -> Vec<usize> {
    let width = (end.saturating_sub(start) / buckets as u64).saturating_add(1);
    let mut kept = Vec::with_capacity(buckets * 8);
    let mut first = 0;
    while first < rows {
        let bucket_end = start
            .saturating_add((time(first).saturating_sub(start) / width + 1).saturating_mul(width));
        let mut low = values(first).map(|value| (value, first));
        let mut high = low;
        let mut last = first + 1;
        while last < rows && time(last) < bucket_end {
            for (curve, value) in values(last).into_iter().enumerate() {
                if value < low[curve].0 {
                    low[curve] = (value, last);
                }
                if value > high[curve].0 {
                    high[curve] = (value, last);
                }
            }
            last += 1;
        }
        kept.push(first);
        kept.push(last - 1);
        kept.extend(low.iter().chain(&high).map(|&(_, row)| row));
        first = last;
    }
    kept
}
