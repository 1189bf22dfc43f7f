//! What ports and addresses are called, for people. Names come from outside: nothing is asked here.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use crate::Endpoints;

/// From here on Linux chooses ports itself (`ip_local_port_range`): what a service of this number is
/// called says nothing.
const CHOSEN_BY_THE_KERNEL: u16 = 32_768;

/// The default has no names: all are numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    services: HashMap<u16, String>,
    hosts: HashMap<IpAddr, String>,
}

impl Names {
    pub fn new(services: HashMap<u16, String>, hosts: HashMap<IpAddr, String>) -> Names {
        Names { services, hosts }
    }

    pub fn service(&self, port: u16) -> Option<&str> {
        let name = self.services.get(&port).filter(|_| port < CHOSEN_BY_THE_KERNEL)?;
        Some(name)
    }

    pub fn host(&self, address: IpAddr) -> Option<&str> {
        self.hosts.get(&address).map(String::as_str)
    }

    /// `10.0.0.1:https`, `server.example:5201`, `[2001:db8::1]:https`.
    pub fn end(&self, end: SocketAddr) -> String {
        let port = || self.service(end.port()).map_or(end.port().to_string(), str::to_owned);
        match (self.host(end.ip()), end.ip()) {
            (Some(host), _) => format!("{host}:{}", port()),
            (None, IpAddr::V4(address)) => format!("{address}:{}", port()),
            (None, IpAddr::V6(address)) => format!("[{address}]:{}", port()),
        }
    }

    /// `LOCAL > REMOTE`.
    pub fn ends(&self, ends: Endpoints) -> String {
        format!("{} > {}", self.end(ends.local), self.end(ends.remote))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        let services = [(443, "https"), (60_177, "tfido")].map(|(port, name)| (port, name.into()));
        let hosts = [("10.0.0.2", "server.example"), ("2001:db8::2", "six.example")]
            .map(|(address, name)| (address.parse().unwrap(), name.into()));
        Names::new(services.into(), hosts.into())
    }

    #[test]
    fn ends_have_the_names_that_are_known() {
        let called = [
            ("10.0.0.1:443", "10.0.0.1:https"),
            ("10.0.0.1:5201", "10.0.0.1:5201"),
            ("10.0.0.2:443", "server.example:https"),
            ("[2001:db8::1]:443", "[2001:db8::1]:https"),
            ("[2001:db8::2]:444", "six.example:444"),
            ("10.0.0.1:60177", "10.0.0.1:60177"),
        ];
        for (end, name) in called {
            assert_eq!(names().end(end.parse().unwrap()), name);
        }
    }

    #[test]
    fn without_names_an_end_is_written_as_ever() {
        for end in ["10.0.0.1:443", "[2001:db8::1]:443", "[::]:0"] {
            assert_eq!(Names::default().end(end.parse().unwrap()), end);
        }
    }
}
