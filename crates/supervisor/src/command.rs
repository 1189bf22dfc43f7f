//! The command line of `transom run`, for every program that links the supervisor.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context, Result, bail};
use clap::{Parser, ValueEnum};

use crate::Options;
use crate::errno::Errno;
use crate::stack::Stack;

/// What `transom run --help` ends with.
pub const EXAMPLES: &str = "\
Examples:
  transom run -- curl -O https://example.org/file
      the host's default interface, CUBIC of Linux 6.12 whatever the host runs
  transom run --cc bbr --path wlan0 -- iperf3 -c 192.0.2.1
      another congestion control, for this program only
  transom run --mptcp --path wlan0 --path rmnet0,backup -- ssh example.org
      Multipath TCP; the second path is used only when the first one fails
  transom run --sysctl net.ipv4.tcp_sack=0 -- ./client
      a setting of this program's stack; the host's stays as it is
  transom run --stack host --trace -- curl http://127.0.0.1/
      the host's own sockets: shows the program's socket calls, needs no privilege";

/// Run an unmodified program on a network stack of its own
#[derive(Clone, Debug, Parser)]
#[command(name = "transom run", max_term_width = 100, after_help = EXAMPLES)]
pub struct Arguments {
    /// Network stack that the program uses
    #[arg(long, value_enum, default_value_t = StackName::Linux)]
    pub stack: StackName,
    /// Interface that the stack sends on, with address and gateway; repeat it for more paths
    #[arg(long = "path", value_name = "IF[,ADDRESS[,GATEWAY]][,backup][,signal]")]
    pub paths: Vec<String>,
    /// Use Multipath TCP (RFC 8684) instead of TCP
    #[arg(long)]
    pub mptcp: bool,
    /// Congestion control algorithm of the program's TCP connections
    #[arg(long, value_name = "NAME")]
    pub cc: Option<String>,
    /// Set a sysctl of the stack (a file below /proc/sys); repeat it for more
    #[arg(long = "sysctl", value_name = "KEY=VALUE")]
    pub sysctls: Vec<Sysctl>,
    /// Network stack of UDP sockets, and so of name resolution
    #[arg(long, value_enum, default_value_t = Udp::Stack)]
    pub udp: Udp,
    /// Print each socket call that the stack answers, on standard error
    #[arg(long)]
    pub trace: bool,
    /// Print connections and their paths every second, on standard error
    #[arg(long)]
    pub status: bool,
    /// Write the library's events into this trace file
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Overwrite that file if it exists
    #[arg(long, requires = "record")]
    pub force: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true)]
    pub program: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StackName {
    /// Linux as a library
    Linux,
    /// The kernel of this host
    Host,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Udp {
    /// The one of --stack
    Stack,
    /// The kernel of this host
    Host,
}

/// `KEY=VALUE`, the key with dots as `sysctl(8)` writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sysctl {
    pub key: String,
    pub value: String,
}

impl FromStr for Sysctl {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (key, value) = text.split_once('=').context("a setting is KEY=VALUE")?;
        let key = key.trim();
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
        let parts = || key.split(['/', '.']);
        if !key.chars().all(plain) || parts().any(str::is_empty) {
            bail!("`{key}` is no name of a setting, such as net.ipv4.tcp_rmem");
        }
        Ok(Self { key: key.to_owned(), value: value.trim().to_owned() })
    }
}

impl Arguments {
    /// What the supervisor itself needs of them.
    pub fn options(&self) -> Options {
        Options {
            datagrams: self.udp == Udp::Stack,
            mptcp: self.mptcp,
            congestion: self.cc.clone(),
            trace: self.trace,
            status: self.status,
        }
    }

