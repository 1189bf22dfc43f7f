//! The command line of `transom run`, for every program that links the supervisor.

use std::ffi::OsString;
use std::str::FromStr;

use anyhow::{Context, Result, bail};
use clap::{Parser, ValueEnum};

use crate::Options;
use crate::errno::Errno;
use crate::stack::Stack;

/// Run a program with the sockets of another network stack
#[derive(Clone, Debug, Parser)]
#[command(name = "transom run", max_term_width = 100)]
pub struct Arguments {
    /// Whose sockets the program gets
    #[arg(long, value_enum, default_value_t = StackName::Linux)]
    pub stack: StackName,
    /// An interface that the stack may use, with its address and gateway there; once a path
    #[arg(long = "path", value_name = "IF[,ADDRESS[,GATEWAY]][,backup]")]
    pub paths: Vec<String>,
    /// TCP becomes Multipath TCP (RFC 8684)
    #[arg(long)]
    pub mptcp: bool,
    /// Congestion control of TCP
    #[arg(long, value_name = "NAME")]
    pub cc: Option<String>,
    /// A setting of the stack, below /proc/sys; may be given more than once
    #[arg(long = "sysctl", value_name = "KEY=VALUE")]
    pub sysctls: Vec<Sysctl>,
    /// Whose UDP sockets (and so whose name resolution) the program gets
    #[arg(long, value_enum, default_value_t = Udp::Stack)]
    pub udp: Udp,
    /// Print each call that is answered, on standard error
    #[arg(long)]
    pub trace: bool,
    /// Print the connections and their paths every second, on standard error
    #[arg(long)]
    pub status: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
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
    Stack,
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
        if key.is_empty() || !key.chars().all(plain) || key.contains("..") {
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
        anyhow::anyhow!(
            "--cc {name}: the stack does not give it ({errno}); with --stack host see \
             `sysctl net.ipv4.tcp_available_congestion_control` and, without CAP_NET_ADMIN, \
             net.ipv4.tcp_allowed_congestion_control"
        )
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
    fn what_the_host_s_stack_cannot_do_is_refused_with_the_remedy() {
        let parse = |extra: &[&str]| {
            let line = ["run", "--stack", "host"].iter().chain(extra).chain(&["true"]);
            Arguments::try_parse_from(line).unwrap().refuse_library_options()
        };
        assert!(parse(&[]).is_ok());
        let error = parse(&["--path", "eth0"]).unwrap_err().to_string();
        assert!(error.contains("--stack linux"), "{error}");
        let error = parse(&["--sysctl", "net.ipv4.tcp_sack=0"]).unwrap_err().to_string();
        assert!(error.contains("sysctl -w net.ipv4.tcp_sack=0"), "{error}");
    }
}
