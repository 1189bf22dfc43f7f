//! `transom`: a window on the kernel's TCP.

#![warn(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod agent;
mod android;
mod ask;
mod captured;
mod check;
mod chosen;
mod columns;
mod convert;
mod explain;
mod filters;
mod flight;
mod handover;
mod journal;
mod lab;
mod load;
mod log;
#[cfg(test)]
mod manual;
mod names;
mod naming;
mod peer;
mod range;
mod record;
mod recorded;
mod report;
mod run;
mod service;
mod top;
mod tune;
mod watched;
mod whatif;

#[derive(Parser)]
#[command(version, about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Say what this kernel lets us see, what is missing, and how to get it
    Check(check::Args),
    /// Record what TCP decides, event by event, into a trace file
    Record(record::Args),
    /// Keep the last minutes of events in memory, and write them when something happens
    Flight(flight::Args),
    /// Print events as they happen
    Log(log::Args),
    /// Keep a bounded log in the kernel, for `cat`
    Journal(journal::Args),
    /// Watch connections live
    Top(top::Args),
    /// Make one web page (or pictures) from a trace file
    Report(report::Args),
    /// Say what held each connection of a trace file back
    Explain(explain::Args),
    /// Predict what other settings would have done to a recorded connection
    Whatif(whatif::Args),
    /// Change the algorithm or the window of connections, running ones too
    Tune(tune::Args),
    /// Convert a trace file to another format: CSV, Wireshark, Perfetto, qlog, …
    Convert(convert::Args),
    /// Experiments on emulated air and path, beside what papers published (transom-lab)
    Lab(lab::Args),
    /// Write one row per connection, always on (transom-agent)
    Agent(agent::Args),
    /// Ask what the agent wrote: what was slow, and why
    Ask(ask::Args),
    /// Store the names of addresses, for --names of top, explain, report, ask and log
    Names(names::Args),
    /// Agree with the other terminals of this access point (transom-peer)
    Peer(peer::Args),
    /// Run an unmodified program on a network stack of its own
    Run(transom_supervisor::Arguments),
    /// Watch a phone over adb: check, record, fetch, run any command there
    Android(android::Args),
}

fn main() -> ExitCode {
    transom_output::unfinished::discard_on_panic();
    transom_machine::objects::quiet_libbpf();
    transom_output::run("transom", |cli: Cli| match cli.command {
        Command::Check(args) => check::run(args),
        Command::Record(args) => record::run(args),
        Command::Flight(args) => flight::run(args),
        Command::Log(args) => log::run(args),
        Command::Journal(args) => journal::run(args),
        Command::Top(args) => top::run(args),
        Command::Report(args) => report::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Whatif(args) => whatif::run(args),
        Command::Tune(args) => tune::run(args),
        Command::Convert(args) => convert::run(args),
        Command::Lab(args) => lab::run(args),
        Command::Agent(args) => agent::run(args),
        Command::Ask(args) => ask::run(args),
        Command::Names(args) => names::run(args),
        Command::Peer(args) => peer::run(args),
        Command::Run(line) => run::run(line),
        Command::Android(args) => android::run(args),
    })
}
