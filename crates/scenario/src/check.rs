//! Whether a scenario can be simulated: every problem names what it is about and the remedy.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};

use crate::{Flow, Host, Protocol, Scenario, Traffic};

/// A day: whoever means more has mistaken the unit.
pub const MOST_SECONDS: f64 = 86_400.0;
/// What Linux lets an Ethernet device have.
pub const MTUS: RangeInclusive<u32> = 68..=65_535;
/// A device with less has no IPv6 (RFC 8200).
pub const LEAST_IPV6_MTU: u32 = 1280;
/// Bytes of a frame's header.
const ETHERNET: u32 = 14;
/// Of one flow.
const MOST_CONNECTIONS: u32 = 10_000;

impl Scenario {
    /// # Errors
    /// The first thing that cannot be, by its name.
    pub fn check(&self) -> Result<()> {
        let seconds = self.most_seconds;
        ensure!(
            seconds > 0.0 && seconds <= MOST_SECONDS,
            "most_seconds is {seconds}: it must be above 0 and at most {MOST_SECONDS}"
        );
        ensure!(!self.hosts.is_empty(), "there is no host");
        self.links.check().context("links")?;
        for (name, host) in &self.hosts {
            self.check_host(name, host).with_context(|| format!("host '{name}'"))?;
        }
        self.check_addresses()?;
        for port in &self.links.ports {
            let host = port.name.split('.').next().unwrap_or_default();
            ensure!(self.hosts.contains_key(host), "the port '{}' is of no host", port.name);
        }
        for (name, flow) in &self.flows {
            self.check_flow(flow).with_context(|| format!("flow '{name}'"))?;
        }
        Ok(())
    }

    /// Each address is of one interface of one host.
    fn check_addresses(&self) -> Result<()> {
        let mut owners: BTreeMap<&IpAddr, &str> = BTreeMap::new();
        for (name, host) in &self.hosts {
            let second = host.cellular.iter().flat_map(|cellular| &cellular.addresses);
            for address in host.addresses.iter().chain(second) {
                match owners.insert(address, name) {
                    None => {}
                    Some(other) if other == name => {
                        bail!("host '{name}' has the address {address} twice")
                    }
                    Some(other) => {
                        bail!("hosts '{other}' and '{name}' both have the address {address}")
                    }
                }
            }
        }
        Ok(())
    }

    fn check_host(&self, name: &str, host: &Host) -> Result<()> {
        let ports = self.links.ports.iter().filter(|port| port.name == *name).count();
        ensure!(ports == 1, "it has {ports} ports named like it: it needs one");
        ensure!(!host.addresses.is_empty(), "it has no address");
        let second = host.cellular.iter().flat_map(|cellular| &cellular.addresses);
        let mut addresses = host.addresses.iter().chain(second);
        let (mtu, least, most) = (host.mtu, MTUS.start(), MTUS.end());
        ensure!(MTUS.contains(&mtu), "its mtu is {mtu}: it must be between {least} and {most}");
        ensure!(
            mtu >= LEAST_IPV6_MTU || addresses.all(IpAddr::is_ipv4),
            "its mtu is {mtu}: IPv6 needs at least {LEAST_IPV6_MTU}"
        );
        if let Some(mbit) = host.device_mbit {
            positive("device_mbit", mbit)?;
        }
        ensure!(
            host.device_burst.is_none_or(|bytes| bytes > host.mtu + ETHERNET),
            "device_burst is less than a frame: none would ever leave"
        );
        ensure!(host.queue_packets > 0, "queue_packets is 0: nothing could be sent");
        if let Some(peer) = &host.peer {
            ensure!(
                (0.1..=100.0).contains(&peer.class),
                "peer.class is {}: it must be between 0.1 and 100",
                peer.class
            );
            peer.rules.check().map_err(|problem| anyhow!("peer.rules: {problem}"))?;
            ensure!(
                host.addresses.iter().any(IpAddr::is_ipv4),
                "it is a terminal of the group (`peer`) and has no IPv4 address for its messages"
            );
        }
        if let Some(guard) = &host.guard {
            ensure!(host.peer.is_none(), "it has `guard` and `peer`: a group guards by itself");
            ensure!(!guard.instead.is_empty(), "guard.instead names no algorithm");
            ensure!(
                guard.settings.after > Duration::ZERO,
                "guard.settings.after is 0: give a time"
            );
        }
        ensure!(host.gso_max_segs > 0, "gso_max_segs is 0: the least is 1");
        Ok(())
    }

