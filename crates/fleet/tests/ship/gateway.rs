//! A second S3 server, which checks signatures, clocks, regions and a bucket's policy: versitygw.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};
use transom_testbed::{find_program, fresh_port, is_required, skip, wait_for};

use crate::place::{cookies, gather, is_of_hosts, ship_of};
use crate::s3::with_keys;
use crate::spool::Spool;
use crate::troubled::Troubled;

const MODULE: &str = "github.com/versity/versitygw/cmd/versitygw@v1.8.0";
const OWNER: &str = "owner";
/// Tests that run at the same time want the same program.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

pub struct Gateway {
    program: PathBuf,
    child: Child,
    pub port: u16,
    folder: tempfile::TempDir,
}

impl Gateway {
    /// With a bucket `tables`, and these users, to whom it allows nothing yet. `None` where it
    /// cannot be had.
    pub fn start(users: &[&str]) -> Option<Gateway> {
        let program = program().map_err(|why| skip("versitygw", &why)).ok()?;
        let folder = tempfile::tempdir().unwrap();
        let [data, iam, metadata] = ["data", "iam", "metadata"].map(|name| {
            let path = folder.path().join(name);
            std::fs::create_dir(&path).unwrap();
            path
        });
        let port = fresh_port();
        let child = Command::new(&program)
            .args(["--port", &format!("127.0.0.1:{port}"), "--quiet", "--iam-dir"])
            .arg(iam)
            .args(["posix", "--sidecar"])
            .args([metadata, data])
            .env("ROOT_ACCESS_KEY", OWNER)
            .env("ROOT_SECRET_KEY", secret(OWNER))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let gateway = Gateway { program, child, port, folder };
        wait_for("versitygw", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        for user in users {
            gateway.admin(&["create-user", "-a", user, "-s", &secret(user), "-r", "user"]);
        }
        gateway.admin(&["create-bucket", "-o", OWNER, "--bucket", "tables"]);
        Some(gateway)
    }

    fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    fn admin(&self, words: &[&str]) {
        let mut command = Command::new(&self.program);
        command.args(["admin", "-a", OWNER, "-s", &secret(OWNER), "--er", &self.endpoint()]);
        let output = command.args(words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
    }

    /// The bucket's policy is now this one.
    pub fn set_policy(&self, policy: &Value) {
        let output = Command::new("curl")
            .args(["-sS", "--fail-with-body", "--aws-sigv4", "aws:amz:us-east-1:s3"])
            .args(["-H", "x-amz-content-sha256: UNSIGNED-PAYLOAD", "-X", "PUT"])
            .args(["--user", &format!("{OWNER}:{}", secret(OWNER))])
            .args(["--data-binary", &policy.to_string()])
            .arg(format!("{}/tables?policy=", self.endpoint()))
            .output()
            .unwrap();
        assert!(output.status.success(), "{policy}: {output:?}");
    }

    /// Ships as `host`, with the keys of `user`.
    pub fn ship(&self, user: &str, host: &str, spool: &Spool, to: &str) -> Command {
        self.ship_to(self.port, user, host, spool, to)
    }

    /// The same, by a way on which things happen.
    pub fn ship_by(
        &self,
        way: &Troubled,
        user: &str,
        host: &str,
        spool: &Spool,
        to: &str,
    ) -> Command {
        self.ship_to(way.port, user, host, spool, to)
    }

    fn ship_to(&self, port: u16, user: &str, host: &str, spool: &Spool, to: &str) -> Command {
        let mut command = ship_of(host, spool.path(), to);
        with_keys(&mut command, port, user, &secret(user));
        command
    }

    /// Names of the objects that were files of a spool, sorted: to this server an object is a file.
    pub fn objects(&self) -> Vec<String> {
        let bucket = self.bucket();
        let mut found = Vec::new();
        gather(&bucket, &mut found);
        let name = |path: PathBuf| path.strip_prefix(&bucket).unwrap().to_str().unwrap().to_owned();
        let mut names: Vec<String> = found.into_iter().map(name).collect();
        names.retain(|name| name.ends_with(".parquet") && !is_of_hosts(name));
        names.sort();
        names
    }

    pub fn bucket(&self) -> PathBuf {
        self.folder.path().join("data/tables")
    }

    pub fn cookies(&self) -> Vec<u64> {
        let objects = self.objects();
        let of = objects.iter().filter(|name| name.contains("connections/"));
        cookies(of.map(|name| std::fs::read(self.bucket().join(name)).unwrap()))
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn secret(user: &str) -> String {
    format!("secret-of-{user}")
}

/// In PATH, or built once.
fn program() -> Result<PathBuf, String> {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(program) = find_program("versitygw") {
        return Ok(program);
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("versitygw");
    let program = folder.join("versitygw");
    if program.is_file() {
        return Ok(program);
    }
    if !is_required("versitygw") {
        return Err(
            "three minutes to build, which is done only where TRANSOM_REQUIRE lists it".into()
        );
    }
    let go = find_program("go").ok_or("it is not installed, and Go neither")?;
    let mut command = Command::new(go);
    // Without a newer Go than the one that is here.
    command.args(["install", MODULE]).env("GOBIN", folder).env("GOTOOLCHAIN", "local");
    let output = command.output().map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().last().unwrap_or_default().to_owned();
    if output.status.success() { Ok(program) } else { Err(format!("Go cannot build it: {last}")) }
}

/// That of the package, with one statement for each host, whose user has its name.
pub fn policy_of(hosts: &[&str]) -> Value {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/fleet/bucket-policy.json");
    let template = std::fs::read_to_string(path).unwrap();
    let statement = |host: &&str| -> Value {
        let mut text = template.clone();
        for (word, value) in
            [("BUCKET", "tables"), ("PREFIX", "fleet"), ("HOST", host), ("PRINCIPAL", host)]
        {
            assert!(text.contains(word), "{word}");
            text = text.replace(word, value);
        }
        serde_json::from_str::<Value>(&text).unwrap()["Statement"][0].clone()
    };
    json!({
        "Version": "2012-10-17",
        "Statement": hosts.iter().map(statement).collect::<Vec<_>>(),
    })
}

/// The same for these objects.
pub fn with_resource(mut policy: Value, resource: &str) -> Value {
    for statement in policy["Statement"].as_array_mut().unwrap() {
        statement["Resource"] = json!([format!("arn:aws:s3:::tables/{resource}")]);
    }
    policy
}
