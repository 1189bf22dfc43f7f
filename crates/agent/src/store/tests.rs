use super::*;
use crate::addresses::{Addresses, Tagger};
use crate::cgroups::Cgroups;
use crate::raw::{ROW_END, RawDecision};
use bytemuck::{Zeroable, bytes_of};
use std::fs::File;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use transom_spool::{AgentRow, Connection, Decision, Row, Table, list, read};
use transom_testbed::{SmallDisk, needs_root, wait_for};

const HOUR_US: i64 = 3_600_000_000;
const NOW_US: i64 = 1_800_000_000_000_000;

fn rows<T: Row>(spool: &Path, table: Table) -> Vec<T> {
    let files = list(spool).unwrap();
    let of_table = files.iter().filter(|(name, ..)| name.table() == table);
    of_table.flat_map(|(_, path, _)| read(File::open(path).unwrap()).unwrap()).collect()
}

struct Fixture {
    folder: tempfile::TempDir,
    assembler: Assembler,
    store: Store,
}

impl Fixture {
    fn new(bytes: u64) -> Fixture {
        Fixture::of(tempfile::tempdir().unwrap(), bytes)
    }

    /// In a spool that may be another agent's.
    fn of(folder: tempfile::TempDir, bytes: u64) -> Fixture {
        let tagger = Tagger::of_or_new(&folder.path().join("key")).unwrap();
        let mut assembler = Assembler::new(tagger, Addresses::Prefix, 1000, 1);
        let limits = Limits { bytes, decisions_us: HOUR_US, file_us: 300_000_000 };
        let taken = Taken::take(folder.path()).unwrap();
        let (store, _) = Store::open(taken, folder.path(), limits, &mut assembler).unwrap();
        Fixture { folder, assembler, store }
    }

    /// A row comes at this time of the wall clock.
    fn row(&mut self, cookie: u64, now_us: i64) {
        self.row_of(cookie, 0, now_us);
    }

    fn row_of(&mut self, cookie: u64, cgroup: u64, now_us: i64) {
        let row = RawRow { kind: ROW_END, cookie, cgroup, ..RawRow::zeroed() };
        let beat = Beat { wall_offset_ns: now_us * 1000, ..Beat::new(0) };
        self.store.beat(&beat, now_us).unwrap();
        self.store.append(bytes_of(&row), now_us, &mut self.assembler).unwrap();
    }

    fn connections(&self) -> Vec<Connection> {
        rows(self.folder.path(), Table::Connections)
    }

    /// Those that are in files, and their times.
    fn rows(&self) -> Vec<(u64, i64)> {
        let rows = self.connections().into_iter();
        let mut rows: Vec<(u64, i64)> = rows.map(|row| (row.cookie, row.time.0)).collect();
        rows.sort_unstable();
        rows
    }
}

#[test]
fn a_clock_that_is_set_back_or_forth_costs_no_row_and_each_has_the_time_of_its_moment() {
    let mut of = Fixture::new(1 << 30);
    let day = 24 * HOUR_US;
    let rows = [(1, NOW_US), (2, NOW_US - day), (3, NOW_US), (4, NOW_US + 1), (5, NOW_US + day)];
    for (cookie, now_us) in rows {
        of.store.tend(now_us, &mut of.assembler).unwrap();
        of.row(cookie, now_us);
    }
    of.store.finish(NOW_US, &mut of.assembler).unwrap();
    assert_eq!(of.rows(), rows);
    assert_eq!(of.store.losses, Losses::default());
}

#[test]
fn the_group_reads_finished_files_and_neither_the_key_nor_the_journal() {
    let mut of = Fixture::new(1 << 30);
    of.row(1, NOW_US);
    of.store.finish(NOW_US, &mut of.assembler).unwrap();
    of.row(2, NOW_US);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let files = list(of.folder.path()).unwrap();
    assert_eq!(files.len(), 2, "connections and the agent's own");
    for (_, path, _) in files {
        assert_eq!(mode(&path), 0o640, "{}", path.display());
    }
    for private in ["key", journal::NAME] {
        assert_eq!(mode(&of.folder.path().join(private)), 0o600, "{private}");
    }
}

#[test]
fn what_came_first_is_removed_first_whatever_the_clock_said() {
    let mut of = Fixture::new(1 << 20);
    for (cookie, now_us) in [(1, NOW_US), (2, NOW_US - 24 * HOUR_US)] {
        of.row(cookie, now_us);
        // Less than one file: it holds before the next is made.
        of.store.limits.bytes = 4096;
        of.store.finish(now_us, &mut of.assembler).unwrap();
    }
    assert_eq!(of.rows(), [(2, NOW_US - 24 * HOUR_US)]);
}

