//! What the pages in docs/ say of a command line.

use std::fs;

use clap::{Arg, Command};

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");

/// Options of this command and those below it that no page has, by either name.
fn untold(command: &Command, text: &str, of: &str) -> Vec<String> {
    let is_own = |option: &&Arg| {
        !option.is_hide_set() && !["help", "version"].contains(&option.get_id().as_str())
    };
    let is_told = |option: &Arg| {
        let long = option.get_long().map(|long| format!("--{long}"));
        let short = option.get_short().map(|short| format!("-{short}"));
        long.into_iter().chain(short).any(|name| is_named(text, &name))
    };
    let options = command.get_arguments().filter(|option| option.get_long().is_some());
    let missing = options.filter(is_own).filter(|option| !is_told(option));
    let named = missing.map(|option| format!("{of} --{}", option.get_long().unwrap_or_default()));
    let mut all: Vec<String> = named.collect();
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        all.extend(untold(below, text, &format!("{of} {}", below.get_name())));
    }
    all
}

/// As a word: `--rate` is not named by `--rate-limit`, nor `-o` by `and-or`.
fn is_named(text: &str, option: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-';
    text.match_indices(option).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + option.len()..]);
        !before.ends_with(is_part) && !after.starts_with(is_part)
    })
}

/// Every option of these subcommands, and of those below them, is on one of their pages.
///
/// # Panics
/// An option is not, or there is no such subcommand or page.
pub fn check_pages(command: &Command, pages: &[(&str, &[&str])]) {
    let mut missing = Vec::new();
    for (name, files) in pages {
        let below = name.split_whitespace().try_fold(command, Command::find_subcommand);
        let below = below.unwrap_or_else(|| panic!("there is no command '{name}'"));
        let read = |file: &&str| fs::read_to_string(format!("{DOCS}/{file}")).expect("a page");
        let text: String = files.iter().map(read).collect();
        missing.extend(untold(below, &text, name));
    }
    assert!(missing.is_empty(), "no page has {missing:#?}");
}

#[test]
fn an_option_that_the_page_has_not_is_told() {
    let output = Arg::new("output").long("output").short('o');
    let command = Command::new("it")
        .arg(output)
        .subcommand(Command::new("below").arg(Arg::new("rate").long("rate")));
    let told = |text: &str| untold(&command, text, "it");
    assert!(told("`-o FILE`, `--rate=N`").is_empty());
    assert_eq!(told("and-or, `--output FILE`, `--rate-limit`"), ["it below --rate"]);
    assert_eq!(told("`--rate N`"), ["it --output"]);
}
