//! What reads a page or a completion is asked whether it can.

use std::path::{Path, PathBuf};
use std::process::Command;

use transom_testbed::has;

/// What the program says of the file; nothing is good.
fn said(program: &str, arguments: &[&str], file: &Path) -> String {
    let output = Command::new(program).args(arguments).arg(file).output().expect("it runs");
    let mut said = String::from_utf8_lossy(&output.stderr).into_owned();
    if program == "mandoc" {
        said.push_str(&String::from_utf8_lossy(&output.stdout));
    }
    if !output.status.success() {
        said.push_str(&format!("{program}: {}", output.status));
    }
    said
}

/// Both formatters take every page without a warning.
pub fn pages_render(pages: &[PathBuf]) {
    for (program, arguments) in [
        ("groff", &["-K", "utf8", "-man", "-ww", "-z", "-T", "utf8"][..]),
        ("mandoc", &["-T", "lint", "-W", "warning"][..]),
    ] {
        if !has(program) {
            continue;
        }
        for page in pages {
            let said = said(program, arguments, page);
            assert!(said.is_empty(), "{program}, {}: {said}", page.display());
        }
    }
}

/// The shell parses its completion.
pub fn shell_takes(shell: &str, file: &Path) {
    if has(shell) {
        let said = said(shell, &["-n"], file);
        assert!(said.is_empty(), "{shell}, {}: {said}", file.display());
    }
}

/// What bash offers after the program's name and the beginning of a word.
pub fn offered(file: &Path, name: &str, word: &str) -> Vec<String> {
    let script = format!(
        "source '{}'; COMP_WORDS=({name} '{word}'); COMP_CWORD=1; \
         function=$(complete -p {name} | sed 's/.*-F \\([^ ]*\\).*/\\1/'); \
         $function {name} '{word}' {name}; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        file.display()
    );
    let output = Command::new("bash").args(["-c", &script]).output().expect("bash runs");
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}
