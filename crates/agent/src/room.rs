//! How much the finished files of the spool are, and which of them go when there is no more room.
//! A spool may have tens of thousands of files, so they are listed seldom.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use transom_spool::{FileName, Table, list};

use crate::finish::{begun, gone};
use crate::store::{JOURNALS, Limits};

/// Files are listed this often, for those that are too old and those that others made or removed;
/// sooner only when there is too much.
const LIST_EVERY_US: i64 = 300_000_000;
/// More is removed than must be, by this part of the limit: what comes then has room without a list.
const SPARE: u64 = 64;

/// What goes first when the spool is full, the oldest of it before the others: of a table first
/// what is above this part of the limit, so that none is crowded out by another.
const GOES_FIRST: [(Table, Option<u64>); 7] = [
    (Table::Traces, Some(4)),
    (Table::Decisions, Some(8)),
    (Table::Agent, Some(8)),
    (Table::Connections, None),
    (Table::Traces, None),
    (Table::Decisions, None),
    (Table::Agent, None),
];

type Listed = (FileName, PathBuf, u64);

pub struct Room {
    spool: PathBuf,
    /// As they were listed, and those that were made since.
    bytes: u64,
    listed_us: Option<i64>,
    /// Files that were removed to keep the limit.
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

    /// Removes decisions that are too old, and then, until the limit holds for files and journals
    /// together, what goes first. The newest trace may be open, and stays.
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
        let files = self.listed()?;
        self.listed_us = Some(now_us);
        let oldest = begun(now_us - limits.decisions_us);
        let is_old = |(name, ..): &Listed| name.table() == Table::Decisions && name.begun < oldest;
        let (old, mut files): (Vec<Listed>, Vec<Listed>) = files.into_iter().partition(is_old);
        old.iter().try_for_each(|file| self.remove(file))?;
        if self.bytes <= most {
            return Ok(());
        }
        let most = most.saturating_sub(limits.bytes / SPARE);
        let is_trace = |(name, ..): &&Listed| name.table() == Table::Traces;
        let newest_trace = files.iter().filter(is_trace).map(|(name, ..)| name.number).max();
        for (table, part) in GOES_FIRST {
            let of_table = |(name, ..): &Listed| name.table() == table;
            let mut held: u64 = files.iter().filter(|file| of_table(file)).map(|file| file.2).sum();
            let keeps = part.map_or(0, |part| limits.bytes / part);
            let mut result = Ok(());
            files.retain(|file| {
                let may_be_open = table == Table::Traces && newest_trace == Some(file.0.number);
                let too_much = self.bytes > most && held > keeps;
                let goes = of_table(file) && too_much && !may_be_open && result.is_ok();
                if goes {
                    held -= file.2;
                    self.removed += 1;
                    result = self.remove(file);
                }
                !goes
            });
            result?;
        }
        Ok(())
    }

    /// The files, those that came first before the others: a clock that was set back does not make
    /// new ones old.
    fn listed(&mut self) -> Result<Vec<Listed>> {
        let mut files = match list(&self.spool) {
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            files => files?,
        };
        files.sort_by_key(|(name, ..)| name.number);
        self.bytes = files.iter().map(|(.., bytes)| bytes).sum();
        Ok(files)
    }

    fn remove(&mut self, (_, path, bytes): &Listed) -> Result<()> {
        fs::remove_file(path)
            .or_else(gone)
            .with_context(|| format!("removing {}", path.display()))?;
        self.bytes -= bytes;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    /// Of each table how many files are left, of as many of it as are given, each of 4 KiB.
    fn left(of_each: &[(Table, u32)]) -> Vec<(Table, usize)> {
        let spool = tempfile::tempdir().unwrap();
        for (table, number) in of_each {
            (1..=*number).for_each(|number| drop(file(spool.path(), *table, number, 1 << 12)));
        }
        let mut room = Room::of(spool.path()).unwrap();
        room.keep_within(&limits(LIMIT), 0, NOW_US).unwrap();
        let files = list(spool.path()).unwrap();
        assert_eq!(room.bytes(), files.len() as u64 * (1 << 12));
        let number = |table| files.iter().filter(|(name, ..)| name.table() == table).count();
        of_each.iter().map(|(table, _)| (*table, number(*table))).collect()
    }

    /// 64 files.
    const LIMIT: u64 = 1 << 18;
    /// Of these, without room for a journal and what is removed beyond.
    const KEPT: usize = 64 - 64 / 8 - 1;

    #[test]
    fn connections_go_before_what_other_tables_keep_of_a_full_spool() {
        let (traces, decisions, agent) = (Table::Traces, Table::Decisions, Table::Agent);
        let of_each = [(traces, 10), (decisions, 5), (agent, 5), (Table::Connections, 100)];
        let rest = KEPT - 10 - 5 - 5;
        let expected = [(traces, 10), (decisions, 5), (agent, 5), (Table::Connections, rest)];
        assert_eq!(left(&of_each), expected);
    }

    #[test]
    fn what_is_above_its_part_goes_before_connections() {
        let (traces, decisions, agent) = (Table::Traces, Table::Decisions, Table::Agent);
        let of_each = [(traces, 40), (decisions, 40), (agent, 40), (Table::Connections, 30)];
        let rest = KEPT - 16 - 8 - 8;
        let expected = [(traces, 16), (decisions, 8), (agent, 8), (Table::Connections, rest)];
        assert_eq!(left(&of_each), expected);
        // With room for all, there is no bound for one of them.
        assert_eq!(left(&[(traces, KEPT as u32)]), [(traces, KEPT)]);
    }

    #[test]
    fn the_newest_trace_may_be_open_and_stays() {
        let spool = tempfile::tempdir().unwrap();
        file(spool.path(), Table::Traces, 1, 1 << 12);
        let open = file(spool.path(), Table::Traces, 2, 1 << 18);
        file(spool.path(), Table::Connections, 3, 1 << 12);
        let mut room = Room::of(spool.path()).unwrap();
        room.keep_within(&limits(LIMIT), 0, NOW_US).unwrap();
        let left: Vec<PathBuf> = list(spool.path()).unwrap().into_iter().map(|it| it.1).collect();
        assert_eq!((left, room.removed), (vec![open], 2));
    }

    #[test]
    fn decisions_that_are_too_old_go_and_are_not_counted_as_removed_for_the_limit() {
        let spool = tempfile::tempdir().unwrap();
        file(spool.path(), Table::Decisions, 1, 1000);
        file(spool.path(), Table::Connections, 1, 1000);
        let mut room = Room::of(spool.path()).unwrap();
        room.keep_within(&limits(LIMIT), 0, NOW_US + 59 * MINUTE_US).unwrap();
        assert_eq!(room.bytes(), 2000);
        room.keep_within(&limits(LIMIT), 0, NOW_US + 66 * MINUTE_US).unwrap();
        assert_eq!((room.bytes(), room.removed), (1000, 0));
    }
}
