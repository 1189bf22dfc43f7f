//! How much the finished files of the spool are, and which of them go when there is no more room.
//! A spool may have tens of thousands of files, so they are listed seldom.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Result;
use transom_spool::{Table, list};

use crate::finish::{begun, gone};
use crate::store::{JOURNALS, Limits};

/// Files are listed this often, for those that are too old and those that others made or removed;
/// sooner only when there is too much.
const LIST_EVERY_US: i64 = 300_000_000;
/// More is removed than must be, by this part of the limit: what comes then has room without a list.
const SPARE: u64 = 64;

pub struct Room {
    spool: PathBuf,
    /// As they were listed, and those that were made since.
    bytes: u64,
    listed_us: Option<i64>,
    /// Files that were removed.
    pub removed: u64,
}

impl Room {
    /// # Errors
    /// The spool cannot be read.
    pub fn of(spool: &Path) -> Result<Room> {
        let bytes = list(spool)?.iter().map(|(.., bytes)| bytes).sum();
        Ok(Room { spool: spool.to_owned(), bytes, listed_us: None, removed: 0 })
    }

    /// Bytes of the finished files.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Files were finished.
    pub fn made(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// The limits are others: what lies there is looked at with the next file.
    pub fn look_again(&mut self) {
        self.listed_us = None;
    }

    /// Removes old files: decisions that are too old, then decisions, then connections, until the
    /// limit holds for files and journals together.
    ///
    /// # Errors
    /// Files cannot be listed or removed.
    pub fn keep_within(&mut self, limits: &Limits, journals: u64, now_us: i64) -> Result<()> {
        // Room for the next journal.
        let most = (limits.bytes - limits.bytes / JOURNALS).saturating_sub(journals);
        let since = self.listed_us.map(|listed_us| now_us - listed_us);
        let is_listed = since.is_some_and(|us| (0..LIST_EVERY_US).contains(&us));
        if is_listed && self.bytes <= most {
            return Ok(());
        }
        let mut files = match list(&self.spool) {
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            files => files?,
        };
        // A clock that was set back does not make new files old.
        files.sort_by_key(|(name, ..)| name.number);
        self.listed_us = Some(now_us);
        self.bytes = files.iter().map(|(.., bytes)| bytes).sum();
        let is_full = self.bytes > most;
        let most = most.saturating_sub(limits.bytes / SPARE);
        let oldest = begun(now_us - limits.decisions_us);
        let order = [Table::Traces, Table::Decisions, Table::Connections, Table::Agent];
        for table in order {
            for (name, path, bytes) in files.iter().filter(|(name, ..)| name.table() == table) {
                let too_old = table == Table::Decisions && name.begun < oldest;
                let too_much = is_full && self.bytes > most;
                if too_much || too_old {
                    fs::remove_file(path).or_else(gone)?;
                    self.bytes -= bytes;
                    self.removed += 1;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transom_spool::FileName;

    const NOW_US: i64 = 1_800_000_000_000_000;
    const MINUTE_US: i64 = 60_000_000;

    fn limits(bytes: u64) -> Limits {
        Limits { bytes, decisions_us: 60 * MINUTE_US, file_us: MINUTE_US }
    }

    /// Of so many bytes.
    fn file(spool: &Path, table: Table, number: u32, bytes: usize) -> PathBuf {
        let path = spool.join(FileName::new(table, begun(NOW_US), number).to_string());
        fs::write(&path, vec![7; bytes]).unwrap();
        path
    }

    #[test]
    fn a_spool_with_room_is_listed_now_and_then_and_its_size_is_known_in_between() {
        let spool = tempfile::tempdir().unwrap();
        file(spool.path(), Table::Connections, 1, 1000);
        let mut room = Room::of(spool.path()).unwrap();
        let keep = |room: &mut Room, now_us| room.keep_within(&limits(1 << 20), 0, now_us).unwrap();
        keep(&mut room, NOW_US);
        // Whether it lists the files is seen by one that it was not told of.
        file(spool.path(), Table::Connections, 2, 1000);
        room.made(10);
        keep(&mut room, NOW_US + MINUTE_US);
        assert_eq!(room.bytes(), 1010);
        keep(&mut room, NOW_US + 6 * MINUTE_US);
        assert_eq!(room.bytes(), 2000);
        room.made(10);
        keep(&mut room, NOW_US);
        assert_eq!(room.bytes(), 2000, "the clock was set back");
    }

    #[test]
    fn a_full_spool_is_not_listed_for_each_file_either() {
        let spool = tempfile::tempdir().unwrap();
        for number in 0..64 {
            file(spool.path(), Table::Connections, number, 1 << 12);
        }
        let mut room = Room::of(spool.path()).unwrap();
        room.keep_within(&limits(1 << 18), 0, NOW_US).unwrap();
        let (kept, removed) = (room.bytes(), room.removed);
        assert!(kept <= (1 << 18) - (1 << 18) / JOURNALS && removed > 0, "{kept} bytes");
        // What was made free beyond the limit.
        room.made(1 << 12);
        room.keep_within(&limits(1 << 18), 0, NOW_US).unwrap();
        assert_eq!(room.removed, removed);
    }
}
