//! `--status`: every second, the connections of the program and the paths of each.

use crate::stack::PathStatus;
use crate::supervisor::Supervisor;
use transom_output::note;

/// On standard error, beside what the program says.
pub fn print(supervisor: &mut Supervisor) {
    let sockets = supervisor.sockets.values();
    let mut sockets: Vec<_> = sockets.map(|socket| (socket.id, socket.accepted)).collect();
    sockets.sort();
    let mut lines = Vec::new();
    for (id, accepted) in sockets {
        for (index, path) in supervisor.stack.paths(id, accepted).iter().enumerate() {
            lines.push(line(path, index));
        }
    }
    if !lines.is_empty() {
        note!("{HEADER}\n{}", lines.join("\n"));
    }
}

const HEADER: &str = "local                    remote                   state        \
                      cwnd   rtt ms        sent    received  retrans";

/// Paths after the first are subflows of the same connection.
fn line(path: &PathStatus, index: usize) -> String {
    let sign = if index == 0 { "" } else { "+ " };
    let backup = if path.backup { "  backup" } else { "" };
    format!(
        "{:<24} {:<24} {:<12} {:>4} {:>8.1} {:>11} {:>11} {:>8}{backup}",
        format!("{sign}{}", path.local),
        path.remote.to_string(),
        path.state,
        path.cwnd,
        f64::from(path.rtt_us) / 1000.0,
        path.sent,
        path.received,
        path.retransmitted,
    )
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::Address;

    #[test]
    fn columns_stand_under_their_names() {
        let path = PathStatus {
            local: Address::from(SocketAddr::from(([10, 0, 0, 1], 40000))),
            remote: Address::from(SocketAddr::from(([10, 0, 0, 2], 80))),
            state: "ESTABLISHED",
            cwnd: 10,
            rtt_us: 31_500,
            sent: 1000,
            received: 2_000_000,
            ..PathStatus::default()
        };
        let shown = line(&path, 0);
        assert_eq!(shown.find("ESTABLISHED"), HEADER.find("state"));
        assert_eq!(shown.find("31.5").map(|at| at + 4), HEADER.find("rtt ms").map(|at| at + 6));
        assert!(shown.len() == HEADER.len());
    }
}