    /// For `--stack host`: options that only a stack of our own can serve.
    pub fn refuse_library_options(&self) -> Result<()> {
        if self.record.is_some() {
            bail!(
                "--record is for the library's events: the host's is recorded by `transom record \
                 -- PROGRAM`"
            );
        }
        if let Some(path) = self.paths.first() {
            bail!(
                "--path {path} needs --stack linux: the host's stack has its own interfaces (ip \
                 route, ip netns exec)"
            );
        }
        if let Some(Sysctl { key, value }) = self.sysctls.first() {
            bail!(
                "--sysctl {key} needs --stack linux; the host's is set with `sysctl -w {key}={value}`"
            );
        }
        Ok(())
    }
}

/// Whether the stack has what `--mptcp` and `--cc` ask for: an error names the remedy.
pub fn check_stack(stack: &mut dyn Stack, options: &Options) -> Result<()> {
    if !options.mptcp && options.congestion.is_none() {
        return Ok(());
    }
    let protocol = if options.mptcp { libc::IPPROTO_MPTCP } else { libc::IPPROTO_TCP };
    let socket = match stack.socket(libc::AF_INET, libc::SOCK_STREAM, protocol) {
        Ok(socket) => socket,
        Err(errno @ Errno(libc::EPROTONOSUPPORT | libc::EINVAL | libc::ENOPROTOOPT))
            if options.mptcp =>
        {
            bail!(
                "--mptcp: the stack has no Multipath TCP ({errno}); with --stack host see \
             `sysctl net.mptcp.enabled` and CONFIG_MPTCP, or use --stack linux"
            )
        }
        Err(errno) => bail!("a TCP socket of the stack: {errno}"),
    };
    let set = match &options.congestion {
        Some(name) => {
            stack.setsockopt(socket, libc::IPPROTO_TCP, libc::TCP_CONGESTION, name.as_bytes())
        }
        None => Ok(()),
    };
    stack.close(socket);
    let name = options.congestion.as_deref().unwrap_or_default();
    set.map_err(|errno| {
        let (which, it_has) = match errno.0 {
            libc::EPERM => ("allowed", "without CAP_NET_ADMIN the stack gives"),
            _ => ("available", "the stack has"),
        };
        let setting = format!("net.ipv4.tcp_{which}_congestion_control");
        let names = stack.sysctl(&setting);
        let names = names.split_whitespace().collect::<Vec<_>>().join(", ");
        anyhow::anyhow!("--cc {name}: {errno}; {it_has} {names} ({setting})")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_keeps_its_own_options() {
        let arguments =
            Arguments::try_parse_from(["run", "--stack", "host", "--", "curl", "--trace", "-"]);
        let arguments = arguments.unwrap();
        assert!(!arguments.trace);
        assert_eq!(arguments.program, ["curl", "--trace", "-"]);
    }

    #[test]
    fn what_is_no_option_of_ours_is_no_program_either() {
        let parse = |line: &str| Arguments::try_parse_from(line.split(' '));
        assert_eq!(parse("run curl --trace -").unwrap().program, ["curl", "--trace", "-"]);
        let error = parse("run --mtpcp curl x").unwrap_err().to_string();
        assert!(error.contains("unexpected argument '--mtpcp'"), "{error}");
        let late = parse("run --status --record x.parquet -- curl x").unwrap();
        assert_eq!(late.record, Some("x.parquet".into()));
    }

    #[test]
    fn what_the_host_s_stack_cannot_do_is_refused_with_the_remedy() {
        let parse = |extra: &[&str]| {
            let line = ["run", "--stack", "host"].iter().chain(extra).chain(&["true"]);
            Arguments::try_parse_from(line).unwrap().refuse_library_options()
        };
        assert!(parse(&[]).is_ok());
        let error = parse(&["--path", "eth0"]).unwrap_err().to_string();
        assert!(error.contains("--stack linux"), "{error}");
        let error = parse(&["--record", "x.parquet"]).unwrap_err().to_string();
        assert!(error.contains("transom record -- PROGRAM"), "{error}");
        let error = parse(&["--sysctl", "net.ipv4.tcp_sack=0"]).unwrap_err().to_string();
        assert!(error.contains("sysctl -w net.ipv4.tcp_sack=0"), "{error}");
    }
}
