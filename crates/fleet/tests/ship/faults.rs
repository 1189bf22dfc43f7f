//! What the machine itself does to a shipper: a full disk, a folder that goes away, a wrong clock.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use transom_testbed::{needs_root, skip};

use crate::place::{Folder, ended, ship, ship_of};
use crate::running::{Running, when_told};
use crate::s3::ship_to;
use crate::spool::Spool;
use crate::troubled::{Trouble, Troubled};

/// A file system of its own, of one page.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// `None` where root may not mount.
    fn new() -> Option<SmallDisk> {
        let folder = tempfile::tempdir().unwrap();
        match mount("size=4k", folder.path()) {
            Ok(()) => Some(SmallDisk(folder)),
            Err(why) => {
                skip("tmpfs", &why);
                None
            }
        }
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn grow(&self) {
        mount("remount,size=1m", self.path()).unwrap();
    }

    fn record(&self) -> String {
        let text = fs::read_to_string(self.path().join("shipped")).unwrap();
        assert!(text.ends_with('\n'), "no line was cut: {text}");
        text
    }

    fn last_word(&self) -> String {
        self.record().lines().last().unwrap().split(' ').next().unwrap().to_owned()
    }

    /// How many files the record says were sent.
    fn noted(&self) -> usize {
        self.record().lines().filter(|line| line.starts_with("sent ")).count()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.path()).status();
    }
}

fn mount(options: &str, at: &Path) -> Result<(), String> {
    let mut command = Command::new("mount");
    command.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(at);
    let output = command.output().map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if output.status.success() { Ok(()) } else { Err(said) }
}

#[test]
fn what_a_full_disk_cannot_note_does_not_go_until_there_is_room() {
    needs_root!();
    let mut last_words = HashSet::new();
    // By the length of its first line the record is full before a file goes, or after it landed.
    for length in [5, 45, 85, 125] {
        let Some(disk) = SmallDisk::new() else { return };
        let (spool, to) = (Spool::new(1), Folder::new());
        (1..=15).for_each(|number| drop(spool.finish(number, 10)));
        let mut command = ship_of(&"w".repeat(length), spool.path(), &to.address());
        command.arg("--once").arg("--state").arg(disk.path());
        for _ in 0..2 {
            let (good, said) = ended(&mut command);
            assert!(!good && said.contains("shipped (make room there"), "{said}");
            assert!((1..45).contains(&disk.noted()), "it was full on the way");
            assert_eq!(to.objects().len(), disk.noted(), "what is not noted has not gone");
        }
        last_words.insert(disk.last_word());
        disk.grow();
        let (good, said) = ended(&mut command);
        assert!(good, "{said}");
        let mut cookies = to.cookies();
        cookies.dedup();
        assert_eq!((cookies.len(), to.cookies().len(), to.objects().len()), (150, 150, 45));
    }
    assert_eq!(last_words, ["sent", "landed"].map(String::from).into());
}

#[test]
fn on_a_disk_that_is_full_from_the_start_nothing_goes_and_nothing_is_spoiled() {
    needs_root!();
    let Some(disk) = SmallDisk::new() else { return };
    let (spool, to) = (Spool::new(1), Folder::new());
    spool.finish(1, 10);
    let filler = disk.path().join("filler");
    fs::write(&filler, [0; 4096]).unwrap();
    let mut command = ship(spool.path(), &to.address());
    command.arg("--once").arg("--state").arg(disk.path());
    let (good, said) = ended(&mut command);
    assert!(!good && said.contains("make room"), "{said}");
    assert!(to.objects().is_empty());
    fs::remove_file(filler).unwrap();
    let (good, said) = ended(&mut command);
    assert!(good && said.contains("3 files landed"), "{said}");
}