#[test]
fn files_and_journals_together_keep_the_limit() {
    let mut of = Fixture::new(1 << 18);
    for cookie in 0..5000 {
        of.row(cookie, NOW_US);
        if cookie % 20 == 0 {
            of.store.tend(NOW_US, &mut of.assembler).unwrap();
            if let Some(running) = of.store.running.take() {
                let result = running.end();
                of.store.job_ended(result).unwrap();
            }
            assert!(of.store.bytes() <= 1 << 18, "{} at {cookie}", of.store.bytes());
        }
    }
    assert!(of.store.removed() > 0);
    assert_eq!(of.store.losses.rows, 0);
}

#[test]
fn a_journal_of_another_version_is_set_aside_and_none_is_overwritten() {
    let mut of = Fixture::new(1 << 30);
    let (folder, limits) = (of.folder.path().to_owned(), of.store.limits);
    drop(of.store);
    for fill in [7, 8] {
        fs::write(folder.join(journal::NAME), [fill; 200]).unwrap();
        let taken = Taken::take(&folder).unwrap();
        let (store, left) = Store::open(taken, &folder, limits, &mut of.assembler).unwrap();
        assert!(left.is_none());
        drop(store);
    }
    let kept = |number: u32| fs::read(folder.join(format!("journal.other-version-{number}")));
    assert_eq!((kept(1).unwrap(), kept(2).unwrap()), (vec![7; 200], vec![8; 200]));
    assert!(!folder.join(journal::NAME).exists());
}

#[test]
fn a_journal_that_a_crash_left_is_read_by_the_clock_of_its_kernel_which_has_no_name_any_more() {
    let of = Fixture::new(1 << 30);
    let (folder, limits, mut assembler) = (of.folder, of.store.limits, of.assembler);
    drop(of.store);
    // The kernel of before had another HZ.
    let head = Head::new([7; 16], NOW_US, 1, 4 * assembler.us_per_jiffy);
    let mut left = Journal::create(&folder.path().join(journal::NAME), head).unwrap();
    let row = RawRow { kind: ROW_END, cookie: 1, busy: 10, ..RawRow::zeroed() };
    let decision = RawDecision { kind: DECISION, rto: 50, ..RawDecision::zeroed() };
    left.append(&[bytes_of(&row), bytes_of(&decision)].concat()).unwrap();
    left.beat(&Beat::new(0)).unwrap();
    let taken = Taken::take(folder.path()).unwrap();
    let _store = Store::open(taken, folder.path(), limits, &mut assembler).unwrap();
    let connections = rows::<Connection>(folder.path(), Table::Connections);
    let decisions = rows::<Decision>(folder.path(), Table::Decisions);
    assert_eq!((connections[0].busy_us, decisions[0].rto_us), (40_000, 200_000));
    let agent = rows::<AgentRow>(folder.path(), Table::Agent);
    assert_eq!((agent[0].boot.as_deref(), &agent[0].kernel), (Some(&*"07".repeat(16)), &None));
}

#[test]
fn what_a_killed_agent_was_writing_goes_and_nothing_else() {
    let of = Fixture::new(1 << 30);
    let (folder, limits, mut assembler) = (of.folder, of.store.limits, of.assembler);
    drop(of.store);
    for name in [".agent-a1B2c3", "agent-notes", ".other"] {
        fs::write(folder.path().join(name), "x").unwrap();
    }
    let taken = Taken::take(folder.path()).unwrap();
    let _store = Store::open(taken, folder.path(), limits, &mut assembler).unwrap();
    let is_there = |name: &&str| folder.path().join(name).exists();
    let left: Vec<&str> =
        [".agent-a1B2c3", "agent-notes", ".other"].into_iter().filter(is_there).collect();
    assert_eq!(left, ["agent-notes", ".other"]);
}

