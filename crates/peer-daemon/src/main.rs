//! `transom-peer`: the terminals of one access point agree about their TCP. Found and run by
//! `transom peer`; a program of its own because it carries Zenoh.

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod access_point;
mod act;
mod batch;
mod daemon;
mod interface;
mod kernel_sieve;
mod key_file;
mod link;
mod looks;
mod made;
mod multicast;
mod nl80211;
mod over_zenoh;
mod place;
mod router;
mod run;
mod shown;
mod status;
mod tuned;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use transom_output::say;

#[derive(Parser)]
#[command(name = "transom peer", version, about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Report this terminal's connections to the others, and act on what the group decides
    Run(run::Args),
    /// Show the group, its shares, what is decided and why
    Status(status::Args),
    /// Make the key that the terminals of a group share
    #[command(subcommand)]
    Key(key_file::Command),
    /// Print the built-in rules, which apply without --rules
    #[command(alias = "policy")]
    Rules,
    /// Carry messages between networks; needs no key and can read nothing
    Router(router::Args),
}

fn main() -> ExitCode {
    transom_machine::objects::quiet_libbpf();
    transom_output::run("transom peer", |cli: Cli| match cli.command {
        Command::Run(args) => run::run(args),
        Command::Status(args) => status::run(args),
        Command::Key(command) => key_file::run(command),
        Command::Rules => say!("{}", transom_peers::Rules::default().to_toml().trim_end())
            .map(|()| ExitCode::SUCCESS)
            .map_err(Into::into),
        Command::Router(args) => router::run(args),
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn every_option_is_on_the_page() {
        transom_manual::check_pages(&super::Cli::command(), &[("", &["peer.md"])]);
    }
}
