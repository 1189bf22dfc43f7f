//! `--connection`: which connections of a trace a command is about.

use transom_analysis::{BadSelector, Selector};

#[derive(clap::Args)]
pub struct ChosenArgs {
    /// Only these: part of a program's name (iperf3), a cookie (7, #7), an address (10.0.0.1,
    /// 10.0.0.0/24, 2001:db8::1), a port (:5201), LOCAL-REMOTE (10.0.0.1-:5201), or an MPTCP
    /// token; may be given several times
    #[arg(long, value_name = "WHICH", value_parser = selector, allow_hyphen_values = true)]
    connection: Vec<(String, Selector)>,
}

fn selector(text: &str) -> Result<(String, Selector), BadSelector> {
    Ok((text.to_owned(), text.parse()?))
}

impl ChosenArgs {
    /// What was written and what it means; empty = all connections.
    pub fn selectors(&self) -> Vec<(String, Selector)> {
        self.connection.clone()
    }

    pub fn is_given(&self) -> bool {
        !self.connection.is_empty()
    }
}