    fn check_flow(&self, flow: &Flow) -> Result<()> {
        for host in [&flow.from, &flow.to] {
            ensure!(self.hosts.contains_key(host), "there is no host '{host}'");
        }
        ensure!(flow.from != flow.to, "both ends are on the host '{}'", flow.from);
        ensure!(flow.port > 0, "port 0 is no port");
        ensure!(
            (1..=MOST_CONNECTIONS).contains(&flow.connections),
            "connections is {}: it must be between 1 and {MOST_CONNECTIONS}",
            flow.connections
        );
        not_negative("start_s", flow.start_s)?;
        if let Some(mbit) = flow.read_mbit {
            positive("read_mbit", mbit)?;
        }
        if let Some(seconds) = flow.send_timeout_s {
            positive("send_timeout_s", seconds)?;
        }
        ensure!(flow.write_bytes != Some(0), "write_bytes is 0: nothing would be written");
        let is_udp = flow.protocol == Protocol::Udp;
        if let Some(greeting) = flow.greeting {
            ensure!(
                !is_udp && !matches!(flow.traffic, Traffic::Requests { .. }),
                "greeting is of streams: UDP and requests have none"
            );
            ensure!(
                greeting.bytes > 0 && greeting.answer > 0,
                "bytes and answer of greeting must be above 0"
            );
        }
        flow.traffic.check(is_udp)
    }
}

impl Traffic {
    fn check(&self, is_udp: bool) -> Result<()> {
        let is_constant = matches!(self, Traffic::Constant { .. });
        ensure!(is_constant || !is_udp, "UDP has constant traffic only");
        ensure!(is_udp || !is_constant, "constant traffic is of UDP");
        match self {
            Traffic::Bulk { seconds, bytes } => {
                ensure!(
                    seconds.is_some() || bytes.is_some(),
                    "bulk traffic ends after `seconds` or `bytes`: give one of them"
                );
                ensure!(*bytes != Some(0), "bytes is 0: nothing would be sent");
                seconds.map_or(Ok(()), |seconds| positive("seconds", seconds))
            }
            Traffic::Requests { request, response, count, think_s } => {
                for (name, of) in [("request", request), ("response", response), ("count", count)] {
                    ensure!(*of > 0, "{name} is 0: it must be above 0");
                }
                not_negative("think_s", *think_s)
            }
            Traffic::OnOff { on_s, off_s, seconds } => {
                positive("on_s", *on_s)?;
                positive("off_s", *off_s)?;
                positive("seconds", *seconds)
            }
            Traffic::Writes { writes } => {
                for (at, _) in writes {
                    not_negative("the time of a write", *at)?;
                }
                ensure!(
                    writes.windows(2).all(|pair| pair[0].0 <= pair[1].0),
                    "the writes are not in the order of their times"
                );
                ensure!(
                    writes.iter().any(|(_, bytes)| *bytes > 0),
                    "no write has a byte: nothing would be sent"
                );
                Ok(())
            }
            Traffic::Constant { mbit, datagram, seconds } => {
                positive("mbit", *mbit)?;
                positive("seconds", *seconds)?;
                ensure!(
                    (1..=65_507).contains(datagram),
                    "datagram is {datagram}: it must be between 1 and 65507"
                );
                Ok(())
            }
        }
    }
}

fn positive(what: &str, value: f64) -> Result<()> {
    ensure!(value > 0.0 && value.is_finite(), "{what} is {value}: it must be above 0");
    Ok(())
}

fn not_negative(what: &str, value: f64) -> Result<()> {
    ensure!(value >= 0.0 && value.is_finite(), "{what} is {value}: it must be 0 or more");
    Ok(())
}

#[cfg(test)]
mod tests {
    use transom_emulator::plan::{Plan, Port, Side};

    use super::*;
    use crate::{Cellular, Greeting, Guarded, Peer};

    fn scenario() -> Scenario {
        let mut scenario = Scenario { most_seconds: 10.0, ..Scenario::default() };
        let mut ports = Vec::new();
        for (number, name) in [(1, "a"), (2, "b")] {
            let address: IpAddr = [10, 77, 0, number].into();
            let host = Host { addresses: vec![address], ..Host::default() };
            scenario.hosts.insert(name.to_owned(), host);
            let side = if number == 1 { Side::Near } else { Side::Far };
            ports.push(Port { name: name.to_owned(), mac: [2, 0, 0, 0, 0, number], side });
        }
        scenario.links = Plan { ports, ..Plan::default() };
        let flow = Flow { from: "a".into(), to: "b".into(), ..Flow::default() };
        scenario.flows.insert("f".to_owned(), flow);
        scenario
    }

    fn problem(change: impl FnOnce(&mut Scenario)) -> String {
        let mut scenario = scenario();
        change(&mut scenario);
        format!("{:#}", scenario.check().expect_err("it must be refused"))
    }

