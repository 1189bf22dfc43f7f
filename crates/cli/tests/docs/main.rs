//! What the documentation shows is what the programs do: commands and options exist, what can be
//! run anywhere prints what the page says, and no page quotes words that no program prints.

mod checked;
mod durations;
mod links;
mod named;
mod scenes;
mod shown;
// Some of it only for tests of `whatif`.
#[allow(dead_code)]
#[path = "../simulated/mod.rs"]
mod simulated;
mod stage;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use shown::{pages, root, shown};
use transom_monitor::Fact;

/// The words of each call of `transom` in a line of shell, without what follows `--`.
fn calls(command: &str) -> Vec<Vec<String>> {
    let without_comment = command.split(" #").next().unwrap_or_default();
    let parts = without_comment.split(['|', ';', '&', '(', ')']);
    let calls = parts.filter_map(|part| {
        let words: Vec<&str> = part.split_whitespace().collect();
        let at = words.iter().position(|word| *word == "transom" || word.ends_with("/transom"))?;
        // `which transom`, `--file …/transom`: not a call.
        let called = words[..at].iter().all(|word| *word == "sudo" || word.contains('='));
        let own = words[at + 1..].iter().take_while(|word| **word != "--");
        called.then(|| own.map(|word| (*word).to_owned()).collect::<Vec<_>>())
    });
    // A message begins with our name, too: `transom run: …`.
    calls.filter(|words| words.first().is_some_and(|word| !word.ends_with(':'))).collect()
}

/// The help of a subcommand, or `None` if it is another program that is not built here.
fn help(words: &[String]) -> Option<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_transom")).args(words).arg("--help").output();
    let output = output.expect("transom runs");
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn every_command_and_option_of_the_pages_exists() {
    const SUBCOMMANDS: [&str; 7] = ["lab", "tune", "journal", "flight", "peer", "key", "android"];
    let (mut helps, mut checked) = (BTreeMap::new(), 0);
    for shown in pages().iter().flat_map(|page| shown(page)) {
        for call in calls(&shown.command) {
            if call[0].starts_with('-') || ["peer", "run"].contains(&call[0].as_str()) {
                continue;
            }
            let nested = SUBCOMMANDS.contains(&call[0].as_str()) && call.len() > 1;
            let subcommand = call[..if nested { 2 } else { 1 }].to_vec();
            let help = helps.entry(subcommand.clone()).or_insert_with(|| help(&subcommand));
            let Some(help) = help else {
                panic!("{}: `transom {}` is no command", shown.place, subcommand.join(" "));
            };
            for option in call.iter().filter(|word| word.starts_with("--")) {
                let name = option.split('=').next().unwrap().trim_end_matches([']', ',', '…']);
                let is_there = help.split(|c: char| c.is_whitespace() || c == ',' || c == '=');
                assert!(
                    is_there.into_iter().any(|word| word == name),
                    "{}: `transom {}` has no option {name}",
                    shown.place,
                    subcommand.join(" ")
                );
                checked += 1;
            }
        }
    }
    assert!(checked > 20, "only {checked} options were found in the pages");
}

/// Every file below that one of our programs is made of, or that it reads.
fn sources(folder: &Path, to: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        let ending = path.extension().and_then(|it| it.to_str()).unwrap_or_default();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "target") {
                sources(&path, to);
            }
        } else if ["rs", "c", "h", "toml", "sh", "py", "js", "html"].contains(&ending) {
            to.push(fs::read_to_string(&path).unwrap_or_default());
        }
    }
}

fn all_sources() -> Vec<String> {
    let mut all = Vec::new();
    for folder in ["crates", "bpf", "linux", "experiments", "scripts", "bench"] {
        sources(&root().join(folder), &mut all);
    }
    all
}

fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    let letters = |c: char| !(c.is_alphabetic() || c == '_');
    text.split(letters).filter(|word| word.len() > 3).map(str::to_lowercase)
}

