//! What goes wrong around an agent: kills, disks, configurations, and a second agent. Rows are
//! there once, or counted as lost.

use std::collections::{BTreeMap, HashSet};
use std::io::Write;
use std::net::TcpListener;
use std::process::Command;
use std::time::{Duration, Instant};

use transom_agent::Unfinished;
use transom_spool::{AgentEvent, AgentRow, Connection};
use transom_testbed::{Namespace, fresh_port, needs, needs_root, wait_for};

use super::recording::{events, quiet_but, watched};
use super::running::{AGENT, Agent, Spool, own_metric, refusal};
use super::{connect_once, is_connect, listener};

#[test]
fn what_a_killed_agent_saw_is_in_the_next_ones_files_with_the_gap_between() {
    needs_root!();
    let (spool, host) = (Spool::new(), Namespace::new("host"));
    let agent = Agent::start(&spool.path, "");
    let (server, _) = listener(&host);
    (1..=20).for_each(|n| connect_once(&host, &server, n * 100, 10));
    // What came is in the journal after half a second.
    let journal = spool.path.join("journal.raw");
    let length = || std::fs::metadata(&journal).map_or(0, |metadata| metadata.len());
    wait_for("the journal to have the rows", || length() > 40 * 300);
    agent.kill();
    connect_once(&host, &server, 77, 10);
    let agent = Agent::start(&spool.path, "");
    connect_once(&host, &server, 99, 10);
    wait_for("the last row to be in the journal", || {
        spool.waiting(host.inode()).iter().filter(is_connect).count() == 1
    });
    agent.stop();
    let rows = spool.connections(host.inode());
    assert_eq!(rows.iter().filter(is_connect).count(), 21);
    assert!(!rows.iter().any(|row| row.bytes_sent == 78), "nobody looked when it ended");
    let gaps = gaps(&spool);
    assert_eq!(gaps.len(), 1);
    assert!(gaps[0].gap_us.is_some_and(|us| us > 0 && us < 20_000_000), "{gaps:?}");
}

fn gaps(spool: &Spool) -> Vec<AgentRow> {
    spool.agent().into_iter().filter(|row| row.event == AgentEvent::Gap).collect()
}

/// As a unit's sandbox has all folders but its own.
#[test]
fn a_spool_where_nothing_can_be_written_is_refused_with_what_the_unit_needs() {
    needs!("root", "unshare");
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("agent.toml");
    std::fs::write(&config, "source = \"sock_diag\"\n").unwrap();
    std::fs::create_dir(folder.path().join("disk")).unwrap();
    let script =
        "mount -t tmpfs -o ro tmpfs disk && exec \"$0\" --config agent.toml --spool disk/spool";
    let mut agent = Command::new("unshare");
    agent.args(["--mount", "sh", "-c", script, AGENT]).current_dir(folder.path());
    let output = agent.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("making the spool disk/spool: it is read-only here"), "{said}");
    assert!(said.contains("ReadWritePaths=FOLDER in a drop-in"), "{said}");
}

/// As when a package is upgraded.
#[test]
fn what_ended_between_a_stop_and_the_next_start_is_counted() {
    needs_root!();
    let (spool, host) = (Spool::new(), Namespace::new("host"));
    let (server, _) = listener(&host);
    // The kernel counts per namespace, and the agent reads the counts of its own.
    let port = fresh_port();
    let start = || {
        let config = format!("metrics = \"127.0.0.1:{port}\"\n");
        Agent::start_in(&host, &spool.path, &config)
    };
    let metric = |name: &str| {
        let mut found = None;
        wait_for("the metrics", || {
            found = host.inside(|| own_metric(port, name));
            found.is_some()
        });
        found.unwrap()
    };
    let agent = start();
    assert_eq!(metric("transom_agent_gap_seconds"), 0.0, "there was no agent before the first");
    agent.terminate();
    assert!(gaps(&spool).is_empty());
    (0..7).for_each(|_| connect_once(&host, &server, 77, 10));
    let agent = start();
    // Both ends of each.
    assert_eq!(metric("transom_agent_gap_connections"), 14.0);
    assert!(metric("transom_agent_gap_seconds") > 0.0);
    agent.terminate();
    let found = gaps(&spool);
    assert_eq!(found.len(), 1);
    assert!(found[0].gap_us.is_some_and(|us| us > 0), "{found:?}");
    assert_eq!(found[0].lost_rows, 14, "{found:?}");
    // And no more when nothing ended meanwhile.
    let agent = start();
    assert_eq!(metric("transom_agent_gap_connections"), 0.0);
    agent.terminate();
    assert_eq!(gaps(&spool).iter().map(|gap| gap.lost_rows).sum::<u64>(), 14);
}

