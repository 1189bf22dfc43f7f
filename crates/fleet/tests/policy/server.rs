//! A real S3 server with an empty bucket `tables`.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::environment;

pub struct Server {
    child: Child,
    port: u16,
}

impl Server {
    /// `None` where it cannot be had.
    pub fn start() -> Option<Server> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ship/serve.py");
        let mut command = Command::new(environment::engines()?);
        command.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Some(Server { child, port: line.trim().parse().expect("a port") })
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn give_keys(&self, command: &mut Command) {
        for (name, value) in [
            ("AWS_ACCESS_KEY_ID", "testing"),
            ("AWS_SECRET_ACCESS_KEY", "testing"),
            ("AWS_REGION", "us-east-1"),
            ("AWS_ALLOW_HTTP", "true"),
        ] {
            command.env(name, value);
        }
        command.env("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", self.port));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
