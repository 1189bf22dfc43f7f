//! `transom lab` on the real kernel: what it puts up, runs, notices, and takes down again.

mod hosts;
mod runs;
mod told;

use std::path::PathBuf;

const PHONE_AND_SERVER: &str = r#"
title = "A phone and a server"
source = "this test"
question = "Does it hold?"
duration_s = 1
repeats = 1

[air]

[path]
rtt_ms = 10

[hosts.phone]
profile = "ht-03a"

[hosts.server]
profile = "server"

[flows.up]
from = "phone"
to = "server"
"#;

/// A program that is installed.
fn real(program: &str) -> PathBuf {
    let path = std::env::var_os("PATH").expect("PATH");
    let mut all = std::env::split_paths(&path).map(|folder| folder.join(program));
    all.find(|path| path.is_file()).expect("installed")
}