/// Where a journal says in which boot it was written.
const BOOT_AT: std::ops::Range<usize> = 16..32;

#[test]
fn a_restart_of_the_machine_is_a_gap_too() {
    needs_root!();
    let spool = Spool::new();
    Agent::start(&spool.path, "").terminate();
    let stopped = spool.path.join("stopped.raw");
    let mut bytes = std::fs::read(&stopped).unwrap();
    bytes[BOOT_AT].fill(7);
    std::fs::write(&stopped, bytes).unwrap();
    Agent::start(&spool.path, "").terminate();
    let found = gaps(&spool);
    assert_eq!(found.len(), 1);
    // By the wall clock: an hour is more than this test has.
    assert!(found[0].gap_us.is_some_and(|us| us > 0 && us < 3_600_000_000), "{found:?}");
}

#[test]
fn what_is_in_no_file_yet_can_be_read_while_the_agent_runs() {
    needs_root!();
    let (spool, host) = (Spool::new(), Namespace::new("host"));
    assert!(Unfinished::of(&spool.path).unwrap().is_empty());
    let agent = Agent::start(&spool.path, "");
    let (server, _) = listener(&host);
    connect_once(&host, &server, 12_345, 10);
    let rows = || {
        let mut rows = spool.waiting(host.inode());
        rows.sort_by_key(|row| (row.time, row.cookie));
        rows
    };
    wait_for("both rows to be in the journal", || rows().len() == 2);
    let said = |rows: &[Connection]| -> Vec<_> {
        rows.iter()
            .map(|row| (row.cookie, row.bytes_sent, row.program.clone(), row.ended))
            .collect()
    };
    let before = said(&rows());
    assert!(spool.connections(host.inode()).is_empty(), "they are in a file already");
    agent.stop();
    assert_eq!(said(&spool.connections(host.inode())), before);
    assert!(Unfinished::of(&spool.path).unwrap().is_empty());
}

#[test]
fn killed_at_any_moment_of_making_files_an_agent_keeps_each_row_once() {
    needs_root!();
    let (spool, host) = (Spool::new(), Namespace::new("host"));
    let (server, _) = listener(&host);
    let mut seen = HashSet::new();
    for round in 0..6 {
        let agent = Agent::start(&spool.path, "file_seconds = 1\n");
        let begun = Instant::now();
        // A journal is complete after a second, and made files of in the next half: each round
        // ends elsewhere.
        while begun.elapsed() < Duration::from_millis(1050 + 150 * round) {
            (0..5).for_each(|_| connect_once(&host, &server, 10, 10));
            std::thread::sleep(Duration::from_millis(100));
            // Once on the disk, a row stays there, wherever that is.
            let waiting = spool.waiting(host.inode()).into_iter();
            let rows = waiting.chain(spool.connections(host.inode()));
            seen.extend(rows.map(|row| row.cookie));
        }
        agent.kill();
    }
    Agent::start(&spool.path, "").stop();
    assert!(spool.waiting(host.inode()).is_empty());
    let rows = spool.connections(host.inode());
    let kept: HashSet<u64> = rows.iter().map(|row| row.cookie).collect();
    assert_eq!(kept.len(), rows.len(), "a row is there twice");
    assert!(seen.len() > 60, "only {} rows were seen", seen.len());
    assert_eq!(seen.difference(&kept).count(), 0, "of {} rows that were seen", seen.len());
}

#[test]
fn a_spool_that_cannot_be_written_costs_rows_that_are_counted_and_not_the_agent() {
    needs_root!();
    let (spool, host) = (Spool::new(), Namespace::new("host"));
    let agent = Agent::start(&spool.path, "");
    std::fs::remove_dir_all(&spool.path).unwrap();
    std::fs::write(&spool.path, "in the way").unwrap();
    let (server, _) = listener(&host);
    let connect = || {
        connect_once(&host, &server, 10, 10);
    };
    agent.wait_for_words("rows are counted as lost");
    connect();
    std::thread::sleep(Duration::from_millis(1500));
    std::fs::remove_file(&spool.path).unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    connect();
    agent.stop();
    assert_eq!(spool.connections(host.inode()).len(), 2, "the second, from both ends");
    let lost = spool.agent().iter().map(|row| row.lost_rows).max().unwrap();
    assert!(lost >= 2, "{lost}");
}

