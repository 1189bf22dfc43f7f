//! `transom-fleet follow`: signed policies from a real S3 server into a folder, and from there onto
//! the kernel.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::process::{Pid, Signal, kill_process};
use transom_rollout::{
    CURRENT, Current, FORMAT, Generation, MOST_BYTES, Progress, SigningKey, Waves, generation_name,
    key_text,
};
use transom_testbed::{Namespace, Talking, find_program, needs, needs_probes, run, wait_for};

use crate::running::Running;
use crate::s3::{Server, with_keys};
use crate::troubled::{Trouble, Troubled};

const RULE: &str = "[[rule]]\naction = { initial_window = 23 }\n";

fn key() -> SigningKey {
    SigningKey::from_bytes(&[1; 32])
}

fn generation(number: u64) -> Vec<u8> {
    signed(number, Some(RULE))
}

fn signed(number: u64, policy: Option<&str>) -> Vec<u8> {
    let generation = Generation {
        format: FORMAT,
        number,
        policy: policy.map(str::to_owned),
        waves: Waves { shares: vec![0.0, 1.0], ..Waves::default() },
        gates: vec![],
        expected: vec![],
    };
    generation.to_bytes(&key()).unwrap()
}

/// For all hosts, from now on.
fn current(generation: u64) -> Vec<u8> {
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let current = Current {
        format: FORMAT,
        generation,
        before: generation - 1,
        wave: 1,
        first: "a".to_owned(),
        began_s: now_s,
        written_s: now_s,
        lease_s: 3600,
        progress: Progress::default(),
    };
    current.to_bytes(&key()).unwrap()
}

/// A bucket with policies, and a folder that follows it.
struct Fleet {
    server: Server,
    place: tempfile::TempDir,
}

impl Fleet {
    fn start() -> Option<Fleet> {
        Some(Fleet { server: Server::start()?, place: tempfile::tempdir().unwrap() })
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        let file = self.place.path().join("object");
        fs::write(&file, bytes).unwrap();
        let to = format!("http://127.0.0.1:{}/tables/fleet/policy/{name}", self.server.port);
        let keys = ["--aws-sigv4", "aws:amz:us-east-1:s3", "--user", "testing:testing"];
        run(&[&["curl", "-fsS"], &keys[..], &["-T", file.to_str().unwrap(), &to]].concat());
    }

    fn remove(&self, name: &str) {
        let at = format!("http://127.0.0.1:{}/tables/fleet/policy/{name}", self.server.port);
        let keys = ["--aws-sigv4", "aws:amz:us-east-1:s3", "--user", "testing:testing"];
        run(&[&["curl", "-fsS", "-X", "DELETE"], &keys[..], &[&at]].concat());
    }

    fn folder(&self) -> PathBuf {
        self.place.path().join("policy")
    }

    fn copied(&self, name: &str) -> Vec<u8> {
        fs::read(self.folder().join(name)).unwrap_or_default()
    }

    fn follow(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_transom-fleet"));
        command.env_clear().env("HOME", "/nonexistent");
        with_keys(&mut command, self.server.port, "testing", "testing");
        command.args(["follow", "--from", "s3://tables/fleet", "--every", "1s", "--to"]);
        command.arg(self.folder()).stdin(Stdio::null());
        command
    }

    /// What it says that it cannot copy.
    fn refused(&self) -> String {
        let output = self.follow().arg("--once").output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    }
}

#[test]
fn policies_come_from_a_bucket_and_stay_when_it_is_out_of_reach() {
    needs!("curl");
    let Some(fleet) = Fleet::start() else { return };
    assert!(fleet.refused().contains("s3://tables/fleet/policy/current is not there"));
    fleet.put("gen-1", &generation(1));
    let first = current(1);
    fleet.put(CURRENT, &first);
    let follow = Talking::start(&mut fleet.follow(), "generation 1 is in ");
    assert_eq!((fleet.copied("gen-1"), fleet.copied(CURRENT)), (generation(1), first.clone()));
    // One that names a generation that is not there yet is not copied, and is when it is there.
    let second = current(2);
    fleet.put(CURRENT, &second);
    follow.wait_for_words("policy/gen-2 is not there");
    assert_eq!(fleet.copied(CURRENT), first);
    fleet.put("gen-2", &generation(2));
    follow.wait_for_words("generation 2 is in ");
    assert_eq!((fleet.copied("gen-2"), fleet.copied(CURRENT)), (generation(2), second.clone()));
    let Fleet { server, place } = fleet;
    drop(server);
    follow.wait_for_words("the server cannot be reached");
    let folder = place.path().join("policy");
    assert_eq!(fs::read(folder.join(CURRENT)).unwrap(), second);
    let names = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, [CURRENT.to_owned(), generation_name(1), generation_name(2)]);
}

