//! A folder of signed files, and a host that follows it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use transom_rollout::{
    Current, FORMAT, Generation, Progress, SigningKey, Waves, generation_name, key_text,
};
use transom_testbed::{Path, transom, wait_for};

pub fn key(seed: u8) -> SigningKey {
    SigningKey::from_bytes(&[seed; 32])
}

pub fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// A fleet whose policies the key 1 signs, with the hosts `a` and others.
pub struct Fleet(tempfile::TempDir);

impl Fleet {
    pub fn new() -> Fleet {
        let fleet = Fleet(tempfile::tempdir().unwrap());
        fs::create_dir(fleet.0.path().join("policy")).unwrap();
        fleet.trust(&[key(1)]);
        fleet
    }

    pub fn folder(&self) -> String {
        self.0.path().join("policy").display().to_string()
    }

    pub fn keys(&self) -> String {
        self.0.path().join("keys").display().to_string()
    }

    fn seen(&self) -> String {
        self.0.path().join("seen.json").display().to_string()
    }

    pub fn trust(&self, keys: &[SigningKey]) {
        let lines = keys.iter().map(|key| key_text(key.verifying_key().as_bytes()) + "\n");
        fs::write(self.keys(), lines.collect::<String>()).unwrap();
    }

    pub fn let_others_write_the_keys(&self) {
        fs::set_permissions(self.keys(), fs::Permissions::from_mode(0o666)).unwrap();
    }

    pub fn forget(&self) {
        fs::remove_file(self.seen()).unwrap();
    }

    pub fn bytes(&self, name: &str) -> Vec<u8> {
        fs::read(self.0.path().join("policy").join(name)).unwrap()
    }

    /// As a copy that is put in its place, never half.
    pub fn put(&self, name: &str, bytes: &[u8]) {
        let folder = self.0.path().join("policy");
        fs::write(folder.join("new"), bytes).unwrap();
        fs::rename(folder.join("new"), folder.join(name)).unwrap();
    }

    pub fn publish(&self, number: u64, policy: Option<&str>) {
        self.publish_by(number, policy, 1);
    }

    /// Signed with this key.
    pub fn publish_by(&self, number: u64, policy: Option<&str>, seed: u8) {
        let generation = Generation {
            format: FORMAT,
            number,
            policy: policy.map(str::to_owned),
            waves: Waves { shares: vec![0.0, 1.0], ..Waves::default() },
            gates: vec![],
            expected: vec![],
        };
        self.put(&generation_name(number), &generation.to_bytes(&key(seed)).unwrap());
    }

    /// For all hosts, from now on, for a while.
    pub fn current(&self, generation: u64) -> Current {
        Current {
            format: FORMAT,
            generation,
            before: 0,
            wave: 1,
            first: "a".to_owned(),
            began_s: now_s(),
            written_s: now_s(),
            lease_s: 3600,
            progress: Progress::default(),
        }
    }

    pub fn show(&self, current: &Current, seed: u8) {
        self.put("current", &current.to_bytes(&key(seed)).unwrap());
    }

    pub fn roll_out(&self, number: u64, policy: Option<&str>) {
        self.publish(number, policy);
        self.show(&self.current(number), 1);
    }
}

/// `transom tune follow` as the host `a`.
pub struct Follow {
    child: Child,
    said: Arc<Mutex<Vec<String>>>,
}

impl Follow {
    pub fn command(path: &Path, fleet: &Fleet, words: &[&str]) -> Command {
        let (folder, keys, seen) = (fleet.folder(), fleet.keys(), fleet.seen());
        let mut command = transom();
        command
            .args(["tune", "follow", &folder, "--trust", &keys, "--state", &seen])
            .args(["--host", "a", "--every", "200ms", "--netns", path.left.name()])
            .args(words)
            .stdout(Stdio::piped());
        command
    }

    pub fn start(path: &Path, fleet: &Fleet, words: &[&str]) -> Follow {
        let mut child = Follow::command(path, fleet, words).spawn().expect("transom runs");
        let said = Arc::new(Mutex::new(Vec::new()));
        let heard = said.clone();
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                heard.lock().expect("no panic").push(line);
            }
        });
        Follow { child, said }
    }

    pub fn lines(&self) -> Vec<String> {
        self.said.lock().expect("no panic").clone()
    }

    pub fn wait_for(&self, words: &str) {
        wait_for(words, || self.lines().iter().any(|line| line.contains(words)));
    }

    pub fn end(mut self, signal: i32) -> ExitStatus {
        self.signal(signal);
        self.child.wait().expect("our child")
    }

    fn signal(&self, signal: i32) {
        // SAFETY: the child is ours and not yet waited for.
        unsafe { libc::kill(self.child.id() as i32, signal) };
    }
}

impl Drop for Follow {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            self.signal(libc::SIGINT);
            let _ = self.child.wait();
        }
    }
}
