//! The table `hosts`: when a machine is described, and under which name.
//!
//! The number of an object is the hour since 1970. So there is one an hour at most, and whoever tries
//! again, or was killed before it knew what became of it, finds it there.

use std::time::{Duration, Instant};

use anyhow::Result;
use bytes::Bytes;
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt};
use transom_spool::{BOOT, HostRow, TABLE, Time, read, write};

use super::object::{Object, Sent};
use crate::landed::Identity;

pub const NAME: &str = "hosts";
/// How often it is looked whether something changed.
const LOOK: Duration = Duration::from_secs(600);
const HOUR_US: i64 = 3_600_000_000;
/// A question looks for a row in the day before it: see `questions::hours`.
const LONGEST_US: i64 = 23 * HOUR_US;

/// What was said of this machine last.
#[derive(Default)]
pub struct Described {
    last: Option<HostRow>,
    looked: Option<Instant>,
}

impl Described {
    /// Whether it is time to look at the machine.
    pub fn is_time(&self) -> bool {
        self.looked.is_none_or(|looked| looked.elapsed() >= LOOK)
    }

    /// Whether this is to be told: at the start, when something changed, and once a day.
    pub fn is_news(&self, row: &HostRow) -> bool {
        let Some(last) = &self.last else { return true };
        let age = (row.time.0 - last.time.0).abs();
        let is_other = HostRow { time: last.time, ..row.clone() } != *last;
        hour(row.time) != hour(last.time) && (is_other || age >= LONGEST_US)
    }

    /// It was looked at, and this is what the table has.
    pub fn has(&mut self, row: HostRow) {
        self.last = Some(row);
        self.looked = Some(Instant::now());
    }

    /// It was looked at, and there was nothing new.
    pub fn looked(&mut self) {
        self.looked = Some(Instant::now());
    }
}

fn hour(time: Time) -> i64 {
    time.0.div_euclid(HOUR_US)
}

/// # Errors
/// Its name cannot be one of an object.
pub fn object(row: &HostRow, identity: &Identity) -> Result<Object> {
    let mut file = Vec::new();
    let metadata = [(TABLE, NAME.to_owned()), (BOOT, identity.boot.clone())];
    write(&mut file, [row.clone()], &metadata, &mut || ())?;
    let number = u64::try_from(hour(row.time)).unwrap_or_default();
    Object::numbered(NAME, number, row.time, &file.into(), identity)
}

/// What the table has for that hour from now on, which another run may have written; `None` while
/// somebody is writing it.
///
/// # Errors
/// Of the store.
pub async fn land(
    object: &Object,
    row: HostRow,
    store: &dyn ObjectStore,
) -> Result<(Option<HostRow>, bool), Error> {
    match object.send(store, None).await? {
        Sent::Landed => Ok((Some(row), true)),
        Sent::WasThere => Ok((Some(row), false)),
        Sent::Taken => Ok((there(&object.path, store).await?, false)),
        Sent::Busy => Ok((None, false)),
    }
}

async fn there(path: &Path, store: &dyn ObjectStore) -> Result<Option<HostRow>, Error> {
    let bytes: Bytes = store.get(path).await?.bytes().await?;
    // One that cannot be read is as good as none: the next hour has another name.
    Ok(read::<HostRow, _>(bytes).ok().and_then(|rows| rows.into_iter().next()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: i64 = 1_795_435_200_000_000;

    fn row(minutes: i64, kernel: &str) -> HostRow {
        let time = Time(NOON + minutes * 60_000_000);
        HostRow { time, kernel: Some(kernel.into()), ..HostRow::default() }
    }

    #[test]
    fn a_machine_is_described_at_the_start_after_a_change_and_once_a_day() {
        let mut described = Described::default();
        assert!(described.is_time() && described.is_news(&row(0, "6.12")));
        described.has(row(0, "6.12"));
        assert!(!described.is_time());
        assert!(!described.is_news(&row(59, "6.18")), "once an hour at most");
        assert!(described.is_news(&row(60, "6.18")));
        assert!(!described.is_news(&row(22 * 60, "6.12")));
        assert!(described.is_news(&row(23 * 60, "6.12")));
        assert!(described.is_news(&row(-24 * 60, "6.12")), "a clock that was set back");
    }
}
