//! What makes a namespace the host that an experiment describes: lines for `ip` and `tc`, and
//! sysctls. Pure, so that tests can read them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::place::{Place, mac};
use crate::experiment::{Driver, Host, Stack};

/// Algorithm of hosts that name none; Linux' own default, whatever this machine's is.
const ALGORITHM: &str = "cubic";

/// Congestion control of a host's connections.
pub fn algorithm(host: &Host) -> &str {
    host.algorithm.as_deref().unwrap_or(ALGORITHM)
}

/// Largest automatic buffers, bytes: Linux' own limits (`Documentation/networking/ip-sysctl.rst`) on
/// a machine with a gigabyte or more. A new namespace has those of the machine, which may be tuned,
/// and a simulated kernel has less memory and would choose smaller ones.
const SEND_BUFFER: u32 = 4_194_304;
const RECEIVE_BUFFER: u32 = 6_291_456;

/// Packets in the queue of a device that is as fast as its link (Linux' `txqueuelen`).
const DEVICE_QUEUE: u32 = 1000;
/// A full Ethernet frame, bytes.
const FRAME: u32 = 1514;
/// Of the routes for what comes from a cellular address.
const CELLULAR_TABLE: u32 = 101;
/// Of its route for what comes from nowhere in particular: the first interface goes before.
const CELLULAR_METRIC: u32 = 200;
/// Subflows that the kernel's path manager makes and accepts (`MPTCP_PM_ADDR_MAX`): all it can.
const MOST_SUBFLOWS: u32 = 8;

/// Sysctls (their names without `net.`) that keep a device from packets of its own; before it is
/// up.
pub fn quiet(interface: &str) -> Vec<(String, String)> {
    let of = |key: &str, value: &str| (format!("ipv6.conf.{interface}.{key}"), value.to_owned());
    let quiet = [of("accept_dad", "0"), of("router_solicitations", "0"), of("addr_gen_mode", "1")];
    // On, also where new interfaces of this machine have it off (`ipv6.disable_ipv6=1`).
    quiet.into_iter().chain([of("disable_ipv6", "0")]).collect()
}

/// Lines of [`links`] for a kernel without IPv6.
pub fn without_ipv6(mut lines: Vec<String>) -> Vec<String> {
    lines.retain(|line| !line.contains("::"));
    lines
}

/// Sysctls of a host, whatever the machine's are.
pub fn sysctls(host: &Host) -> Vec<(String, String)> {
    let send_buffer = host.send_buffer.or(Some(SEND_BUFFER));
    let receive_buffer = host.receive_buffer.or(Some(RECEIVE_BUFFER));
    given(&Host { send_buffer, receive_buffer, ..host.clone() })
}

/// What the experiment says of the sysctls of a host; those that it names itself win. The library
/// takes nothing from the machine, and has its own where these say nothing.
pub fn given(host: &Host) -> Vec<(String, String)> {
    let mut all = BTreeMap::new();
    let mut put = |key: &str, value: String| all.insert(key.to_owned(), value);
    // Nothing of an earlier connection shall change a later one.
    put("ipv4.tcp_no_metrics_save", "1".into());
    if let Some(most) = host.send_buffer {
        put("ipv4.tcp_wmem", format!("{} {} {most}", 4096.min(most), 16384.min(most)));
    }
    if let Some(most) = host.receive_buffer {
        put("ipv4.tcp_rmem", format!("{} {} {most}", 4096.min(most), 131_072.min(most)));
    }
    let own = host.sysctl.iter().map(|(key, value)| (key.clone(), value.clone()));
    all.into_iter().filter(|(key, _)| !host.sysctl.contains_key(key)).chain(own).collect()
}

