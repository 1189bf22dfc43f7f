//! Which workloads have series of their own: the first few, and a new one in the place of one
//! that was quiet for a day. All others are `other`.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// `other` is one of them.
pub const MOST: usize = 16;
pub const OTHER: &str = "other";
const QUIET: Duration = Duration::from_secs(24 * 3600);

#[derive(Default)]
pub struct Workloads {
    last_seen: HashMap<String, Instant>,
}

/// The label of a row, and a label whose place it took.
#[derive(Debug, PartialEq, Eq)]
pub struct Place<'a> {
    pub label: &'a str,
    pub removed: Option<String>,
}

impl Workloads {
    pub fn place<'a>(&mut self, name: &'a str, now: Instant) -> Place<'a> {
        let mut removed = None;
        if let Some(seen) = self.last_seen.get_mut(name) {
            *seen = now;
            return Place { label: name, removed };
        }
        let is_full = self.last_seen.len() >= MOST - 1;
        if is_full {
            removed = self.quiet(now);
        }
        if name.is_empty() || name == OTHER || (is_full && removed.is_none()) {
            return Place { label: OTHER, removed: None };
        }
        if let Some(quiet) = &removed {
            self.last_seen.remove(quiet);
        }
        self.last_seen.insert(name.into(), now);
        Place { label: name, removed }
    }

    fn quiet(&self, now: Instant) -> Option<String> {
        let (name, seen) = self.last_seen.iter().min_by_key(|(_, seen)| **seen)?;
        (now.saturating_duration_since(*seen) >= QUIET).then(|| name.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full(now: Instant) -> Workloads {
        let mut workloads = Workloads::default();
        for n in 1..MOST {
            assert_eq!(workloads.place(&format!("p{n}"), now).label, format!("p{n}"));
        }
        workloads
    }

    #[test]
    fn what_comes_when_all_places_are_taken_is_other() {
        let now = Instant::now();
        let mut workloads = full(now);
        for name in ["late", "", OTHER] {
            let place = workloads.place(name, now);
            assert_eq!(place, Place { label: OTHER, removed: None });
        }
        assert_eq!(workloads.place("p1", now).label, "p1");
    }

    #[test]
    fn the_place_of_one_that_was_quiet_for_a_day_is_given_to_a_new_one() {
        let begun = Instant::now();
        let mut workloads = full(begun);
        let noon = begun + QUIET / 2;
        (2..MOST).for_each(|n| drop(workloads.place(&format!("p{n}"), noon)));
        let next = begun + QUIET;
        assert_eq!(workloads.place("", next).removed, None, "a row without a name takes no place");
        let place = workloads.place("late", next);
        assert_eq!(place, Place { label: "late", removed: Some("p1".into()) });
        assert_eq!(workloads.place("p1", next).label, OTHER);
    }
}
