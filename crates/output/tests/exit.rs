//! With which code a program ends after an error. That a reader of ours is gone is known of all of
//! a process, so this one is by itself: `crates/cli/tests/outputs.rs` has the other case.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;
use transom_output::exit;

#[test]
fn a_pipe_that_is_broken_and_not_our_output_is_an_error() {
    let (reader, mut daemon) = io::pipe().unwrap();
    drop(reader);
    let asked = daemon.write_all(b"?").context("asking the daemon").map(|()| ExitCode::SUCCESS);
    assert_eq!(exit("program", asked), ExitCode::FAILURE);
}
