//! Which addresses are asked for: given ones, the peers in a file, or the peers of this moment.

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::ask;
use crate::load::load;

/// An address, or the peers of all connections in a file.
///
/// # Errors
/// It is neither, or cannot be read.
pub fn of_word(word: &str) -> Result<BTreeSet<IpAddr>> {
    if let Ok(address) = word.parse::<IpAddr>() {
        return Ok([address.to_canonical()].into());
    }
    let path = Path::new(word);
    if !path.try_exists().with_context(|| format!("cannot look for {word}"))? {
        bail!("'{word}' is neither an address nor a file");
    }
    if path.is_dir() || ask::is_table_of_connections(path) {
        let peers = ask::peers(path)?;
        if peers.is_empty() {
            bail!(
                "{word} has no addresses, only prefixes: `addresses = \"full\"` in the agent's configuration keeps them"
            );
        }
        return Ok(peers);
    }
    let recording = load(path)?.recording;
    let ends = recording.connections.iter().filter_map(transom_analysis::Connection::endpoints);
    Ok(ends.map(|ends| ends.remote.ip()).collect())
}

/// Peers of the connections in this network namespace that have one.
///
/// # Errors
/// The kernel's list cannot be read.
pub fn connected() -> Result<BTreeSet<IpAddr>> {
    let mut peers = BTreeSet::new();
    for list in ["/proc/self/net/tcp", "/proc/self/net/tcp6"] {
        match fs::read_to_string(list) {
            Ok(text) => peers.extend(of_list(&text)),
            // A kernel without IPv6.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).context(list),
        }
    }
    Ok(peers)
}

fn of_list(text: &str) -> impl Iterator<Item = IpAddr> {
    let remote = |line: &str| address(line.split_whitespace().nth(2)?.split(':').next()?);
    text.lines().skip(1).filter_map(remote).filter(|address| !address.is_unspecified())
}

/// Words of 32 bits in hexadecimal digits, each in the byte order of this machine.
fn address(digits: &str) -> Option<IpAddr> {
    let word = |at: usize| u32::from_str_radix(digits.get(at * 8..at * 8 + 8)?, 16).ok();
    let bytes = |at: usize| Some(word(at)?.to_ne_bytes());
    match digits.len() {
        8 => Some(Ipv4Addr::from(bytes(0)?).into()),
        32 => {
            let mut all = [0; 16];
            for (at, part) in all.chunks_exact_mut(4).enumerate() {
                part.copy_from_slice(&bytes(at)?);
            }
            Some(IpAddr::from(Ipv6Addr::from(all)).to_canonical())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn the_kernels_list_has_the_peers() {
        let text = "  sl  local_address rem_address   st\n   0: 0100007F:1F90 00000000:0000 0A\n   \
                    1: 0100007F:1F90 020200C0:C350 01\n";
        let peers: Vec<IpAddr> = of_list(text).collect();
        assert_eq!(peers, ["192.0.2.2".parse::<IpAddr>().unwrap()]);
        assert_eq!(
            address("B80D0120000000000000000001000000"),
            Some("2001:db8::1".parse().unwrap())
        );
        let mapped = address("0000000000000000FFFF0000020200C0");
        assert_eq!(mapped, Some("192.0.2.2".parse().unwrap()));
        assert_eq!(address("020200"), None);
    }

    #[test]
    fn what_is_neither_an_address_nor_a_file_is_named() {
        let refusal = of_word("server.example").unwrap_err().to_string();
        assert_eq!(refusal, "'server.example' is neither an address nor a file");
    }
}
