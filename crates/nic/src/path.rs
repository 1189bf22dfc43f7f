//! A path as the command line names it, `IF[,ADDRESS[,GATEWAY]][,backup][,signal]`, and its interface,
//! address and gateway on the host.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use anyhow::{Result, bail, ensure};

use crate::{Address, Interface};
use transom_link::is_name;

const FORM: &str = "write IF[,ADDRESS[,GATEWAY]][,backup][,signal]";

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathSpec {
    pub interface: String,
    /// None: the interface's first of each family.
    pub address: Option<IpAddr>,
    /// None: that of the default route over the interface, if there is one.
    pub gateway: Option<IpAddr>,
    /// To be used only when no other path is left (RFC 8684, section 3.3.8).
    pub backup: bool,
    /// Peers are told of its addresses and open subflows to it, not we from it (RFC 8684, section 3.4.1).
    pub signal: bool,
}

impl FromStr for PathSpec {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<PathSpec> {
        let without = |text, flag| str::strip_suffix(text, flag);
        let (rest, signal) = without(text, ",signal").map_or((text, false), |rest| (rest, true));
        let (rest, backup) = without(rest, ",backup").map_or((rest, false), |rest| (rest, true));
        let mut parts = rest.split(',');
        let interface = parts.next().unwrap_or_default();
        ensure!(
            is_name(interface),
            "path {text:?}: {interface:?} is no name of an interface; {FORM}"
        );
        let mut ip = |what: &str| -> Result<Option<IpAddr>> {
            match parts.next() {
                None | Some("") => Ok(None),
                Some(part) => match (part.parse(), part.split_once('/')) {
                    (Ok(ip), _) => Ok(Some(ip)),
                    (_, Some((ip, _))) if ip.parse::<IpAddr>().is_ok() => {
                        bail!("path {text:?}: the {what} goes without its prefix length: {ip}")
                    }
                    _ => bail!("path {text:?}: the {what} {part:?} is no IPv4 or IPv6 address"),
                },
            }
        };
        let (address, gateway) = (ip("address")?, ip("gateway")?);
        if let Some(more) = parts.next() {
            bail!("path {text:?}: {more:?} is too much; {FORM}");
        }
        if let (Some(address), Some(gateway)) = (address, gateway) {
            ensure!(
                address.is_ipv4() == gateway.is_ipv4(),
                "path {text:?}: {address} and {gateway} are of different families"
            );
        }
        Ok(PathSpec { interface: interface.to_owned(), address, gateway, backup, signal })
    }
}

impl fmt::Display for PathSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.interface)?;
        match (self.address, self.gateway) {
            (None, None) => {}
            (Some(address), None) => write!(f, ",{address}")?,
            (None, Some(gateway)) => write!(f, ",,{gateway}")?,
            (Some(address), Some(gateway)) => write!(f, ",{address},{gateway}")?,
        }
        f.write_str(if self.backup { ",backup" } else { "" })?;
        f.write_str(if self.signal { ",signal" } else { "" })
    }
}

/// A path that can be used: an interface that is up, with at least one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    pub interface: Interface,
    /// At most one of each family.
    pub addresses: Vec<Address>,
    /// Of IPv6 on this link alone, beside `addresses`; none if an address was named.
    pub link_local: Option<Address>,
    /// At most one of each family of `addresses`; none where the interface needs none or there is
    /// no default route over it.
    pub gateways: Vec<IpAddr>,
}

impl PathSpec {
    /// The interface's own choice, as for a path that names nothing else.
    pub fn of(interface: String) -> PathSpec {
        PathSpec { interface, address: None, gateway: None, backup: false, signal: false }
    }

    /// # Errors
    /// No such interface, not of a kind we can use, down, without the address, without any.
    pub fn resolve(&self) -> Result<Path> {
        let interface = Interface::find(&self.interface)?;
        interface.kind()?;
        let name = interface.name.clone();
        ensure!(interface.up, "the interface {name} is down: ip link set {name} up");
        if let Some(wanted) = self.address {
            check_named(&interface, wanted)?;
        }
        let path = self.on(interface, None);
        ensure!(
            !path.addresses.is_empty(),
            "the interface {name} has no address that can be used: give it one (ip addr add \
             ADDRESS/PREFIX dev {name})"
        );
        if let Some(given) = self.gateway {
            ensure!(
                path.gateways.contains(&given),
                "{name} has no address of the family of the gateway {given}"
            );
            ensure!(
                path.interface.reaches(given),
                "the gateway {given} is on no network of {name}, which has {}: name one that is, or \
                 tell the host first (ip route add {given} dev {name})",
                listed(&path.interface)
            );
        }
        Ok(path)
    }

