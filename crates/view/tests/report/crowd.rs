//! No mark and no band is lost by drawing several as one.

use proptest::prelude::*;
use transom_view::report::{Band, Buckets, fold, join};

fn buckets(times: impl Iterator<Item = u64> + Clone, count: usize) -> Buckets {
    Buckets::new(times.clone().min().unwrap()..times.max().unwrap(), count)
}

proptest! {
    #[test]
    fn every_error_event_is_in_some_mark(
        mut marks in prop::collection::vec((0..1000u64, 0..15u8), 1..300),
        count in 1..40usize,
        limit in 0..300usize,
    ) {
        marks.sort_unstable();
        let buckets = buckets(marks.iter().map(|m| m.0), count);
        let ticks = fold(buckets, limit, &marks);
        for &(time, kind) in &marks {
            let near = |t: &&transom_view::report::Tick| t.kind == kind && buckets.of(t.time) == buckets.of(time);
            prop_assert!(ticks.iter().any(|t| near(&t)));
        }
        let counted: u64 = ticks.iter().map(|tick| tick.count).sum();
        prop_assert_eq!(counted, marks.len() as u64);
        if marks.len() <= limit {
            prop_assert!(ticks.iter().all(|tick| tick.count == 1));
        }
    }

    #[test]
    fn joined_bands_cover_all_and_keep_the_gravest(
        starts in prop::collection::vec((0..1000u64, 0..5u64, 1..5u8), 1..200),
        count in 1..40usize,
    ) {
        let mut bands: Vec<Band> =
            starts.into_iter().map(|(from, length, state)| Band { from, to: from + length, state }).collect();
        bands.sort_by_key(|band| band.from);
        let buckets = buckets(bands.iter().map(|b| b.from), count);
        let joined = join(buckets, 0, &bands);
        prop_assert!(joined.len() <= count);
        for band in bands {
            let covers = |j: &Band| j.from <= band.from && band.to <= j.to && j.state >= band.state;
            prop_assert!(joined.iter().any(covers));
        }
    }
}
