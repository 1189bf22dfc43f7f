//! Which access point this terminal shares with others: the BSSID if the interface is wireless,
//! else the gateway's hardware address, else the gateway's address.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use transom_link::netlink::{Message, Netlink, Request, address, family};

use crate::{interface, nl80211};

/// What the group is named by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessPoint {
    /// The same for all its terminals.
    pub name: String,
    /// From where we know it.
    pub known_by: &'static str,
    /// Through which interface we reach it.
    pub interface: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Gateway {
    address: IpAddr,
    interface: String,
}

/// Finds the access point; what is given is not looked for.
pub fn find(name: Option<&str>, interface: Option<&str>) -> Result<AccessPoint> {
    let gateway = gateway(interface);
    let interface = interface.map(str::to_owned).or(gateway.as_ref().map(|g| g.interface.clone()));
    let Some(interface) = interface else {
        bail!(
            "there is no default route, so it is not known which network is shared: give \
             --interface IF"
        );
    };
    let found =
        |name: String, known_by| AccessPoint { name, known_by, interface: interface.clone() };
    if let Some(name) = name {
        return Ok(found(name.into(), "option"));
    }
    if let Some(bssid) = nl80211::bssid(&interface) {
        return Ok(found(bssid, "bssid"));
    }
    let Some(Gateway { address, .. }) = gateway else {
        interface::some_addresses(&interface)?;
        bail!(
            "'{interface}' is not wireless and has no gateway, so the access point has no name: \
             give --access-point NAME, the same at all terminals"
        );
    };
    Ok(match hardware_address(address, &interface) {
        Some(hardware) => found(hardware, BY_HARDWARE),
        None => found(address.to_string(), BY_ADDRESS),
    })
}

const BY_HARDWARE: &str = "gateway's hardware address";
const BY_ADDRESS: &str = "gateway's address";

impl AccessPoint {
    /// A gateway that does not answer at the moment is still the same.
    pub fn differs_from(&self, before: &AccessPoint) -> bool {
        let is_silent = self.known_by == BY_ADDRESS && before.known_by == BY_HARDWARE;
        self != before && !(is_silent && self.interface == before.interface)
    }
}

/// Asks the gateway for it if the kernel does not know: else terminals that have talked to it
/// would name the access point otherwise than those that have not.
fn hardware_address(gateway: IpAddr, interface: &str) -> Option<String> {
    let index = interface::number(interface)?;
    let mut netlink = Netlink::open().ok()?;
    let question = [&[family(gateway)][..], &[0; NDMSG - 1]].concat();
    let mut look = || {
        let all = netlink.dump(Request::new(libc::RTM_GETNEIGH, 0, &question)).ok()?;
        all.iter().find_map(|message| neighbour(message, gateway, index))
    };
    if look().is_none() {
        // Port 9 discards (RFC 863); the kernel has to resolve the address to send it.
        let (from, to): (&str, SocketAddr) = match gateway {
            IpAddr::V4(v4) => ("0.0.0.0:0", (v4, 9).into()),
            IpAddr::V6(v6) => ("[::]:0", SocketAddrV6::new(v6, 9, 0, index).into()),
        };
        let _ = UdpSocket::bind(from).and_then(|socket| socket.send_to(&[0], to));
        let begun = Instant::now();
        while look().is_none() && begun.elapsed() < PATIENCE {
            std::thread::sleep(PATIENCE / 20);
        }
    }
    look()
}

/// For a gateway's answer.
const PATIENCE: Duration = Duration::from_millis(400);

fn gateway(interface: Option<&str>) -> Option<Gateway> {
    let read = |file: &str| fs::read_to_string(Path::new("/proc/self/net").join(file));
    let wanted = |gateway: &Gateway| interface.is_none_or(|name| name == gateway.interface);
    let v4 = gateways(&read("route").unwrap_or_default()).into_iter().find(wanted);
    v4.or_else(|| gateways6(&read("ipv6_route").unwrap_or_default()).into_iter().find(wanted))
}

const RTF_GATEWAY: u32 = 2;

/// Default routes of /proc/net/route, the best first.
fn gateways(table: &str) -> Vec<Gateway> {
    let mut found: Vec<(u32, Gateway)> = Vec::new();
    for line in table.lines().skip(1) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [interface, "00000000", gateway, flags, _, _, metric, "00000000", ..] = words[..]
        else {
            continue;
        };
        let number = |text| u32::from_str_radix(text, 16).ok();
        let (Some(gateway), Some(flags)) = (number(gateway), number(flags)) else { continue };
        if flags & RTF_GATEWAY != 0 {
            // The kernel prints the bytes of the address as one number of the machine.
            let address = Ipv4Addr::from(gateway.to_ne_bytes()).into();
            let metric = metric.parse().unwrap_or(u32::MAX);
            found.push((metric, Gateway { address, interface: interface.into() }));
        }
    }
    found.sort_by_key(|(metric, _)| *metric);
    found.into_iter().map(|(_, gateway)| gateway).collect()
}

