//! Programs of their own: scripts, what connects when it is told to, and cgroups for them.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use super::Namespace;

/// A script that can be run. Written by another process, for the reason of [`copy`].
pub fn write_script(path: &Path, text: &str) {
    let mut shell = Command::new("sh");
    shell.args(["-c", "cat >\"$1\" && chmod 755 \"$1\"", "sh"]).arg(path);
    let mut child = shell.stdin(Stdio::piped()).spawn().expect("sh");
    let mut input = child.stdin.take().expect("it is piped");
    input.write_all(text.as_bytes()).expect("the shell reads");
    drop(input);
    assert!(child.wait().expect("our child").success(), "no script {}", path.display());
}

/// A program in another place. Copied by another process: a file that this one has open for
/// writing may be so in a child, too, that another thread has just forked, and then cannot be run.
pub fn copy(program: &Path, to: &Path) {
    let copied = Command::new("cp").arg(program).arg(to).status();
    assert!(copied.expect("cp").success(), "no copy in {}", to.display());
}

/// A Python that connects whenever it is told to, and forks once.
pub struct Client {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

const PROGRAM: &str = "
import os, socket, sys
kept = []
for line in sys.stdin:
    word, port = line.split()
    if word == 'fork':
        if os.fork():
            os.wait()
            continue
    kept.append(socket.create_connection(('127.0.0.1', int(port))))
    kept[-1].sendall(b'x')
    print('done', flush=True)
    if word == 'fork':
        os._exit(0)
";

impl Client {
    pub fn start(namespace: &Namespace) -> Client {
        let mut child = namespace
            .command("/usr/bin/python3")
            .args(["-u", "-c", PROGRAM])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Client { child, input, output }
    }

    pub fn tell(&mut self, word: &str, port: u16) {
        writeln!(self.input, "{word} {port}").unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        assert_eq!(line.trim(), "done");
    }

    pub fn pid(&self) -> String {
        self.child.id().to_string()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A cgroup below the mount, with another one `below` it; removed in the end.
pub struct Cgroup(PathBuf);

impl Cgroup {
    pub fn new(name: &str) -> Cgroup {
        let mount = transom_machine::cgroup::mount().expect("cgroup v2");
        let path = mount.join(format!("transom-{}-{name}", std::process::id()));
        fs::create_dir_all(path.join("below")).unwrap();
        Cgroup(path)
    }

    /// Of the cgroup itself (""), or of the one `below`.
    pub fn path(&self, which: &str) -> String {
        self.0.join(which).to_str().expect("a path of text").trim_end_matches('/').to_owned()
    }

    /// The one `below` goes, and another one with its path comes, as when a service is restarted;
    /// between the two there is none for so long.
    pub fn restart(&self, without: Duration) {
        let below = self.0.join("below");
        fs::remove_dir(&below).expect("it is empty");
        std::thread::sleep(without);
        fs::create_dir(&below).expect("it went");
    }

    /// Whether no program is in it any more.
    pub fn is_empty(&self, which: &str) -> bool {
        fs::read_to_string(self.0.join(which).join("cgroup.procs")).is_ok_and(|it| it.is_empty())
    }

    /// Moves a program into it.
    pub fn take(&self, which: &str, client: &Client) {
        fs::write(self.0.join(which).join("cgroup.procs"), client.pid()).expect("it is ours");
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(self.0.join("below"));
        let _ = fs::remove_dir(&self.0);
    }
}

/// The name of this process as the kernel has it; threads of tests are named after the tests.
pub fn own_comm() -> String {
    fs::read_to_string("/proc/self/comm").unwrap().trim_end().to_owned()
}
