//! Whether a spool can have anything new. A folder has another time when a name is added or goes, so
//! that a spool of thousands of files that landed long ago need not be read at each look.

use std::time::{Duration, SystemTime};

/// Kernels stamp folders by their tick, and a change may have the stamp of one that was seen: so
/// near to it nothing is concluded.
const SURE: Duration = Duration::from_secs(1);

#[derive(Default)]
pub struct LastLook {
    /// The folder's time at a look that found nothing.
    nothing_at: Option<SystemTime>,
}

impl LastLook {
    /// Whether nothing came since a look that found nothing.
    pub fn still_holds(&self, changed: Option<SystemTime>) -> bool {
        changed.is_some() && self.nothing_at == changed
    }

    /// `changed` is the folder's time from before the look at `now`.
    pub fn note(&mut self, changed: Option<SystemTime>, now: SystemTime, is_nothing: bool) {
        let is_sure = |changed: &SystemTime| {
            is_nothing && now.duration_since(*changed).is_ok_and(|age| age >= SURE)
        };
        self.nothing_at = changed.filter(is_sure);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_look_long_after_the_last_change_that_found_nothing_spares_the_next() {
        let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
        let later = then + Duration::from_secs(15);
        let holds = |changed, now, is_nothing, changed_since| {
            let mut last = LastLook::default();
            last.note(changed, now, is_nothing);
            last.still_holds(changed_since)
        };
        assert!(holds(Some(then), later, true, Some(then)));
        assert!(!holds(Some(then), later, false, Some(then)), "something waits");
        assert!(!holds(Some(then), later, true, Some(later)), "a name came or went");
        assert!(
            !holds(Some(then), then, true, Some(then)),
            "it may have changed since, in one tick"
        );
        assert!(!holds(Some(later), then, true, Some(later)), "a clock was set back");
        assert!(!holds(None, later, true, None), "a file system without times");
    }
}