#[test]
fn a_copy_is_as_good_as_a_generation_that_was_removed_and_a_copy_that_was_lost_comes_again() {
    needs!("curl");
    let Some(fleet) = Fleet::start() else { return };
    fleet.put("gen-1", &generation(1));
    fleet.put(CURRENT, &current(1));
    let follow = Talking::start(&mut fleet.follow(), "generation 1 is in ");
    // A rule has removed it, for its age; what is current is renewed.
    fleet.remove("gen-1");
    let renewed = Current::from_bytes(&current(1), &[key().verifying_key()]).unwrap();
    let renewed = Current { lease_s: 7200, ..renewed }.to_bytes(&key()).unwrap();
    fleet.put(CURRENT, &renewed);
    wait_for("the renewal", || fleet.copied(CURRENT) == renewed);
    assert_eq!(fleet.copied("gen-1"), generation(1));
    // The control: a host that has no copy is told.
    fs::remove_file(fleet.folder().join("gen-1")).unwrap();
    follow.wait_for_words("policy/gen-1 is not there");
    fleet.put("gen-1", &generation(1));
    wait_for("the lost copy", || fleet.copied("gen-1") == generation(1));
    fs::remove_file(fleet.folder().join(CURRENT)).unwrap();
    wait_for("the other one", || fleet.copied(CURRENT) == renewed);
}

#[test]
fn what_is_no_policy_is_named_and_not_copied() {
    needs!("curl");
    let Some(fleet) = Fleet::start() else { return };
    fleet.put(CURRENT, b"hello");
    assert!(fleet.refused().contains("policy/current: it is nothing signed"));
    fleet.put(CURRENT, &vec![b' '; MOST_BYTES as usize + 1]);
    assert!(fleet.refused().contains("policy/current has 1048577 bytes"));
    assert!(fleet.copied(CURRENT).is_empty());
    // Without s3:ListBucket, AWS says of what is not there that it is not allowed.
    let way = Troubled::before(fleet.server.port, |_| Trouble::Denied);
    let mut follow = fleet.follow();
    follow.arg("--once").env("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", way.port));
    let said = String::from_utf8(follow.output().unwrap().stderr).unwrap();
    assert!(said.contains("do not allow it") && said.contains("or nothing is there"), "{said}");
    // The control: one that is.
    fleet.put("gen-1", &generation(1));
    fleet.put(CURRENT, &current(1));
    assert!(fleet.follow().arg("--once").status().unwrap().success());
    assert!(!fleet.copied(CURRENT).is_empty());
}

fn when_said(file: &Path, words: &str) {
    wait_for(words, || fs::read_to_string(file).unwrap_or_default().contains(words));
}

#[test]
fn a_generation_of_a_bucket_is_in_force_on_a_host_that_follows() {
    needs!("curl", "transom");
    needs_probes!();
    let Some(fleet) = Fleet::start() else { return };
    fleet.put("gen-1", &generation(1));
    fleet.put(CURRENT, &current(1));
    let _follow = Talking::start(&mut fleet.follow(), "generation 1 is in ");
    let place = fleet.place.path();
    let (keys, said) = (place.join("keys"), place.join("said"));
    fs::write(&keys, key_text(key().verifying_key().as_bytes())).unwrap();
    let host = Namespace::new("follower");
    let tuning = Command::new(find_program("transom").unwrap())
        .args(["tune", "follow", "--host", "b", "--every", "1s", "--netns", host.name(), "--trust"])
        .arg(&keys)
        .arg("--state")
        .arg(place.join("seen.json"))
        .arg(fleet.folder())
        .stdout(File::create(&said).unwrap())
        .spawn();
    let mut tuning = Running(tuning.unwrap());
    when_said(&said, "generation 1 is in force");
    fleet.put("gen-2", &signed(2, None));
    fleet.put(CURRENT, &current(2));
    when_said(&said, "generation 2 is to have none");
    let process = Pid::from_child(&tuning.0);
    kill_process(process, Signal::INT).unwrap();
    assert!(tuning.0.wait().unwrap().success());
}