#[test]
fn a_spool_that_is_emptied_under_an_agent_stays_its_own_and_has_the_same_key() {
    needs_root!();
    let spool = Spool::new();
    let agent = Agent::start(&spool.path, "");
    let (key, journal) = (spool.path.join("key"), spool.path.join("journal.raw"));
    wait_for("the journal", || journal.exists());
    let before = std::fs::read(&key).unwrap();
    std::fs::remove_file(&key).unwrap();
    let said = format!("{:#}", Unfinished::of(&spool.path).err().unwrap());
    assert!(said.contains("the key of address tags"), "{said}");
    assert!(!key.exists(), "who reads makes none");
    for name in ["journal.raw", "lock"] {
        std::fs::remove_file(spool.path.join(name)).unwrap();
    }
    wait_for("the next journal", || journal.exists());
    assert_eq!(std::fs::read(&key).unwrap(), before);
    let said = refusal_of_another(&spool);
    assert!(said.contains("another agent"), "{said}");
    agent.stop();
}

fn refusal_of_another(spool: &Spool) -> String {
    refusal(&["--spool", spool.path.to_str().unwrap()])
}

/// A small file system, until it is dropped.
struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    /// With room for one MiB.
    fn at(path: &std::path::Path) -> SmallDisk {
        SmallDisk::of(1, path)
    }

    fn of(mib: u32, path: &std::path::Path) -> SmallDisk {
        std::fs::create_dir_all(path).unwrap();
        let mount = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={mib}m"), "tmpfs"])
            .arg(path)
            .status();
        assert!(mount.unwrap().success());
        SmallDisk(path.to_owned())
    }

    /// Until nothing more fits; removed to make room.
    fn fill(&self) -> std::path::PathBuf {
        let path = self.0.join("filler");
        let mut filler = std::fs::File::create(&path).unwrap();
        while filler.write_all(&[7; 4096]).is_ok() {}
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_costs_rows_that_are_counted_and_later_ones_are_whole() {
    needs_root!();
    let (spool, host) = (Spool::new(), Namespace::new("host"));
    let disk = SmallDisk::at(&spool.path);
    let agent = Agent::start(&spool.path, "file_seconds = 1\n");
    let filler = disk.fill();
    let (server, _) = listener(&host);
    let connect = |times: usize| {
        for _ in 0..times {
            connect_once(&host, &server, 10, 10);
        }
    };
    connect(100);
    agent.wait_for_words("rows are counted as lost");
    std::fs::remove_file(filler).unwrap();
    std::thread::sleep(Duration::from_millis(2500));
    connect(10);
    agent.stop();
    let rows = spool.connections(host.inode()).len() as u64;
    let lost = spool.agent().iter().map(|row| row.lost_rows).max().unwrap();
    assert!(rows >= 20, "{rows} rows");
    assert!(rows + lost >= 220, "{rows} rows and {lost} lost of 220");
    assert!(spool.agent().iter().any(|row| row.event == AgentEvent::Unwritable));
}

/// As with the default limit of 1 GiB in the memory of a router: a journal that filled the disk
/// would leave no room for files of it, and no later row would be written.
#[test]
fn on_a_disk_smaller_than_its_limit_an_agent_makes_room_for_the_newest_rows() {
    needs_root!();
    let (spool, host) = (Spool::new(), Namespace::new("host"));
    let _disk = SmallDisk::of(2, &spool.path);
    let agent = Agent::start(&spool.path, "cpu = 1.0\n");
    let (server, _) = listener(&host);
    // Each is two rows of some 300 bytes.
    (0..4500).for_each(|_| connect_once(&host, &server, 10, 10));
    wait_for("files of them", || !spool.connections(host.inode()).is_empty());
    connect_once(&host, &server, 77, 10);
    agent.stop();
    let rows = spool.connections(host.inode());
    assert!(rows.iter().any(|row| row.bytes_sent == 78), "of {} rows", rows.len());
}

#[test]
fn a_start_on_a_full_disk_runs_on_and_makes_files_of_what_a_killed_agent_left_when_there_is_room() {
    needs_root!();
    let (spool, host) = (Spool::new(), Namespace::new("host"));
    let disk = SmallDisk::at(&spool.path);
    let agent = Agent::start(&spool.path, "");
    let (server, _) = listener(&host);
    connect_once(&host, &server, 10, 10);
    wait_for("its rows", || spool.ended(host.inode()).len() == 2);
    agent.kill();
    let filler = disk.fill();
    let agent = Agent::start(&spool.path, "");
    // It said so before it ran.
    let left = spool.path.join("journal-000001.raw");
    assert!(left.exists() && spool.connections(host.inode()).is_empty());
    std::fs::remove_file(filler).unwrap();
    wait_for("files of its rows", || spool.connections(host.inode()).len() == 2);
    agent.stop();
    assert!(!left.exists());
    assert_eq!(spool.connections(host.inode()).len(), 2, "once");
}

#[test]
fn a_full_disk_that_still_takes_small_writes_is_told_until_it_takes_all() {
    needs_root!();
    let (spool, host) = (Spool::new(), Namespace::new("host"));
    let disk = SmallDisk::at(&spool.path);
    let port = fresh_port();
    let config = format!("file_seconds = 3600\nmetrics = \"127.0.0.1:{port}\"\n");
    let agent = Agent::start(&spool.path, &config);
    let filler = disk.fill();
    let (server, _) = listener(&host);
    for _ in 0..3 {
        (0..100).for_each(|_| connect_once(&host, &server, 10, 10));
        // The agent writes a few bytes of itself each second.
        std::thread::sleep(Duration::from_millis(2500));
        assert_eq!(own_metric(port, "transom_agent_unwritable"), Some(1.0));
    }
    std::fs::remove_file(filler).unwrap();
    agent.wait_for_words("the spool can be written again");
    agent.stop();
    assert!(spool.agent().iter().any(|row| row.event == AgentEvent::Unwritable));
}

#[test]
fn files_that_are_removed_for_the_limit_are_told_in_the_agents_own_table() {
    needs_root!();
    let spool = Spool::new();
    std::fs::create_dir(&spool.path).unwrap();
    let old = spool.path.join("connections-20260101T000000Z-000001.parquet");
    std::fs::write(&old, vec![7; 1 << 20]).unwrap();
    let agent = Agent::start(&spool.path, "spool_mib = 1\nfile_seconds = 1\n");
    let told = |spool: &Spool| {
        let rows = spool.agent_until_now();
        rows.iter().filter(|row| row.event == AgentEvent::Removed).count()
    };
    wait_for("it to be told", || told(&spool) > 0);
    assert!(!old.exists());
    agent.stop();
    assert_eq!(told(&spool), 1, "once");
}

/// Links of its BPF programs to where they run.
fn links(agent: &Agent) -> usize {
    let open = std::fs::read_dir(format!("/proc/{}/fdinfo", agent.id())).unwrap();
    let said = open.filter_map(|entry| std::fs::read_to_string(entry.unwrap().path()).ok());
    said.filter(|said| said.contains("link_id:")).count()
}

#[test]
fn a_full_disk_is_not_filled_with_traces_and_the_probes_go_when_nothing_is_recorded() {
    needs!("root", "linux-5.19");
    let (spool, host) = (Spool::new(), Namespace::new("host"));
    let disk = SmallDisk::at(&spool.path);
    let (server, at) = listener(&host);
    let config = |more: &str| format!("cpu = 1.0\n{}", quiet_but(more));
    let watch = watched(at.port());
    let agent = Agent::start(&spool.path, &config(""));
    let before = links(&agent);
    agent.reconfigure(&spool.path, &config(&watch));
    let connected_until = |what: &str, mut done: Box<dyn FnMut() -> bool + '_>| {
        wait_for(what, || {
            connect_once(&host, &server, 10, 10);
            done()
        });
    };
    connected_until("events", Box::new(|| !events(&spool, &[&host]).is_empty()));
    assert!(links(&agent) > before);
    let filler = disk.fill();
    let begun = Instant::now();
    connected_until("a few seconds", Box::new(|| begun.elapsed() > Duration::from_secs(6)));
    agent.wait_for_words("traces have gaps until it can be written");
    let files = spool.traces();
    assert_eq!(files.len(), 1, "that of before: {files:?}");
    agent.reconfigure(&spool.path, &config(""));
    wait_for("the probes to go", || links(&agent) == before);
    std::fs::remove_file(filler).unwrap();
    agent.reconfigure(&spool.path, &config(&watch));
    connected_until("another trace", Box::new(|| spool.traces().len() > 1));
    agent.stop();
}

