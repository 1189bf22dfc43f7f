//! What a program sees of its sockets under the supervisor is what it sees of the kernel.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use support::{own_namespace, supervised, text};
use transom_testbed::has;

fn compiled(folder: &Path, name: &str, options: &[&str]) -> PathBuf {
    let program = folder.join(name);
    let source = format!("{}/tests/{name}.c", env!("CARGO_MANIFEST_DIR"));
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-Wall", "-Wextra", "-Werror", "-pthread"]).args(options);
    text(compiler.arg("-o").arg(&program).arg(source));
    program
}

fn same_on_both(options: &[&str]) {
    if !own_namespace() || !has("cc") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    for (name, lines) in [("streams", 80), ("datagrams", 20), ("processes", 10), ("signals", 10)] {
        let program = compiled(folder.path(), name, options);
        let program = program.to_str().expect("a plain name");
        let by_kernel = text(&mut Command::new(program));
        let supervised = text(&mut supervised(&[], &[program]));
        for (line, (kernel, ours)) in by_kernel.lines().zip(supervised.lines()).enumerate() {
            assert_eq!(kernel, ours, "line {} of {name}:\n{supervised}", line + 1);
        }
        assert_eq!(by_kernel.lines().count(), supervised.lines().count());
        assert!(by_kernel.lines().count() > lines, "it has hardly done anything:\n{by_kernel}");
    }
}

#[test]
fn a_dynamically_linked_program_sees_what_it_sees_of_the_kernel() {
    same_on_both(&[]);
}

#[test]
fn a_static_program_sees_what_it_sees_of_the_kernel() {
    same_on_both(&["-static"]);
}

#[test]
fn arguments_by_chance_and_signals_harm_nobody() {
    if !own_namespace() || !has("cc") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = compiled(folder.path(), "garbage", &[]);
    let program = program.to_str().expect("a plain name");
    let body = b"still serving".to_vec();
    let url = format!("http://{}/", support::web_server(body.clone()));
    for seed in 1..=4 {
        // After all that, the same supervisor serves a program as ever.
        let script = format!("{program} {seed} 5000 && exec curl -sS {url}");
        if has("curl") {
            assert_eq!(support::output(&mut supervised(&[], &["sh", "-c", &script])), body);
        }
    }
}
