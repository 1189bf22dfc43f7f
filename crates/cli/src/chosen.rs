//! `--connection`: which connections of a trace a command is about.

use transom_analysis::{BadSelector, Selector};

use crate::service::port;

#[derive(clap::Args)]
pub struct ChosenArgs {
    /// Only these: part of a program's name (iperf3), a cookie (7, #7), an address (10.0.0.1,
    /// 10.0.0.0/24, 2001:db8::1), a port (:5201, :https), LOCAL-REMOTE (10.0.0.1-:5201), or an MPTCP
    /// token; may be given several times
    #[arg(long, value_name = "WHICH", value_parser = selector, allow_hyphen_values = true)]
    connection: Vec<(String, Selector)>,
}

fn selector(text: &str) -> Result<(String, Selector), BadSelector> {
    let numeric = with_port_number(text);
    Ok((text.to_owned(), numeric.as_deref().unwrap_or(text).parse()?))
}

/// `10.0.0.1:https` as `10.0.0.1:443`: what the output shows can be asked for.
fn with_port_number(text: &str) -> Option<String> {
    let (before, service) = text.rsplit_once(':')?;
    let host = before.rsplit(['-', '>', ' ']).next()?;
    let is_end =
        host.is_empty() || host.ends_with(']') || host.parse::<std::net::Ipv4Addr>().is_ok();
    if !is_end || !service.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return None;
    }
    let numeric = format!("{before}:{}", port(service).ok()?);
    match numeric.parse() {
        Ok(Selector::Word(_)) | Err(_) => None,
        Ok(_) => Some(numeric),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_may_have_the_name_of_its_service() {
        for (text, number) in [
            (":https", ":443"),
            ("10.0.0.1:https", "10.0.0.1:443"),
            ("[2001:db8::1]:http", "[2001:db8::1]:80"),
            ("10.0.0.1:40000-10.0.0.2:https", "10.0.0.1:40000-10.0.0.2:443"),
        ] {
            assert_eq!(with_port_number(text).as_deref(), Some(number));
        }
        for text in
            [":443", "https", "2001:db8::domain", "2001:db8::1", ":no-such-service", "a:http"]
        {
            assert_eq!(with_port_number(text), None, "{text}");
        }
        assert!(selector(":no-such-service").is_err());
    }
}
