//! `transom-drill`: a host of a fleet answers over Zenoh what its kernel decided about a connection,
//! from what its agent keeps. A program of its own: Zenoh takes minutes to build, and neither the
//! privileged agent nor `transom-fleet` is to carry it.

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod answering;
mod asking;
#[cfg(test)]
mod manual;
mod pace;
mod question;
mod rendered;
mod reply;
mod ring;
mod router;
mod session;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// What a host's kernel decided about a connection, asked over Zenoh
#[derive(Parser)]
#[command(name = "transom-drill", version, max_term_width = 100)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Answer(answering::Args),
    Ask(asking::Args),
    Router(router::Args),
}

fn main() -> ExitCode {
    transom_output::run("transom-drill", |args: Args| match args.command {
        Command::Answer(args) => answering::run(&args),
        Command::Ask(args) => asking::run(&args),
        Command::Router(args) => router::run(&args),
    })
}