#[test]
fn no_page_shows_output_in_words_that_no_program_has() {
    // Words of the programs that a command runs, of the kernel's messages, and of examples that
    // are wrong on purpose (experiments.md).
    const OF_OTHERS: [&str; 6] = ["mbytes", "icmp_seq", "permitted", "fats", "sum_mbits", "ioctl"];
    let mut known: HashSet<String> = all_sources().iter().flat_map(|text| words(text)).collect();
    known.extend(OF_OTHERS.map(str::to_owned));
    let mut strange: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for shown in pages().iter().flat_map(|page| shown(page)) {
        // What other programs print is not ours.
        if calls(&shown.command).is_empty() {
            continue;
        }
        let of_command: HashSet<String> = words(&shown.command).collect();
        for word in shown.output.iter().flat_map(|line| words(line)) {
            if !known.contains(&word) && !of_command.contains(&word) {
                strange.entry(shown.place.clone()).or_default().insert(word);
            }
        }
    }
    assert!(strange.is_empty(), "{strange:#?}");
}

/// The messages of docs/troubleshooting.md: what stands between ` in the first column of a table.
fn quoted(page: &str) -> Vec<String> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.flat_map(|row| {
        let cell = row.split(" |").next().unwrap_or_default();
        let parts: Vec<String> = cell.split('`').step_by(2).map(str::to_owned).collect();
        parts
    })
    .collect()
}

/// The runs of a message that hold nothing of the case: names in capitals, quoted values, numbers
/// and ellipses stand for what differs.
fn constants(message: &str) -> Vec<String> {
    let is_variable = |word: &str| {
        let core = word.trim_matches(|c: char| !c.is_alphanumeric());
        let capital = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || "._-".contains(c);
        word.contains(['\'', '…', '"', '/', '\\', '<']) || core.chars().all(capital)
    };
    let parts = message.split([':', ',']).flat_map(|part| {
        let all: Vec<&str> = part.split_whitespace().collect();
        let runs = all.split(|word| is_variable(word)).map(|run| run.join(" "));
        runs.collect::<Vec<_>>()
    });
    parts.filter(|run| run.len() > 8).collect()
}

fn troubleshooting() -> String {
    fs::read_to_string(root().join("docs/troubleshooting.md")).unwrap()
}

/// Words are put together with the name of what is missing, so they are nowhere in the sources.
#[test]
fn what_troubleshooting_says_to_be_missing_is_said_in_these_words() {
    let names =
        ["BTF", "SELinux", "lockdown", "bpf(2)", "socket cookies", "CAP_BPF", "CAP_PERFMON"];
    let messages = quoted(&troubleshooting());
    for name in names {
        let of_it =
            messages.iter().filter_map(|message| Some((message, message.strip_prefix(name)?)));
        let of_it: Vec<_> = of_it.collect();
        assert!(!of_it.is_empty(), "the page has nothing of {name}");
        for (message, rest) in of_it {
            let found = rest.split(':').next().unwrap_or_default().trim().to_owned();
            let said = Fact { name, ok: false, found, remedy: String::new() }.lack();
            assert_eq!(message.split(": ").next(), Some(said.as_str()));
        }
    }
}

#[test]
fn every_message_of_troubleshooting_is_one_of_ours() {
    let page = troubleshooting();
    // Literals are broken over lines with a backslash.
    let sources: Vec<String> = all_sources()
        .iter()
        .map(|text| {
            let joined = text.replace("\\\n", "\n");
            joined.split_whitespace().collect::<Vec<_>>().join(" ")
        })
        .collect();
    // The kernel's and the C library's.
    const OF_OTHERS: [&str; 3] =
        ["Permission denied", "No such file or directory", "Unknown error"];
    let mut missing = Vec::new();
    let mut messages = quoted(&page);
    messages.retain(|message| !message.starts_with("make "));
    assert!(messages.len() > 30, "{}", messages.len());
    for message in messages {
        let parts = constants(&message);
        // The first word may be a name: `CAP_BPF is missing`, `lockdown is missing`.
        let is_ours = |part: &String| {
            let rest = part.split_once(' ').map(|(_, rest)| rest).filter(|rest| rest.len() > 8);
            OF_OTHERS.contains(&part.as_str())
                || [Some(part.as_str()), rest]
                    .into_iter()
                    .flatten()
                    .any(|part| sources.iter().any(|text| text.contains(part)))
        };
        if !parts.is_empty() && !parts.iter().any(is_ours) {
            missing.push(message);
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}
