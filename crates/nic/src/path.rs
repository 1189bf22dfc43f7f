//! A path as the command line names it, `IF[,ADDRESS[,GATEWAY]]`, and what the host makes of it.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};

use crate::interface::is_name;
use crate::{Address, Interface};

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathSpec {
    pub interface: String,
    /// None: the interface's first of each family.
    pub address: Option<IpAddr>,
    /// None: that of the default route over the interface, if there is one.
    pub gateway: Option<IpAddr>,
}

impl FromStr for PathSpec {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<PathSpec> {
        let mut parts = text.split(',');
        let interface = parts.next().unwrap_or_default();
        ensure!(
            is_name(interface),
            "path {text:?}: {interface:?} is no name of an interface; write IF[,ADDRESS[,GATEWAY]]"
        );
        let mut ip = |what: &str| -> Result<Option<IpAddr>> {
            match parts.next() {
                None | Some("") => Ok(None),
                Some(part) => part.parse().map(Some).with_context(|| {
                    format!("path {text:?}: the {what} {part:?} is no IPv4 or IPv6 address")
                }),
            }
        };
        let (address, gateway) = (ip("address")?, ip("gateway")?);
        if let Some(more) = parts.next() {
            bail!("path {text:?}: {more:?} is too much; write IF[,ADDRESS[,GATEWAY]]");
        }
        if let (Some(address), Some(gateway)) = (address, gateway) {
            ensure!(
                address.is_ipv4() == gateway.is_ipv4(),
                "path {text:?}: {address} and {gateway} are of different families"
            );
        }
        Ok(PathSpec { interface: interface.to_owned(), address, gateway })
    }
}

impl fmt::Display for PathSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.interface)?;
        match (self.address, self.gateway) {
            (None, None) => Ok(()),
            (Some(address), None) => write!(f, ",{address}"),
            (None, Some(gateway)) => write!(f, ",,{gateway}"),
            (Some(address), Some(gateway)) => write!(f, ",{address},{gateway}"),
        }
    }
}

/// A path that can be used: an interface that is up, with at least one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    pub interface: Interface,
    /// At most one of each family.
    pub addresses: Vec<Address>,
    /// At most one of each family of `addresses`; none where the interface needs none or there is
    /// no default route over it.
    pub gateways: Vec<IpAddr>,
}

impl PathSpec {
    /// # Errors
    /// No such interface, not of a kind we can use, down, without the address, without any.
    pub fn resolve(&self) -> Result<Path> {
        let interface = Interface::find(&self.interface)?;
        self.choose(interface)
    }

    fn choose(&self, interface: Interface) -> Result<Path> {
        interface.kind()?;
        let name = &interface.name;
        ensure!(interface.up, "the interface {name} is down: ip link set {name} up");
        let addresses = match self.address {
            Some(wanted) => vec![named(&interface, wanted)?],
            None => usual(&interface),
        };
        ensure!(
            !addresses.is_empty(),
            "the interface {name} has no address that can be used: give it one (ip addr add \
             ADDRESS/PREFIX dev {name})"
        );
        let of_family = |is_v4: bool| {
            let given = self.gateway.into_iter();
            given.chain(interface.gateways.iter().copied()).find(|ip| ip.is_ipv4() == is_v4)
        };
        let gateways = addresses.iter().filter_map(|address| of_family(address.ip.is_ipv4()));
        let gateways: Vec<IpAddr> = gateways.collect();
        if let Some(given) = self.gateway {
            ensure!(
                gateways.contains(&given),
                "{name} has no address of the family of the gateway {given}"
            );
        }
        Ok(Path { interface, addresses, gateways })
    }
}

fn named(interface: &Interface, wanted: IpAddr) -> Result<Address> {
    let found = interface.addresses.iter().find(|address| address.ip == wanted);
    found.copied().with_context(|| {
        let all: Vec<String> = interface.addresses.iter().map(Address::to_string).collect();
        let all = if all.is_empty() { String::from("none") } else { all.join(", ") };
        format!("{wanted} is not an address of {}: it has {all}", interface.name)
    })
}

/// The first usable address of each family, temporary ones last.
fn usual(interface: &Interface) -> Vec<Address> {
    let of_family = |is_v4: bool| {
        let usable = interface.addresses.iter().filter(move |a| a.is_usable());
        usable.filter(move |a| a.ip.is_ipv4() == is_v4).min_by_key(|a| a.is_temporary())
    };
    [of_family(true), of_family(false)].into_iter().flatten().copied().collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn error(text: &str) -> String {
        format!("{:#}", text.parse::<PathSpec>().expect_err(text))
    }

    #[test]
    fn a_path_is_an_interface_with_or_without_address_and_gateway() {
        let spec: PathSpec = "wlan0,192.0.2.7,192.0.2.1".parse().expect("whole");
        assert_eq!(spec.interface, "wlan0");
        assert_eq!(spec.address, Some([192, 0, 2, 7].into()));
        assert_eq!(spec.gateway, Some([192, 0, 2, 1].into()));
        let spec: PathSpec = "rmnet0,,2001:db8::1".parse().expect("no address");
        assert_eq!((spec.address.is_none(), spec.gateway.is_some()), (true, true));
    }

    #[test]
    fn what_is_wrong_with_a_path_is_named() {
        assert!(error("").contains("\"\" is no name of an interface"));
        assert!(error("a/b").contains("\"a/b\" is no name"));
        assert!(error("wlan0,192.0.2.300").contains("the address \"192.0.2.300\""));
        assert!(error("wlan0,192.0.2.3,x").contains("the gateway \"x\""));
        assert!(error("wlan0,192.0.2.3,::1").contains("different families"));
        assert!(error("wlan0,192.0.2.3,192.0.2.1,9").contains("\"9\" is too much"));
    }

    proptest! {
        #[test]
        fn any_text_is_a_path_that_prints_alike_or_an_error(text in "[a-z0-9.:,/ ]{0,40}") {
            if let Ok(spec) = text.parse::<PathSpec>() {
                prop_assert_eq!(spec.to_string().parse::<PathSpec>().expect("again"), spec);
            }
        }
    }
}
