//! The manual and the shell completions of this program: `make dist` packs what this test makes.

use clap::CommandFactory;

#[test]
fn every_page_of_the_manual_renders_and_every_shell_completes() {
    transom_manual::check(crate::Cli::command(), &["agent", "lab", "peer"]);
}

/// An argument that begins with `-` is an option for clap, unless it is told otherwise.
#[test]
fn a_negative_time_is_refused_as_one() {
    fn look(command: &clap::Command) {
        for option in command.get_arguments() {
            let names = option.get_value_names().unwrap_or_default();
            let is_read = option.is_allow_hyphen_values_set() || option.is_require_equals_set();
            let (of, id) = (command.get_name(), option.get_id());
            assert!(is_read || names.iter().all(|name| name != "TIME"), "{of}: {id}");
        }
        command.get_subcommands().for_each(look);
    }
    look(&crate::Cli::command());
}

/// Those of filters are on the page of `record`.
#[test]
fn every_option_is_on_a_page() {
    let pages: &[(&str, &[&str])] = &[
        ("check", &["check.md"]),
        ("record", &["record.md"]),
        ("flight", &["flight.md", "record.md"]),
        ("log", &["log.md", "record.md", "names.md"]),
        ("journal", &["journal.md", "record.md"]),
        ("top", &["top.md", "record.md", "names.md"]),
        ("explain", &["explain.md"]),
        ("whatif", &["whatif.md"]),
        ("report", &["report.md"]),
        ("convert", &["convert.md"]),
        ("tune", &["tune.md", "rollout.md"]),
        ("ask", &["agent.md", "names.md"]),
        ("names", &["names.md"]),
        ("run", &["run.md"]),
        ("android", &["android.md", "record.md"]),
    ];
    transom_manual::check_pages(&crate::Cli::command(), pages);
}