#[test]
fn a_broken_configuration_is_named_and_the_running_one_stays() {
    needs_root!();
    let (spool, host) = (Spool::new(), Namespace::new("host"));
    let (server, _) = listener(&host);
    let connect = || {
        connect_once(&host, &server, 10, 10);
        std::thread::sleep(Duration::from_millis(1500));
    };
    let agent = Agent::start(&spool.path, "");
    agent.reconfigure(&spool.path, "addresses = \"full\"\ncpu = 7.0\n");
    let said = agent.wait_for_words("goes on as it was configured");
    assert!(said.contains("cpu = 7: give a share of one CPU from 0.0001 to 1"), "{said}");
    connect();
    agent.reconfigure(&spool.path, "addresses = \"full\"\nlevel = 0\n");
    agent.wait_for_words("read again; at the next start only: level");
    connect();
    agent.stop();
    let addresses: Vec<bool> =
        spool.connections(host.inode()).iter().map(|row| row.remote_address.is_some()).collect();
    assert_eq!(addresses, [false, false, true, true]);
}

#[test]
fn a_change_that_a_full_disk_prevents_leaves_the_running_configuration() {
    needs_root!();
    let (spool, host) = (Spool::new(), Namespace::new("host"));
    let disk = SmallDisk::at(&spool.path);
    let agent = Agent::start(&spool.path, "");
    let (server, _) = listener(&host);
    connect_once(&host, &server, 10, 10);
    wait_for("the row", || spool.ended(host.inode()).len() == 2);
    let filler = disk.fill();
    agent.reconfigure(&spool.path, "addresses = \"full\"\n");
    let said = agent.wait_for_words("goes on as it was configured");
    assert!(said.contains("writing ") && said.contains("No space left"), "{said}");
    std::fs::remove_file(filler).unwrap();
    agent.stop();
    let rows = spool.connections(host.inode());
    assert_eq!(rows.len(), 2);
    assert!(rows.iter().all(|row| row.remote_address.is_none()), "they came without addresses");
}

