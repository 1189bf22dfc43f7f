//! Manual pages and shell completions of a program, made from the definition of its command line.
//!
//! A program's test calls [`check`]: the pages render without a warning, and the shells take the
//! completions. With TRANSOM_MANUAL=FOLDER the test leaves them there, which is how `make dist`
//! gets them. So no shipped program carries the code that makes them.

mod checked;
mod documented;
mod page;

use std::fs;
use std::path::{Path, PathBuf};

use clap::Command;
use clap_complete::{Shell, generate_to};

pub use documented::check_pages;

/// Writes everything below `folder`, and checks it with the programs that will read it.
///
/// `elsewhere` names subcommands that are programs with pages of their own.
///
/// # Panics
/// A page or a completion is wrong, or the folder cannot be written.
pub fn check(command: Command, elsewhere: &[&str]) {
    let unkept = tempfile::tempdir().expect("a temporary folder");
    let kept = std::env::var_os("TRANSOM_MANUAL").map(PathBuf::from);
    let folder = kept.as_deref().unwrap_or(unkept.path());
    let pages = write_pages(command.clone(), elsewhere, &folder.join("man"));
    assert!(!pages.is_empty());
    checked::pages_render(&pages);
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let file = write_completion(shell, command.clone(), folder);
        checked::shell_takes(&shell.to_string(), &file);
        if shell == Shell::Bash {
            bash_offers_all(&command, &file);
        }
    }
}

/// Every subcommand and every option that the help lists.
fn bash_offers_all(command: &Command, file: &Path) {
    let name = page::name(command);
    let words = checked::offered(file, &name, "");
    let options = checked::offered(file, &name, "--");
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        assert!(words.iter().any(|word| word == below.get_name()), "{}", below.get_name());
    }
    for long in command.get_arguments().filter_map(clap::Arg::get_long) {
        assert!(options.contains(&format!("--{long}")), "--{long}");
    }
}

fn write_pages(command: Command, elsewhere: &[&str], folder: &Path) -> Vec<PathBuf> {
    fs::create_dir_all(folder).expect("a folder for pages");
    let version = command.get_version().unwrap_or_default().to_owned();
    // `transom help record` is `transom record --help`: no page.
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let mut left = vec![command];
    let mut written = Vec::new();
    while let Some(command) = left.pop() {
        let below = command.get_subcommands().filter(|below| !below.is_hide_set());
        let own = below.filter(|below| !elsewhere.contains(&below.get_name()));
        left.extend(own.cloned());
        let file = folder.join(format!("{}.1", page::name(&command)));
        fs::write(&file, page::text(&command, &version)).expect("a page");
        written.push(file);
    }
    written.sort();
    written
}

fn write_completion(shell: Shell, mut command: Command, folder: &Path) -> PathBuf {
    let folder = folder.join(shell.to_string());
    fs::create_dir_all(&folder).expect("a folder for completions");
    let name = page::name(&command);
    generate_to(shell, &mut command, name, folder).expect("a completion")
}
