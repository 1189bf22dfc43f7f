//! Whether a program listens already, from the kernel's own tables.

use std::fs;

/// Whether something in the namespace of process `pid` listens at `port`.
pub fn listens(pid: i32, port: u16, udp: bool) -> bool {
    let tables = if udp { ["udp", "udp6"] } else { ["tcp", "tcp6"] };
    tables.iter().any(|table| {
        let text = fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        has_listener(&text, port, udp)
    })
}

/// A listening TCP socket is in state 0A; a UDP socket that is bound waits for anybody.
fn has_listener(table: &str, port: u16, udp: bool) -> bool {
    let end = format!(":{port:04X}");
    table.lines().skip(1).any(|line| {
        let mut words = line.split_whitespace();
        let (local, state) = (words.nth(1).unwrap_or(""), words.nth(1).unwrap_or(""));
        local.ends_with(&end) && (udp || state == "0A")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid
   0: 00000000:1389 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0
   1: 0100007F:138A 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0
";

    #[test]
    fn only_a_listening_socket_listens() {
        assert!(has_listener(TABLE, 5001, false));
        assert!(!has_listener(TABLE, 5002, false), "5002 is an established connection");
        assert!(!has_listener(TABLE, 5003, false));
    }

    #[test]
    fn a_bound_udp_socket_takes_datagrams_in_any_state() {
        assert!(has_listener(&TABLE.replace(" 0A ", " 07 "), 5001, true));
    }
}
