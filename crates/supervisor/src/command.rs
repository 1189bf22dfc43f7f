//! The command line of `transom run`, for every program that links the supervisor.

use std::ffi::OsString;
use std::net::IpAddr;
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
    #[arg(long = "path", value_name = "IF[,ADDRESS[/BITS][,GATEWAY]][,backup]")]
    pub paths: Vec<Path>,
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

/// `IF[,ADDRESS[/BITS][,GATEWAY]][,backup]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    pub interface: String,
    /// With the bits of its prefix; without: all of them (32 or 128).
    pub address: Option<(IpAddr, u8)>,
    pub gateway: Option<IpAddr>,
    /// MPTCP uses it only when no other path is left (RFC 8684, section 3.3.8).
    pub backup: bool,
}

/// `KEY=VALUE`, the key with dots as `sysctl(8)` writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sysctl {
    pub key: String,
    pub value: String,
}

/// `IFNAMSIZ` with its terminating zero.
const INTERFACE_NAME_MAX: usize = 15;

impl FromStr for Path {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (text, backup) = match text.strip_suffix(",backup") {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        let mut parts = text.split(',');
        let interface = parts.next().unwrap_or_default().to_owned();
        if interface.is_empty() || interface.len() > INTERFACE_NAME_MAX || interface.contains('/') {
            bail!("`{interface}` is no name of an interface");
        }
        let address = parts.next().map(prefix).transpose()?;
        let gateway = parts.next().map(|text| {
            text.parse::<IpAddr>().with_context(|| format!("`{text}` is no gateway's address"))
        });
        let gateway = gateway.transpose()?;
        if let Some(rest) = parts.next() {
            bail!("`{rest}` is too much: a path is IF[,ADDRESS[,GATEWAY]][,backup]");
        }
        if let (Some((address, _)), Some(gateway)) = (address, gateway)
            && address.is_ipv4() != gateway.is_ipv4()
        {
            bail!("address {address} and gateway {gateway} are of different families");
        }
        Ok(Self { interface, address, gateway, backup })
    }
}

fn prefix(text: &str) -> Result<(IpAddr, u8)> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().with_context(|| format!("`{address}` is no address"))?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = match bits {
        None => most,
        Some(bits) => bits
            .parse()
            .ok()
            .filter(|bits| *bits <= most)
            .with_context(|| format!("`{bits}` is no prefix length (0 to {most})"))?,
    };
    Ok((address, bits))
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
                "--path {} needs --stack linux: the host's stack has its own interfaces (ip route, \
                 ip netns exec)",
                path.interface
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
    fn a_path_is_an_interface_with_or_without_addresses() {
        let path: Path = "wlan0,192.0.2.7/24,192.0.2.1".parse().unwrap();
        assert_eq!(path.interface, "wlan0");
        assert_eq!(path.address, Some(("192.0.2.7".parse().unwrap(), 24)));
        assert_eq!(path.gateway, Some("192.0.2.1".parse().unwrap()));
        let bare: Path = "rmnet0".parse().unwrap();
        assert_eq!((bare.address, bare.gateway), (None, None));
        let alone: Path = "rmnet0,2001:db8::1".parse().unwrap();
        assert_eq!(alone.address.map(|(_, bits)| bits), Some(128));
        let spare: Path = "rmnet0,backup".parse().unwrap();
        assert!(spare.backup && spare.address.is_none() && !alone.backup);
    }

    #[test]
    fn what_is_wrong_with_a_path_is_named() {
        for (text, named) in [
            ("", "no name of an interface"),
            ("wlan0,no", "`no` is no address"),
            ("wlan0,192.0.2.7/33", "`33` is no prefix length"),
            ("wlan0,192.0.2.7,fe80::1", "different families"),
            ("wlan0,192.0.2.7,192.0.2.1,more", "`more` is too much"),
        ] {
            let error = format!("{:#}", text.parse::<Path>().unwrap_err());
            assert!(error.contains(named), "{text}: {error}");
        }
    }

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