/// Addresses, routes and neighbours; the devices are there already. With `algorithm`, the routes
/// choose it.
pub fn links(place: &Place, host: &Host, others: &[Place], algorithm: Option<&str>) -> Vec<String> {
    let device = &place.interface;
    let metrics = metrics(host, algorithm);
    let segments = host.gso_max_segs.unwrap_or(1);
    let others = || others.iter().filter(|other| other.host != place.host);
    let mut lines = vec![
        "link set lo up".to_owned(),
        // One segment a packet, as a wireless device sends it: queues count what the air carries.
        format!(
            "link set {device} address {} mtu 1500 gso_max_segs {segments} multicast off",
            mac(place.mac)
        ),
        format!("link set {device} up"),
        format!("address add {}/24 dev {device} noprefixroute", place.v4),
        format!("address add {}/64 dev {device} noprefixroute nodad", place.v6),
        format!("route add 10.77.0.0/24 dev {device} scope link src {}{metrics}", place.v4),
        format!("route add fd77::/64 dev {device}{metrics}"),
    ];
    if others().any(|other| other.cellular.is_some()) {
        lines.push(format!(
            "route add 10.78.0.0/24 dev {device} scope link src {}{metrics}",
            place.v4
        ));
        lines.push(format!("route add fd78::/64 dev {device}{metrics}"));
    }
    for (address, owner) in others().flat_map(Place::addresses) {
        let owner = mac(owner);
        lines.push(format!("neigh replace {address} lladdr {owner} nud permanent dev {device}"));
    }
    lines.extend(cellular(place, segments, &metrics));
    lines.extend(multipath(place, host));
    lines
}

/// The second interface: what is sent from its addresses leaves by it, the rest only if nothing
/// else can.
fn cellular(place: &Place, segments: u32, metrics: &str) -> Vec<String> {
    let Some(cellular) = &place.cellular else { return Vec::new() };
    let device = &cellular.interface;
    let mut lines = vec![
        format!("link set {device} mtu 1500 gso_max_segs {segments} multicast off"),
        format!("link set {device} up"),
        format!("address add {}/32 dev {device}", cellular.v4),
        format!("address add {}/128 dev {device} nodad", cellular.v6),
    ];
    for (address, all) in
        [(cellular.v4.to_string(), "0.0.0.0/0"), (cellular.v6.to_string(), "::/0")]
    {
        let route = format!("route add {all} dev {device} src {address}");
        lines.push(format!("{route} metric {CELLULAR_METRIC}{metrics}"));
        lines.push(format!("{route} table {CELLULAR_TABLE}{metrics}"));
    }
    lines.push(rule(cellular.v4.into()));
    lines
}

/// Rules of IPv6, for which `ip` needs the family.
pub fn rules6(place: &Place) -> Vec<String> {
    place.cellular.iter().map(|cellular| rule(cellular.v6.into())).collect()
}

fn rule(address: IpAddr) -> String {
    format!("rule add from {address} table {CELLULAR_TABLE}")
}

/// What the kernel's own Multipath TCP may use; the library has a path manager of its own.
fn multipath(place: &Place, host: &Host) -> Vec<String> {
    if !host.mptcp || host.stack == Stack::Library {
        return Vec::new();
    }
    let limits =
        format!("mptcp limits set subflow {MOST_SUBFLOWS} add_addr_accepted {MOST_SUBFLOWS}");
    let endpoint = place
        .cellular
        .iter()
        .map(|it| format!("mptcp endpoint add {} dev {} subflow", it.v4, it.interface));
    std::iter::once(limits).chain(endpoint).collect()
}

/// Route metrics, with a leading space.
fn metrics(host: &Host, algorithm: Option<&str>) -> String {
    let initial = host.initial_window.map(|segments| format!(" initcwnd {segments}"));
    let largest = host.largest_window.map(|segments| format!(" cwnd lock {segments}"));
    let algorithm = algorithm.map(|name| format!(" congctl {name}"));
    [initial, largest, algorithm].into_iter().flatten().collect()
}

/// The device's queue: packets wait and are refused here, in the host's own kernel.
pub fn queue(interface: &str, driver: Option<&Driver>) -> Vec<String> {
    let device = format!("dev {interface}");
    let Some(driver) = driver else {
        return vec![format!("qdisc add {device} root pfifo limit {DEVICE_QUEUE}")];
    };
    let (rate, limit) = (driver.rate_mbit, driver.queue_packets);
    match driver.udp_rate_mbit {
        None => vec![
            format!(
                "qdisc add {device} root handle 1: tbf rate {} burst {} limit {}",
                bits(rate),
                burst(rate),
                limit * FRAME
            ),
            format!("qdisc add {device} parent 1:1 handle 10: pfifo limit {limit}"),
        ],
        Some(udp) => classes(&device, rate, udp, limit),
    }
}

