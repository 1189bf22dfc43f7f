//! The S3 server, and the jobs that are run against it.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};

use crate::environment;

pub struct Server {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    port: u16,
    /// With what the jobs need.
    python: PathBuf,
    pub duckdb: PathBuf,
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/compact").join(name)
}

impl Server {
    /// `None` where it, or what the jobs need, cannot be had.
    pub fn start() -> Option<Server> {
        let engines = environment::engines()?;
        let packages = ["pyiceberg[sql-sqlite]", "pyarrow", "boto3"];
        let python =
            environment::of("pyiceberg", &packages, "pyiceberg.catalog.sql, pyarrow, boto3")?;
        let mut child = Command::new(&engines)
            .arg(script("bucket.py"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let duckdb = engines.with_file_name("duckdb");
        let mut server = Server { child, input, output, port: 0, python, duckdb };
        server.port = server.line().try_into().unwrap();
        Some(server)
    }

    fn line(&mut self) -> usize {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim().parse().expect("a number")
    }

    fn told(&mut self, words: &str) -> usize {
        writeln!(self.input, "{words}").unwrap();
        self.line()
    }

    pub fn put(&mut self, folder: &Path, prefix: &str) -> usize {
        self.told(&format!("put {} {prefix}", folder.display()))
    }

    /// Replaces the folder by what is below the prefix.
    pub fn get(&mut self, prefix: &str, folder: &Path) -> usize {
        let _ = std::fs::remove_dir_all(folder);
        self.told(&format!("get {prefix} {}", folder.display()))
    }

    fn command(&self, program: &Path, words: &[&str]) -> Command {
        // The shell waits for a line, so that the server knows the process before it begins.
        let mut command = Command::new("sh");
        command
            .args(["-c", "read -r line; exec \"$@\"", "sh"])
            .arg(&self.python)
            .arg("-B")
            .arg(program)
            .args(words)
            .env("AWS_ACCESS_KEY_ID", "testing")
            .env("AWS_SECRET_ACCESS_KEY", "testing")
            .env("AWS_REGION", "us-east-1")
            .env("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", self.port))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// A job that comes with the project, begun.
    pub fn begin(&self, job: &str, words: &[&str]) -> Child {
        let jobs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/fleet");
        let mut child = self.command(&jobs.join(job), words).spawn().unwrap();
        go_on(&mut child);
        child
    }

    pub fn run(&self, job: &str, words: &[&str]) -> Output {
        self.begin(job, words).wait_with_output().unwrap()
    }

    /// Runs a job again and again, and kills it after its first write, after two, after four, until it
    /// ends by itself; how often it was killed.
    pub fn run_killed(&mut self, job: &str, words: &[&str]) -> usize {
        let jobs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/fleet");
        for killed in 0.. {
            let mut child = self.command(&jobs.join(job), words).spawn().unwrap();
            self.told(&format!("kill {} {}", child.id(), 1 << killed));
            go_on(&mut child);
            let output = child.wait_with_output().unwrap();
            if output.status.code().is_some() {
                assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
                self.told("kill 0 0");
                return killed;
            }
        }
        unreachable!()
    }

    /// The data files of an Iceberg table, as keys below `prefix`.
    pub fn snapshot(&self, catalog: &Path, table: &str, prefix: &str) -> Vec<String> {
        let words = [catalog.to_str().unwrap(), table];
        let mut child = self.command(&script("snapshot.py"), &words).spawn().unwrap();
        go_on(&mut child);
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        let key = |line: &str| line.strip_prefix(&format!("s3://tables/{prefix}/")).map(Into::into);
        text.lines().map(|line| key(line).expect("below the prefix")).collect()
    }
}

fn go_on(child: &mut Child) {
    writeln!(child.stdin.take().unwrap()).unwrap();
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