    #[test]
    fn a_plain_scenario_passes_and_survives_its_file() {
        let scenario = scenario();
        scenario.check().unwrap();
        let text = serde_json::to_string(&scenario).unwrap();
        assert_eq!(serde_json::from_str::<Scenario>(&text).unwrap(), scenario);
    }

    #[test]
    fn what_cannot_be_is_named() {
        let flow = |s: &mut Scenario, change: fn(&mut Flow)| change(s.flows.get_mut("f").unwrap());
        let host = |s: &mut Scenario, change: fn(&mut Host)| change(s.hosts.get_mut("a").unwrap());
        assert!(problem(|s| s.most_seconds = 0.0).contains("most_seconds is 0"));
        assert!(problem(|s| s.most_seconds = f64::NAN).contains("most_seconds is NaN"));
        assert!(problem(|s| flow(s, |f| f.to = "c".into())).contains("no host 'c'"));
        assert!(problem(|s| flow(s, |f| f.to = "a".into())).contains("both ends"));
        assert!(problem(|s| flow(s, |f| f.start_s = -1.0)).contains("start_s is -1"));
        assert!(problem(|s| flow(s, |f| f.connections = 0)).contains("connections is 0"));
        assert!(problem(|s| flow(s, |f| f.protocol = Protocol::Udp)).contains("UDP"));
        assert!(problem(|s| host(s, |h| h.device_mbit = Some(0.0))).contains("device_mbit is 0"));
        assert!(problem(|s| host(s, |h| h.device_burst = Some(1000))).contains("device_burst"));
        assert!(problem(|s| host(s, |h| h.addresses.clear())).contains("no address"));
        let ipv6 = |h: &mut Host| (h.addresses, h.mtu) = (vec![[0xfd00; 8].into()], 1200);
        assert!(problem(|s| host(s, ipv6)).contains("IPv6 needs at least 1280"));
        let peer = |s: &mut Scenario, change: fn(&mut Peer)| {
            change(s.hosts.get_mut("a").unwrap().peer.insert(Peer::default()));
        };
        assert!(problem(|s| peer(s, |p| p.class = 0.0)).contains("peer.class is 0"));
        assert!(problem(|s| peer(s, |p| p.rules.share.few = 0)).contains("`few` must be"));
        let guard = |s: &mut Scenario, instead: &str| {
            let (settings, instead) = (Default::default(), instead.to_owned());
            s.hosts.get_mut("a").unwrap().guard = Some(Guarded { settings, instead, chosen: true });
        };
        assert!(problem(|s| guard(s, "")).contains("guard.instead names no algorithm"));
        let both = |s: &mut Scenario| {
            guard(s, "cubic");
            peer(s, |_| ());
        };
        assert!(problem(both).contains("`guard` and `peer`"));
        assert!(problem(|s| s.links.ports.truncate(1)).contains("host 'b'"));
        let greets = |f: &mut Flow| f.greeting = Some(Greeting { bytes: 0, answer: 1 });
        assert!(problem(|s| flow(s, greets)).contains("of greeting must be above 0"));
        let endless = |f: &mut Flow| f.traffic = Traffic::Bulk { seconds: None, bytes: None };
        assert!(problem(|s| flow(s, endless)).contains("`seconds` or `bytes`"));
        let nothing = [
            (Traffic::Bulk { seconds: None, bytes: Some(0) }, "bytes is 0"),
            (Traffic::Requests { request: 0, response: 1, think_s: 0.0, count: 1 }, "request is 0"),
            (Traffic::Writes { writes: vec![] }, "no write has a byte"),
            (Traffic::Writes { writes: vec![(0.0, 0), (1.0, 0)] }, "no write has a byte"),
        ];
        for (traffic, says) in nothing {
            let told = problem(|s| s.flows.get_mut("f").unwrap().traffic = traffic);
            assert!(told.contains("flow 'f'") && told.contains(says), "{told}");
        }
    }

    #[test]
    fn an_address_is_of_one_interface_of_one_host() {
        let address = |last: u8| IpAddr::from([10, 77, 0, last]);
        let with = |name: &str, more: IpAddr, is_second: bool| {
            problem(|s| {
                let host = s.hosts.get_mut(name).unwrap();
                if is_second {
                    let interface = "rmnet0".to_owned();
                    host.cellular = Some(Cellular { interface, addresses: vec![more] });
                } else {
                    host.addresses.push(more);
                }
            })
        };
        let both = "hosts 'a' and 'b' both have the address 10.77.0.1";
        assert_eq!(with("b", address(1), false), both);
        assert_eq!(with("b", address(1), true), both);
        assert_eq!(with("b", address(2), true), "host 'b' has the address 10.77.0.2 twice");
        let mut apart = scenario();
        apart.hosts.get_mut("b").unwrap().addresses.push(address(3));
        apart.check().expect("the control: another address");
    }
}