/// TCP and the rest in one class, UDP in another with its own ceiling, both under the device's.
fn classes(device: &str, rate: f64, udp: f64, limit: u32) -> Vec<String> {
    let class = |parent: &str, id: &str, rate: f64| {
        let (bits, burst) = (bits(rate), burst(rate));
        format!(
            "class add {device} parent {parent} classid {id} htb rate {bits} ceil {bits} burst {burst} cburst {burst} quantum {FRAME}"
        )
    };
    let mut lines = vec![
        format!("qdisc add {device} root handle 1: htb default 10"),
        class("1:", "1:1", rate),
        class("1:1", "1:10", rate),
        class("1:1", "1:20", udp.min(rate)),
    ];
    for id in ["10", "20"] {
        lines.push(format!("qdisc add {device} parent 1:{id} handle {id}: pfifo limit {limit}"));
    }
    for (family, field, preference) in [("ip", "ip protocol", 1), ("ipv6", "ip6 protocol", 2)] {
        lines.push(format!(
            "filter add {device} parent 1: protocol {family} prio {preference} u32 match {field} 17 0xff flowid 1:20"
        ));
    }
    lines
}

fn bits(mbit: f64) -> String {
    format!("{:.0}bit", mbit * 1e6)
}

/// Bytes that may leave a device of this rate at once: two frames, or what a timer that is 1 ms late owes.
pub fn burst(mbit: f64) -> u32 {
    ((mbit * 1e6 / 8.0 * 1e-3) as u32).max(2 * FRAME)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosts::place::{Cellular, Side};

    fn place(number: u8) -> Place {
        Place {
            host: format!("h{number}"),
            namespace: format!("tx-lab-h{number}"),
            interface: "wlan0".into(),
            mac: [2, b't', b'x', 0, 0, number],
            v4: [10, 77, 0, number].into(),
            v6: [0xfd77, 0, 0, 0, 0, 0, 0, number.into()].into(),
            side: Side::Air,
            cellular: None,
        }
    }

    fn with_cellular(number: u8) -> Place {
        let cellular = Cellular {
            interface: "rmnet0".into(),
            mac: [2, b't', b'x', 0, 1, number],
            v4: [10, 78, 0, number].into(),
            v6: [0xfd78, 0, 0, 0, 0, 0, 0, number.into()].into(),
        };
        Place { cellular: Some(cellular), ..place(number) }
    }

    #[test]
    fn a_slow_device_is_a_shaper_with_a_short_queue() {
        let driver = Driver { rate_mbit: 8.2, queue_packets: 20, udp_rate_mbit: None };
        assert_eq!(
            queue("wlan0", Some(&driver)),
            [
                "qdisc add dev wlan0 root handle 1: tbf rate 8200000bit burst 3028 limit 30280",
                "qdisc add dev wlan0 parent 1:1 handle 10: pfifo limit 20",
            ]
        );
    }

    #[test]
    fn udp_of_its_own_rate_is_a_class_of_its_own() {
        let driver = Driver { rate_mbit: 8.2, queue_packets: 20, udp_rate_mbit: Some(6.7) };
        let lines = queue("wlan0", Some(&driver)).join("\n");
        assert!(lines.contains("classid 1:20 htb rate 6700000bit ceil 6700000bit"), "{lines}");
        assert!(lines.contains("protocol ip prio 1 u32 match ip protocol 17 0xff flowid 1:20"));
        assert!(lines.contains("protocol ipv6 prio 2 u32 match ip6 protocol 17 0xff flowid 1:20"));
    }

    #[test]
    fn a_device_without_a_driver_has_the_usual_queue_whatever_the_machine_prefers() {
        assert_eq!(queue("eth0", None), ["qdisc add dev eth0 root pfifo limit 1000"]);
    }

    #[test]
    fn windows_are_metrics_of_both_routes() {
        let host = Host { initial_window: Some(3), largest_window: Some(66), ..Host::default() };
        let lines = links(&place(1), &host, &[place(1), place(2)], None);
        let routes: Vec<_> = lines.iter().filter(|line| line.contains("route add")).collect();
        assert_eq!(routes.len(), 2);
        assert!(routes.iter().all(|route| route.ends_with(" initcwnd 3 cwnd lock 66")));
    }

    #[test]
    fn without_ipv6_the_lines_of_ipv4_stay() {
        let others = [with_cellular(1), place(2)];
        for host in &others {
            let all = links(host, &Host::default(), &others, None);
            let left = without_ipv6(all.clone());
            let v6 = |line: &String| ["fd77:", "fd78:", "::/0"].iter().any(|it| line.contains(it));
            assert!(all.iter().any(v6) && !left.iter().any(v6), "{left:#?}");
            let others: Vec<_> = all.iter().filter(|line| !v6(line)).cloned().collect();
            assert_eq!(left, others);
        }
    }

    #[test]
    fn a_host_knows_every_neighbour_but_itself() {
        let lines = links(&place(1), &Host::default(), &[place(1), place(2), place(3)], None);
        let neighbours: Vec<_> = lines.iter().filter(|line| line.starts_with("neigh")).collect();
        assert_eq!(neighbours.len(), 4);
        assert!(neighbours.iter().all(|line| !line.contains("10.77.0.1 ")));
    }

    #[test]
    fn what_the_experiment_sets_itself_wins() {
        let host = Host {
            send_buffer: Some(8192),
            sysctl: BTreeMap::from([("ipv4.tcp_no_metrics_save".into(), "0".into())]),
            ..Host::default()
        };
        let all = sysctls(&host);
        let of = |key: &str| {
            let found: Vec<_> = all.iter().filter(|(k, _)| k == key).map(|(_, v)| v).collect();
            assert_eq!(found.len(), 1, "{key}");
            found[0].clone()
        };
        assert_eq!(of("ipv4.tcp_no_metrics_save"), "0");
        assert_eq!(of("ipv4.tcp_wmem"), "4096 8192 8192");
    }

    #[test]
    fn what_a_cellular_address_sends_leaves_by_its_device_and_the_rest_only_as_a_last_resort() {
        let lines = links(&with_cellular(1), &Host::default(), &[], None);
        for line in [
            "address add 10.78.0.1/32 dev rmnet0",
            "route add 0.0.0.0/0 dev rmnet0 src 10.78.0.1 metric 200",
            "route add 0.0.0.0/0 dev rmnet0 src 10.78.0.1 table 101",
            "rule add from 10.78.0.1 table 101",
            "route add ::/0 dev rmnet0 src fd78::1 table 101",
        ] {
            assert!(lines.iter().any(|one| one == line), "{line}: {lines:#?}");
        }
        assert!(lines.iter().all(|line| !line.starts_with("mptcp")));
        assert_eq!(rules6(&with_cellular(1)), ["rule add from fd78::1 table 101"]);
    }

    #[test]
    fn the_others_reach_a_cellular_address_through_its_gateway() {
        let lines = links(&place(2), &Host::default(), &[with_cellular(1), place(2)], None);
        let gateway = "neigh replace 10.78.0.1 lladdr 02:74:78:00:01:01 nud permanent dev wlan0";
        assert!(lines.iter().any(|line| line == gateway), "{lines:#?}");
        let route = "route add 10.78.0.0/24 dev wlan0 scope link src 10.77.0.2";
        assert!(lines.iter().any(|line| line == route), "{lines:#?}");
    }

    #[test]
    fn the_kernels_multipath_tcp_has_the_second_interface_as_an_endpoint_and_the_library_none() {
        let mptcp = |stack| Host { mptcp: true, stack, ..Host::default() };
        let of = |place: &Place, host: &Host| {
            let lines = links(place, host, &[], None);
            lines.into_iter().filter(|line| line.starts_with("mptcp")).collect::<Vec<_>>()
        };
        let limits = "mptcp limits set subflow 8 add_addr_accepted 8";
        let endpoint = "mptcp endpoint add 10.78.0.1 dev rmnet0 subflow";
        assert_eq!(of(&with_cellular(1), &mptcp(Stack::Host)), [limits, endpoint]);
        assert_eq!(of(&place(1), &mptcp(Stack::Host)), [limits]);
        assert!(of(&with_cellular(1), &mptcp(Stack::Library)).is_empty());
    }

    #[test]
    fn both_devices_take_packets_of_as_many_segments_as_the_file_says() {
        let host = Host { gso_max_segs: Some(64), ..Host::default() };
        let lines = links(&with_cellular(1), &host, &[], None).join("\n");
        assert_eq!(lines.matches("gso_max_segs 64").count(), 2, "{lines}");
    }
}
