//! Commands and scripts that the text of a page names are there.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::links::prose;
use crate::shown::{pages, root};

fn subcommands() -> Vec<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_transom")).arg("--help").output();
    let help = String::from_utf8(output.expect("transom runs").stdout).unwrap();
    let below = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let words =
        below.take_while(|line| !line.is_empty()).filter_map(|line| line.split_whitespace().next());
    words.map(str::to_owned).collect()
}

/// What stands between ` in a line, in groups of those that follow each other in a sentence: `a`,
/// `b` and `c`.
fn enumerations(line: &str) -> Vec<Vec<&str>> {
    let parts: Vec<&str> = line.split('`').collect();
    let mut groups: Vec<Vec<&str>> = Vec::new();
    for at in (1..parts.len()).step_by(2) {
        let goes_on = [", ", " and ", " or ", ", and "].contains(&parts[at - 1]);
        match groups.last_mut().filter(|_| goes_on) {
            Some(group) => group.push(parts[at]),
            None => groups.push(vec![parts[at]]),
        }
    }
    groups
}

/// Where two are commands, the others are, too.
#[test]
fn commands_that_a_sentence_enumerates_exist() {
    // Of `transom-fleet`.
    const OF_OTHERS: [&str; 1] = ["serve"];
    let known = subcommands();
    assert!(known.iter().any(|name| name == "explain"), "{known:?}");
    let (mut checked, mut strange) = (0, Vec::new());
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        for (number, line) in prose(&text) {
            for group in enumerations(line) {
                let first = |text: &&str| {
                    let own = text.strip_prefix("transom ").unwrap_or(text);
                    own.split(' ').next().unwrap_or_default().to_owned()
                };
                let names: Vec<String> = group.iter().map(first).collect();
                if names.iter().filter(|name| known.contains(name)).count() < 2 {
                    continue;
                }
                checked += 1;
                let unknown = names.iter().filter(|name| !known.contains(name));
                let unknown = unknown.filter(|name| !OF_OTHERS.contains(&name.as_str()));
                strange.extend(unknown.map(|name| format!("{}:{number}: {name}", page.display())));
            }
        }
    }
    assert!(checked > 10, "only {checked} sentences enumerate commands");
    assert!(strange.is_empty(), "{strange:#?}");
}

/// The program of a command, without what is set for it.
fn program(command: &str) -> &str {
    let command = command.trim_start_matches("$ ").trim_start_matches("sudo ");
    let is_set = |word: &&str| word.contains('=');
    command.split_whitespace().find(|word| !is_set(word)).unwrap_or_default()
}

#[test]
fn a_script_that_a_page_runs_by_its_name_can_be_executed() {
    let (mut checked, mut wrong) = (0, Vec::new());
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        for (line, number) in text.lines().zip(1..) {
            let quoted = line.split('`').skip(1).step_by(2);
            for name in quoted.chain([line]).map(program) {
                let is_script = ["bench/", "scripts/"].iter().any(|it| name.starts_with(it))
                    && [".py", ".sh"].iter().any(|it| name.ends_with(it));
                let Some(file) = is_script.then(|| fs::metadata(root().join(name))) else {
                    continue;
                };
                checked += 1;
                if file.is_err() || file.is_ok_and(|it| it.permissions().mode() & 0o111 == 0) {
                    wrong.push(format!("{}:{number}: {name}", page.display()));
                }
            }
        }
    }
    assert!(checked > 20, "only {checked} scripts were found in the pages");
    assert!(wrong.is_empty(), "not there, or not executable: {wrong:#?}");
}