/// Everything that fails at a start does so before this, the last step that can.
struct TakenAddress(TcpListener);

impl TakenAddress {
    fn new() -> TakenAddress {
        TakenAddress(TcpListener::bind("127.0.0.1:0").unwrap())
    }

    /// An agent of level 2 that records everything is to serve its metrics here.
    fn refuses(&self, spool: &std::path::Path) {
        let at = self.0.local_addr().unwrap();
        let config = tempfile::NamedTempFile::new().unwrap();
        let text = format!("level = 2\nmetrics = \"{at}\"\n[recording]\nsample = 1.0\n");
        std::fs::write(&config, text).unwrap();
        let (config, spool) = (config.path().to_str().unwrap(), spool.to_str().unwrap());
        let said = refusal(&["--config", config, "--spool", spool]);
        assert!(said.contains(&format!("{at}: choose another")), "{said}");
    }
}

#[test]
fn a_start_that_fails_makes_no_spool() {
    needs_root!();
    let (spool, taken) = (Spool::new(), TakenAddress::new());
    taken.refuses(&spool.path.join("of/it"));
    assert!(!spool.path.exists());
    std::fs::create_dir(&spool.path).unwrap();
    taken.refuses(&spool.path);
    assert_eq!(contents(&spool), BTreeMap::new());
    Agent::start(&spool.path, "").stop();
    assert!(contents(&spool).contains_key("key"), "of one that ran");
}

fn contents(spool: &Spool) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(&spool.path).unwrap().map(Result::unwrap);
    let content = |entry: std::fs::DirEntry| {
        let name = entry.file_name().into_string().unwrap();
        (name, std::fs::read(entry.path()).unwrap())
    };
    entries.map(content).collect()
}

#[test]
fn a_start_that_fails_between_two_agents_changes_nothing_that_the_second_knows_of_the_first() {
    needs_root!();
    let (spool, host) = (Spool::new(), Namespace::new("host"));
    let taken = TakenAddress::new();
    Agent::start(&spool.path, "").stop();
    let before = contents(&spool);
    taken.refuses(&spool.path);
    assert_eq!(contents(&spool), before);
    let agent = Agent::start(&spool.path, "");
    let (server, _) = listener(&host);
    connect_once(&host, &server, 10, 10);
    wait_for("the row", || spool.ended(host.inode()).len() == 2);
    agent.kill();
    taken.refuses(&spool.path);
    assert_eq!(spool.connections(host.inode()).len(), 2, "files of what the killed one saw");
    assert!(!spool.path.join("journal.raw").exists());
    Agent::start(&spool.path, "").stop();
    assert_eq!(gaps(&spool).len(), 2, "after the stop and after the kill");
}

#[test]
fn two_agents_do_not_share_a_spool() {
    needs_root!();
    let spool = Spool::new();
    let agent = Agent::start(&spool.path, "");
    let said = refusal_of_another(&spool);
    assert!(said.contains("another agent") && said.contains("--spool"), "{said}");
    agent.stop();
}
