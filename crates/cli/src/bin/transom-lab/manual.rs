//! The manual and the shell completions of this program: `make dist` packs what this test makes.

use clap::CommandFactory;

#[test]
fn every_page_of_the_manual_renders_and_every_shell_completes() {
    transom_manual::check(crate::Args::command(), &[]);
}

#[test]
fn every_option_is_on_a_page() {
    let pages = &["lab.md", "grid.md", "compare.md"];
    transom_manual::check_pages(&crate::Args::command(), &[("", pages)]);
}