/// Ships to a server that asks for patience each time, and before its first answer this happens.
/// What the shipper said when it ended, and how often it had asked.
fn said_when(
    spool: &Spool,
    state: Option<&Path>,
    happens: impl Fn() + Send + Sync + 'static,
) -> (String, u64) {
    let asked = Arc::new(AtomicU64::new(0));
    let counted = asked.clone();
    let way = Troubled::before(0, move |n| {
        counted.fetch_add(1, Ordering::SeqCst);
        if n == 0 {
            happens();
        }
        Trouble::Slower
    });
    let mut command = ship_to(way.port, spool, "s3://tables");
    if let Some(state) = state {
        command.arg("--state").arg(state);
    }
    let (good, said) = ended(command.arg("--once"));
    assert!(!good, "{said}");
    (said, asked.load(Ordering::SeqCst))
}

#[test]
fn a_spool_that_was_removed_ends_it_by_name() {
    let spool = Spool::new(1);
    spool.finish(1, 10);
    let path = spool.path().to_owned();
    let state = tempfile::tempdir().unwrap();
    for state in [Some(state.path()), None] {
        fs::create_dir_all(&path).unwrap();
        spool.finish(1, 10);
        let gone = path.clone();
        let (said, asked) = said_when(&spool, state, move || fs::remove_dir_all(&gone).unwrap());
        assert!(said.contains(&format!("{} was removed", path.display())), "{said}");
        assert_eq!(asked, 1);
    }
}

#[test]
fn another_spool_of_the_same_name_is_left_to_the_next_shipper() {
    let (spool, second, to) = (Spool::new(1), Spool::new(2), Folder::new());
    spool.finish(1, 10);
    second.finish(1, 7);
    let (path, other) = (spool.path().to_owned(), second.path().to_owned());
    let state = tempfile::tempdir().unwrap();
    let (said, asked) = said_when(&spool, Some(state.path()), move || {
        fs::remove_dir_all(&path).unwrap();
        fs::rename(&other, &path).unwrap();
    });
    assert!(said.contains(&format!("{} was replaced", spool.path().display())), "{said}");
    assert_eq!(asked, 1, "nothing of the other spool went under the lock of the first");
    assert!(ended(ship(spool.path(), &to.address()).arg("--once")).0);
    assert_eq!(to.cookies().len(), 7);
}

#[test]
fn nothing_goes_without_a_record_that_the_next_program_finds() {
    let spool = Spool::new(1);
    spool.finish(1, 10);
    let state = tempfile::tempdir().unwrap();
    let record: PathBuf = state.path().join("shipped");
    let (said, asked) = said_when(&spool, Some(state.path()), {
        let record = record.clone();
        move || fs::remove_file(&record).unwrap()
    });
    assert!(said.contains(&format!("{} was removed", record.display())), "{said}");
    assert_eq!(asked, 1);
}

pub fn set_times(files: &[PathBuf], time: SystemTime) {
    for file in files {
        File::options().write(true).open(file).unwrap().set_modified(time).unwrap();
    }
}

#[test]
fn a_clock_that_was_set_back_by_a_day_delays_nothing() {
    let day = Duration::from_secs(86_400);
    let (spool, to) = (Spool::new(1), Folder::new());
    let files = spool.finish(1, 10);
    let metrics = spool.path().join("ship.prom");
    let running = |time: SystemTime| {
        set_times(&files, time);
        let mut command = ship(spool.path(), &to.address());
        let mut child =
            command.arg("--metrics").arg(&metrics).stderr(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(child.stderr.take().unwrap());
        (Running(child), said.lines())
    };
    // Of a day ago they would wait for the host's moment, as after an outage.
    let waits = |line: &String| line.contains("3 files wait; the first goes in");
    let (first, mut said) = running(SystemTime::now() - day);
    assert!(waits(&said.nth(1).unwrap().unwrap()));
    drop(first);
    let (second, said) = running(SystemTime::now() + day);
    let landed = "transom_ship_rows_total{table=\"connections\"} 10";
    when_told(&metrics, &[landed, "transom_ship_waiting_files 0"]);
    drop(second);
    assert!(!said.map(Result::unwrap).any(|line| waits(&line)));
    assert_eq!(to.cookies().len(), 10);
}