#[test]
fn what_killed_agents_left_on_a_full_disk_stays_until_there_is_room_and_is_there_once() {
    needs_root!();
    let disk = SmallDisk::mount(1024);
    let mut of = Fixture::of(tempfile::tempdir_in(disk.path()).unwrap(), 1 << 30);
    of.row(1, NOW_US);
    of.store.complete_journal(NOW_US).unwrap();
    of.row(2, NOW_US);
    drop(of.store);
    disk.fill("filler", 0);
    let refusal = Tagger::of_or_new(&disk.path().join("key")).err().unwrap();
    assert!(lacks_room(&refusal), "the disk is full: {refusal:#}");
    // Two are killed there, one after the other.
    of = Fixture::of(of.folder, 1 << 30);
    assert!(of.store.beat(&Beat::new(0), NOW_US).is_err(), "the disk is full");
    drop(of.store);
    of = Fixture::of(of.folder, 1 << 30);
    assert_eq!(of.store.left.iter().map(|left| left.rows).sum::<u64>(), 2);
    fs::remove_file(disk.path().join("filler")).unwrap();
    of.row(3, NOW_US);
    wait_for("files of both", || {
        of.store.tend(NOW_US, &mut of.assembler).unwrap();
        of.rows().len() == 2
    });
    of.store.finish(NOW_US, &mut of.assembler).unwrap();
    assert_eq!(of.rows(), [(1, NOW_US), (2, NOW_US), (3, NOW_US)]);
    assert_eq!(journal::all(of.folder.path()).unwrap().len(), 1, "no complete one");
}

#[test]
fn a_complete_journal_that_somebody_removed_is_counted_as_lost() {
    let mut of = Fixture::new(1 << 30);
    of.row(1, NOW_US);
    of.row(2, NOW_US);
    of.store.complete_journal(NOW_US).unwrap();
    fs::remove_file(of.folder.path().join(journal::name_of_complete(1))).unwrap();
    let refusal = of.store.finish(NOW_US, &mut of.assembler).unwrap_err().to_string();
    assert!(refusal.contains("was removed"), "{refusal}");
    assert_eq!(of.store.losses.rows, 2);
    of.row(3, NOW_US);
    of.store.finish(NOW_US, &mut of.assembler).unwrap();
    assert_eq!(of.rows(), [(3, NOW_US)]);
}

/// Folders are as good as cgroups: they have a number and a name.
struct Units {
    mount: tempfile::TempDir,
    gone: tempfile::TempDir,
}

impl Units {
    fn of(of: &mut Fixture) -> Units {
        let units =
            Units { mount: tempfile::tempdir().unwrap(), gone: tempfile::tempdir().unwrap() };
        of.assembler.cgroups = Cgroups::below(units.mount.path());
        units
    }

    /// Its number.
    fn begin(&self, unit: &str) -> u64 {
        let path = self.mount.path().join(unit);
        fs::create_dir(&path).unwrap();
        fs::metadata(path).unwrap().ino()
    }

    /// Not removed, so that no other one gets its number.
    fn end(&self, unit: &str) {
        fs::rename(self.mount.path().join(unit), self.gone.path().join(unit)).unwrap();
    }
}

#[test]
fn a_cgroup_that_was_not_looked_for_at_once_has_its_name_a_second_later() {
    let mut of = Fixture::new(1 << 30);
    let units = Units::of(&mut of);
    for (cookie, unit) in [(1, "one.service"), (2, "another.service")] {
        let cgroup = units.begin(unit);
        of.row_of(cookie, cgroup, NOW_US);
    }
    of.store.tend(NOW_US, &mut of.assembler).unwrap();
    // It connected once, and is gone before a file is made.
    units.end("another.service");
    // The next one is looked for at once, however many there were before: it is gone in a second.
    let last = units.begin("last.service");
    of.row_of(3, last, NOW_US);
    units.end("last.service");
    of.store.finish(NOW_US, &mut of.assembler).unwrap();
    let names: Vec<Option<String>> =
        of.connections().iter().map(|row| row.unit.as_deref().map(str::to_owned)).collect();
    let named = ["one.service", "another.service", "last.service"].map(str::to_owned).map(Some);
    assert_eq!(names, named);
}

#[test]
fn one_walk_over_all_cgroups_answers_for_all_that_are_gone() {
    let mut of = Fixture::new(1 << 30);
    let units = Units::of(&mut of);
    let begun = ["a.service", "b.service", "c.service", "d.service"];
    let cgroups = begun.map(|unit| units.begin(unit));
    begun.iter().for_each(|unit| units.end(unit));
    for cgroup in cgroups {
        of.row_of(cgroup, cgroup, NOW_US);
    }
    assert_eq!(of.store.unnamed.len(), 3, "the first was looked for at once");
    of.store.tend(NOW_US, &mut of.assembler).unwrap();
    assert!(of.store.unnamed.is_empty(), "{:?}", of.store.unnamed);
}
