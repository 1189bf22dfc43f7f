//! Names of ports, from /etc/services.

use std::collections::HashMap;
use std::fs;

use anyhow::{Result, bail};

const SERVICES: &str = "/etc/services";

/// A port that a connection can have: a number, or the name of a service of TCP.
pub fn port(text: &str) -> Result<u16> {
    if let Ok(number) = text.parse::<u64>() {
        return match u16::try_from(number) {
            Ok(port @ 1..) => Ok(port),
            _ => bail!("{number} is no port: give one from 1 to 65535"),
        };
    }
    let services = fs::read_to_string(SERVICES).unwrap_or_default();
    match port_of(text, &services) {
        Some(port) => Ok(port),
        None => bail!("'{text}' is neither a port from 1 to 65535 nor a service of {SERVICES}"),
    }
}

/// What ports are called.
pub fn names() -> HashMap<u16, String> {
    names_in(&fs::read_to_string(SERVICES).unwrap_or_default())
}

/// The first line of a port counts. A terminal shows these names.
fn names_in(services: &str) -> HashMap<u16, String> {
    let mut names = HashMap::new();
    for Line { names: of_port, port } in lines(services) {
        if of_port[0].chars().all(|c| c.is_ascii_graphic()) {
            names.entry(port).or_insert_with(|| of_port[0].to_owned());
        }
    }
    names
}

struct Line<'a> {
    names: Vec<&'a str>,
    port: u16,
}

/// `https 443/tcp www # comment`: the lines of TCP.
fn lines(services: &str) -> impl Iterator<Item = Line<'_>> {
    services.lines().filter_map(|line| {
        let mut words = line.split('#').next()?.split_whitespace();
        let (name, at) = (words.next()?, words.next()?);
        let port = at.strip_suffix("/tcp")?.parse().ok()?;
        Some(Line { names: std::iter::once(name).chain(words).collect(), port })
    })
}

fn port_of(name: &str, services: &str) -> Option<u16> {
    lines(services).find(|line| line.names.contains(&name)).map(|line| line.port)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# services\nhttp\t\t80/tcp\twww\t# the web\nhttp 80/udp\nntp 123/udp\n";

    #[test]
    fn a_service_of_tcp_has_its_port_by_each_of_its_names() {
        assert_eq!(port_of("http", FILE), Some(80));
        assert_eq!(port_of("www", FILE), Some(80));
        assert_eq!(port_of("ntp", FILE), None, "of UDP");
        assert_eq!(port_of("#", FILE), None);
    }

    #[test]
    fn a_port_has_the_first_name_of_its_first_line() {
        let names = names_in("http 80/tcp www\nother 80/tcp\nntp 123/udp\ne\u{1b}vil 99/tcp\n");
        assert_eq!(names, HashMap::from([(80, "http".to_owned())]));
    }

    #[test]
    fn a_port_is_a_number_that_a_connection_can_have() {
        assert_eq!(port("443").unwrap(), 443);
        for wrong in ["0", "65536", "-1", "no-such-service", ""] {
            assert!(port(wrong).is_err(), "{wrong}");
        }
    }
}
