//! The library's connections, as its `/proc/net/tcp` and `tcp6` tell them: those that the program has
//! closed and that still have something to deliver, and those from one of its addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use transom_netstack::Kernel;
use transom_supervisor::Undelivered;

/// Our FIN, and perhaps data before it, is not acknowledged: FIN-WAIT-1, LAST-ACK, CLOSING, by the
/// numbers of net/tcp_states.h. And ESTABLISHED and CLOSE-WAIT: Multipath TCP closes its subflows
/// only when it has delivered everything, and all sockets of the program are closed by now.
const UNDELIVERED: [&str; 5] = ["01", "04", "08", "09", "0B"];
/// ESTABLISHED and SYN-SENT.
const OPEN: [&str; 2] = ["01", "02"];

/// What of them is not delivered, without those from addresses that have no way out now: of a Multipath TCP
/// connection the others have delivered it.
pub fn undelivered(kernel: &mut Kernel, cut_off: &[IpAddr]) -> Undelivered {
    let [v4, v6] = tables(kernel).map(|table| undelivered_of(&table, cut_off));
    Undelivered { connections: v4.connections + v6.connections, bytes: v4.bytes + v6.bytes }
}

fn undelivered_of(table: &str, cut_off: &[IpAddr]) -> Undelivered {
    let left = lines(table)
        .filter(|fields| fields.get(3).is_some_and(|state| UNDELIVERED.contains(state)))
        .filter(|fields| local(fields[1]).is_none_or(|address| !cut_off.contains(&address)));
    left.fold(Undelivered::default(), |sum, fields| Undelivered {
        connections: sum.connections + 1,
        bytes: sum.bytes + fields.get(4).map_or(0, |queues| unacknowledged(queues)),
    })
}

/// Whether there is one from this address that is established, or being opened.
pub fn any_from(kernel: &mut Kernel, address: IpAddr) -> bool {
    tables(kernel).iter().any(|table| is_one_from(table, address))
}

fn is_one_from(table: &str, address: IpAddr) -> bool {
    let mut lines = lines(table);
    lines.any(|fields| {
        fields.get(3).is_some_and(|state| OPEN.contains(state)) && local(fields[1]) == Some(address)
    })
}

fn tables(kernel: &mut Kernel) -> [String; 2] {
    ["net/tcp", "net/tcp6"].map(|file| kernel.read_proc(file).unwrap_or_default())
}

fn lines(table: &str) -> impl Iterator<Item = Vec<&str>> {
    table.lines().skip(1).map(|line| line.split_whitespace().collect())
}

/// `0000A2C0:00000000`: the queues to the peer and from it.
fn unacknowledged(queues: &str) -> u64 {
    let (sending, _) = queues.split_once(':').unwrap_or_default();
    u64::from_str_radix(sending, 16).unwrap_or(0)
}

/// `0100370A:F13E`: words of 32 bits as the machine has them, then the port.
fn local(field: &str) -> Option<IpAddr> {
    let (address, _) = field.split_once(':')?;
    let words: Option<Vec<[u8; 4]>> = (0..address.len() / 8)
        .map(|n| u32::from_str_radix(address.get(8 * n..8 * n + 8)?, 16).ok().map(u32::to_ne_bytes))
        .collect();
    let bytes = words?.concat();
    if let Ok(v4) = <[u8; 4]>::try_from(bytes.as_slice()) {
        return Some(Ipv4Addr::from(v4).into());
    }
    let v6 = Ipv6Addr::from(<[u8; 16]>::try_from(bytes.as_slice()).ok()?);
    Some(v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(address: &str, state: &str) -> String {
        format!("   0: {address}:F13E 0200370A:1B58 {state} 000000A0:00000001 00:00000000 …\n")
    }

    fn hex(ip: IpAddr) -> String {
        let bytes = match ip {
            IpAddr::V4(v4) => v4.octets().to_vec(),
            IpAddr::V6(v6) => v6.octets().to_vec(),
        };
        let word = |four: &[u8]| u32::from_ne_bytes(four.try_into().expect("four"));
        bytes.chunks(4).map(|four| format!("{:08X}", word(four))).collect()
    }

    #[test]
    fn what_is_not_acknowledged_counts() {
        let own: IpAddr = "10.55.0.1".parse().expect("an address");
        let states = ["01", "02", "04", "05", "06", "08", "09", "0A", "0B"];
        let lines: String = states.iter().map(|state| line(&hex(own), state)).collect();
        let left = undelivered_of(&format!("  sl  local_address …\n{lines}"), &[]);
        assert_eq!(left, Undelivered { connections: 5, bytes: 5 * 0xa0 });
        assert_eq!(undelivered_of("", &[]), Undelivered::default());
    }

    #[test]
    fn what_has_no_way_out_does_not() {
        for own in ["10.55.0.1", "fd55::1"] {
            let own: IpAddr = own.parse().expect("an address");
            let other: IpAddr = "10.56.0.1".parse().expect("an address");
            let table = format!("sl\n{}{}", line(&hex(own), "04"), line(&hex(other), "04"));
            assert_eq!(undelivered_of(&table, &[own]).connections, 1);
            assert_eq!(undelivered_of(&table, &[own, other]), Undelivered::default());
        }
    }
    #[test]
    fn an_address_has_connections_while_they_are_open_or_being_opened() {
        let own: IpAddr = "10.55.0.1".parse().expect("an address");
        let other: IpAddr = "fd55::1".parse().expect("an address");
        for (state, open) in [("01", true), ("02", true), ("04", false), ("06", false)] {
            let table = format!("sl\n{}{}", line(&hex(own), "06"), line(&hex(other), state));
            assert!(!is_one_from(&table, own));
            assert_eq!(is_one_from(&table, other), open, "{state}");
        }
    }
}