    /// What the path is on this interface as it is now, perhaps without any address. `before`: what
    /// it was. An address is kept as long as the interface has it, for connections hang on it; and
    /// with it its gateway until there is another, for the host forgets routes over a link that is
    /// down for a moment.
    pub fn on(&self, interface: Interface, before: Option<&Path>) -> Path {
        let had = before.map_or(&[][..], |path| &path.addresses);
        let addresses = match self.address {
            Some(wanted) => own(&interface, had).filter(|a| a.ip == wanted).take(1).collect(),
            None => usual(&interface, had),
        };
        let gateway = |address: &Address| {
            let known = before.filter(|_| had.iter().any(|a| a.ip == address.ip));
            let given = self.gateway.iter().chain(&interface.gateways);
            let mut all = given.chain(known.map_or(&[][..], |path| &path.gateways));
            all.find(|ip| ip.is_ipv4() == address.ip.is_ipv4()).copied()
        };
        let gateways = addresses.iter().filter_map(gateway).collect();
        let had_local = before.and_then(|path| path.link_local);
        let on_link = || interface.addresses.iter().filter(|address| address.is_usable_on_link());
        let kept = on_link().find(|a| had_local.is_some_and(|had| had.ip == a.ip));
        let link_local = kept.or_else(|| on_link().next()).copied();
        let link_local = link_local.filter(|_| self.address.is_none());
        Path { interface, addresses, link_local, gateways }
    }
}

/// Its addresses, and those of other interfaces that it sends from, or did before: while a link is
/// down for a moment, the host forgets the route that says so.
fn own<'a>(interface: &'a Interface, before: &'a [Address]) -> impl Iterator<Item = Address> + 'a {
    let used = |address: &&Address| before.iter().any(|had| had.ip == address.ip);
    let elsewhere = interface.elsewhere.iter().filter(used);
    interface.addresses.iter().chain(&interface.sources).chain(elsewhere).copied()
}

fn listed(interface: &Interface) -> String {
    let all: Vec<String> = own(interface, &[]).map(|address| address.to_string()).collect();
    if all.is_empty() { String::from("none") } else { all.join(", ") }
}

fn check_named(interface: &Interface, wanted: IpAddr) -> Result<()> {
    let has = own(interface, &[]).any(|address| address.ip == wanted);
    ensure!(has, "{wanted} is not an address of {}: it has {}", interface.name, listed(interface));
    Ok(())
}

/// Of each family the one that was used before, else the one that the default route names, else the
/// first usable one, temporary ones last.
fn usual(interface: &Interface, before: &[Address]) -> Vec<Address> {
    let of_family = |is_v4: bool| {
        let own = || own(interface, before).filter(move |a| a.ip.is_ipv4() == is_v4);
        let kept = own().find(|a| before.iter().any(|b| b.ip == a.ip));
        let named = || interface.sources.iter().find(|a| a.ip.is_ipv4() == is_v4).copied();
        let usable = || own().filter(Address::is_usable).min_by_key(Address::is_temporary);
        kept.or_else(named).or_else(usable)
    };
    [of_family(true), of_family(false)].into_iter().flatten().collect()
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
        let spare: PathSpec = "rmnet0,backup".parse().expect("a spare one");
        assert!(spare.backup && spare.address.is_none() && !spec.backup && !spare.signal);
        let told: PathSpec = "eth1,192.0.2.7,signal".parse().expect("one that is announced");
        assert!(told.signal && told.address.is_some() && !told.backup);
        let both: PathSpec = "eth1,backup,signal".parse().expect("both");
        assert!(both.signal && both.backup);
    }

    #[test]
    fn what_is_wrong_with_a_path_is_named() {
        assert!(error("").contains("\"\" is no name of an interface"));
        assert!(error("a/b").contains("\"a/b\" is no name"));
        assert!(error("wlan0,192.0.2.300").contains("the address \"192.0.2.300\""));
        assert!(error("wlan0,192.0.2.3/24").contains("without its prefix length: 192.0.2.3"));
        assert!(error("wlan0,192.0.2.3,x").contains("the gateway \"x\""));
        assert!(error("wlan0,192.0.2.3,::1").contains("different families"));
        assert!(error("wlan0,192.0.2.3,192.0.2.1,9").contains("\"9\" is too much"));
    }

    proptest! {
        #[test]
        fn any_text_is_a_path_that_prints_alike_or_an_error(text in "[a-z0-9.:,/ ]{0,40}(,backup)?(,signal)?") {
            if let Ok(spec) = text.parse::<PathSpec>() {
                prop_assert_eq!(spec.to_string().parse::<PathSpec>().expect("again"), spec);
            }
        }
    }
}
