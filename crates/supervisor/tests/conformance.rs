//! What a program sees of its sockets under the supervisor is what it sees of the kernel.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use support::{installed, own_namespace, supervised, text};

fn compiled(folder: &Path, options: &[&str]) -> PathBuf {
    let program = folder.join("sockets");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sockets.c");
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-Wall", "-Wextra", "-Werror", "-pthread"]).args(options);
    text(compiler.arg("-o").arg(&program).arg(source));
    program
}

fn same_on_both(options: &[&str]) {
    if !own_namespace() || !installed("cc") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = compiled(folder.path(), options);
    let program = program.to_str().expect("a plain name");
    let by_kernel = text(&mut Command::new(program));
    let supervised = text(&mut supervised(&[], &[program]));
    for (line, (kernel, ours)) in by_kernel.lines().zip(supervised.lines()).enumerate() {
        assert_eq!(kernel, ours, "line {} of\n{supervised}", line + 1);
    }
    assert_eq!(by_kernel.lines().count(), supervised.lines().count());
    assert!(by_kernel.lines().count() > 100, "it has hardly done anything:\n{by_kernel}");
}

#[test]
fn a_dynamically_linked_program_sees_what_it_sees_of_the_kernel() {
    same_on_both(&[]);
}

#[test]
fn a_static_program_sees_what_it_sees_of_the_kernel() {
    same_on_both(&["-static"]);
}