/// The same of /proc/net/ipv6_route.
fn gateways6(table: &str) -> Vec<Gateway> {
    let mut found: Vec<(u32, Gateway)> = Vec::new();
    for line in table.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [to, "00", _, _, gateway, metric, _, _, flags, interface] = words[..] else { continue };
        let (Ok(gateway), Ok(flags)) =
            (u128::from_str_radix(gateway, 16), u32::from_str_radix(flags, 16))
        else {
            continue;
        };
        if to.bytes().all(|digit| digit == b'0') && flags & RTF_GATEWAY != 0 && gateway != 0 {
            let metric = u32::from_str_radix(metric, 16).unwrap_or(u32::MAX);
            let address = Ipv6Addr::from(gateway).into();
            found.push((metric, Gateway { address, interface: interface.into() }));
        }
    }
    found.sort_by_key(|(metric, _)| *metric);
    found.into_iter().map(|(_, gateway)| gateway).collect()
}

/// Bytes of struct ndmsg (rtnetlink(7)).
const NDMSG: usize = 12;

/// The hardware address of `gateway`, if the message is about it and the kernel knows the address.
fn neighbour(message: &Message, gateway: IpAddr, index: u32) -> Option<String> {
    let of = |wanted| message.attributes(NDMSG).find(|&(kind, _)| kind == wanted);
    let unknown = libc::NUD_INCOMPLETE | libc::NUD_FAILED;
    let known = message.u32(4) == index && message.u16(8) & unknown == 0;
    let (_, its) = of(libc::NDA_DST).filter(|_| known)?;
    let (_, hardware) = of(libc::NDA_LLADDR).filter(|_| address(its) == Some(gateway))?;
    Some(interface::hardware_text(hardware))
}

/// What makes this terminal another than its neighbours: machine and interface.
pub fn own_name(interface: &str) -> Vec<u8> {
    let machine = fs::read_to_string("/etc/machine-id").unwrap_or_default();
    [machine.trim().as_bytes(), &[0], &interface::hardware_address(interface)].concat()
}

#[cfg(test)]
mod tests {
    use transom_link::netlink::{address_bytes, messages};

    use super::*;

    const ROUTES: &str = "\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
wlan0\t00000000\tFE01A8C0\t0003\t0\t0\t600\t00000000\t0\t0\t0
eth0\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0
eth0\t0000000A\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0
";

    fn gateway(address: &str, interface: &str) -> Gateway {
        Gateway { address: address.parse().unwrap(), interface: interface.into() }
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn default_routes_are_found_the_best_first() {
        let expected = [gateway("10.0.0.1", "eth0"), gateway("192.168.1.254", "wlan0")];
        assert_eq!(gateways(ROUTES), expected);
    }

    #[test]
    fn default_routes_of_version_6_are_found() {
        let zero = "0".repeat(32);
        let via = "fe80000000000000020000fffe000001";
        let table = format!(
            "{zero} 00 {zero} 00 {via} 00000400 00000003 00000000 00450003 eth0\n\
             {zero} 00 {zero} 00 {zero} ffffffff 00000001 00000000 00200200 lo\n"
        );
        assert_eq!(gateways6(&table), [gateway("fe80::200:ff:fe00:1", "eth0")]);
    }

    /// What the kernel says of a neighbour on interface 3 in this state.
    fn told(ip: &str, state: u16) -> Message {
        let ip: IpAddr = ip.parse().unwrap();
        let mut body = vec![family(ip), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        body[4..8].copy_from_slice(&3u32.to_ne_bytes());
        body[8..10].copy_from_slice(&state.to_ne_bytes());
        let message = Request::new(libc::RTM_NEWNEIGH, 0, &body)
            .attribute(libc::NDA_DST, &address_bytes(ip))
            .attribute(libc::NDA_LLADDR, &[2, 0, 0, 0, 0, 0xa1]);
        messages(&message.finish()).remove(0).1
    }

    #[test]
    fn a_neighbour_counts_only_when_its_hardware_address_is_known() {
        let of =
            |message: &Message, ip: &str, index| neighbour(message, ip.parse().unwrap(), index);
        for ip in ["10.0.0.1", "fe80::1"] {
            let known = told(ip, libc::NUD_STALE);
            assert_eq!(of(&known, ip, 3).as_deref(), Some("02:00:00:00:00:a1"));
            assert_eq!(of(&known, ip, 4), None, "on another interface");
            assert_eq!(of(&known, "10.0.0.3", 3), None, "another neighbour");
            assert_eq!(of(&told(ip, libc::NUD_FAILED), ip, 3), None, "it does not answer");
        }
    }

    #[test]
    fn a_name_that_is_given_is_taken() {
        let found = find(Some("kitchen"), Some("lo")).unwrap();
        assert_eq!((found.name.as_str(), found.known_by), ("kitchen", "option"));
    }

    #[test]
    fn without_gateway_and_radio_a_name_must_be_given() {
        let error = find(None, Some("lo")).unwrap_err().to_string();
        assert!(error.contains("--access-point"), "{error}");
    }
}
