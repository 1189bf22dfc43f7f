//! A roll-out on the page of the fleet.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::browser;
use crate::program::{Operator, said};

/// `transom-fleet serve` into a file, with more words.
fn serve(operator: &Operator, duckdb: &Path, file: &Path, more: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_transom-fleet"));
    command
        .args(["serve", "--from", &operator.address(), "--force", "-o"])
        .arg(file)
        .args(more)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", "/nonexistent")
        .env("TRANSOM_DUCKDB", duckdb);
    said(&mut command).unwrap();
    fs::read_to_string(file).unwrap()
}

/// Of a generation that its gate took back, whose effect was expected to be -30 % to -10 %.
pub fn beside_what_was_expected(operator: &Operator, duckdb: &Path) {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("policies.html");
    let trusted = operator.text("trusted");
    let page = serve(operator, duckdb, &file, &["--trust", &trusted]);
    for words in [
        "Generation 2 <strong>is on all hosts",
        "no policy: all hosts have it",
        "Generation 1 <strong>was undone by its gate loss",
        ">-30.0 % to -10.0 %<td",
        "<th scope=\"row\">loss = retransmitted / data_segments_sent, higher, 10 %<td data-is=\"measured\">+",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    browser::draws(&file, [1000, 1500]);
    // Nobody said whose signatures are believed, or others signed it.
    assert!(!serve(operator, duckdb, &file, &[]).contains("Policies"));
    let other = Operator::new();
    let page = serve(operator, duckdb, &file, &["--trust", &other.text("trusted")]);
    assert!(
        page.contains("has what is not believed here") && page.contains("<h2>Agents"),
        "{page}"
    );
    assert!(!page.contains("Generation 1"), "{page}");
}
