//! Command lines of iperf 2 and iperf3.

use std::net::Ipv4Addr;

use super::Assigned;
use crate::experiment::{Flow, Protocol, Tool};

/// What the host runs that waits; it ends by itself after the flow's connections.
pub fn server(flow: &Flow, assigned: &Assigned) -> Vec<String> {
    let mut words = Words::new(flow.tool);
    words.put("-s").pair("-p", assigned.port).pair("-i", 1);
    match flow.tool {
        Tool::Iperf => {
            words.pair("-f", "k").pair("-P", flow.connections.unwrap_or(1));
            if flow.protocol == Protocol::Udp {
                words.put("-u");
            }
            if let Some(bytes) = flow.buffer {
                words.pair("-w", bytes);
            }
            if let Some(bytes) = flow.write {
                words.pair("-l", bytes);
            }
        }
        // Its client tells it.
        Tool::Iperf3 => {
            words.put("-1").put("-J");
        }
    }
    words.0
}

/// What the host runs that opens the connections, for `duration_s`, with this congestion control,
/// from an address if it is not the kernel's to choose.
pub fn client(
    flow: &Flow,
    assigned: &Assigned,
    duration_s: f64,
    algorithm: &str,
    from: Option<Ipv4Addr>,
) -> Vec<String> {
    let mut words = Words::new(flow.tool);
    let there = if flow.reverse { assigned.from_addr } else { assigned.to_addr };
    words.pair("-c", there).pair("-p", assigned.port).pair("-i", 1);
    if let Some(from) = from {
        words.pair("-B", from);
    }
    if flow.reverse {
        words.put("-R");
    }
    // iperf3 takes whole seconds only.
    match flow.tool {
        Tool::Iperf => words.pair("-t", duration_s).pair("-f", "k"),
        Tool::Iperf3 => words.pair("-t", duration_s.ceil()).put("-J"),
    };
    if flow.protocol == Protocol::Udp {
        words.put("-u");
    }
    if let Some(mbit) = flow.rate_mbit {
        words.pair("-b", format!("{:.0}", mbit * 1e6));
    }
    if let Some(bytes) = flow.buffer {
        words.pair("-w", bytes);
    }
    if let Some(bytes) = flow.writes() {
        words.pair("-l", bytes);
    }
    if let Some(connections) = flow.connections {
        words.pair("-P", connections);
    }
    if flow.protocol == Protocol::Tcp {
        words.pair(if flow.tool == Tool::Iperf { "-Z" } else { "-C" }, algorithm);
    }
    words.0
}

struct Words(Vec<String>);

impl Words {
    fn new(tool: Tool) -> Words {
        Words(vec![if tool == Tool::Iperf { "iperf" } else { "iperf3" }.to_owned()])
    }

    fn put(&mut self, word: &str) -> &mut Words {
        self.0.push(word.to_owned());
        self
    }

    fn pair(&mut self, option: &str, value: impl ToString) -> &mut Words {
        self.0.extend([option.to_owned(), value.to_string()]);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(text: &str) -> Flow {
        toml::from_str(&format!("from = \"a\"\nto = \"b\"\n{text}")).unwrap()
    }

    fn assigned() -> Assigned {
        Assigned {
            port: 5001,
            from: "a".into(),
            to: "b".into(),
            from_addr: [10, 77, 0, 1].into(),
            to_addr: [10, 77, 0, 2].into(),
        }
    }

    fn lines(text: &str) -> (String, String) {
        let (flow, assigned) = (flow(text), assigned());
        (server(&flow, &assigned).join(" "), client(&flow, &assigned, 10.0, "reno", None).join(" "))
    }

    #[test]
    fn the_plain_flow_is_iperf_2_over_tcp() {
        let (server, client) = lines("");
        assert_eq!(server, "iperf -s -p 5001 -i 1 -f k -P 1");
        assert_eq!(client, "iperf -c 10.77.0.2 -p 5001 -i 1 -t 10 -f k -Z reno");
    }

    #[test]
    fn everything_a_flow_says_reaches_iperf_2() {
        let (server, client) = lines("buffer = 65536\nconnections = 3\nrate_mbit = 2.5");
        assert_eq!(server, "iperf -s -p 5001 -i 1 -f k -P 3 -w 65536");
        assert_eq!(
            client,
            "iperf -c 10.77.0.2 -p 5001 -i 1 -t 10 -f k -b 2500000 -w 65536 -P 3 -Z reno"
        );
    }

    #[test]
    fn iperf_2_writes_no_more_at_once_than_it_is_to_send_in_a_second() {
        assert!(lines("rate_mbit = 0.5").1.contains(" -b 500000 -l 62500 "));
        assert!(lines("rate_mbit = 0.5\nwrite = 100").1.contains(" -b 500000 -l 100 "));
        assert!(!lines("rate_mbit = 1.1").1.contains("-l"), "128 KiB are less");
    }

    #[test]
    fn udp_has_no_congestion_control() {
        let (server, client) = lines("protocol = \"udp\"\nrate_mbit = 30");
        assert_eq!(server, "iperf -s -p 5001 -i 1 -f k -P 1 -u");
        assert_eq!(client, "iperf -c 10.77.0.2 -p 5001 -i 1 -t 10 -f k -u -b 30000000");
    }

    #[test]
    fn iperf3_prints_json_and_takes_whole_seconds() {
        let flow = flow("tool = \"iperf3\"");
        assert_eq!(server(&flow, &assigned()).join(" "), "iperf3 -s -p 5001 -i 1 -1 -J");
        assert_eq!(
            client(&flow, &assigned(), 2.5, "cubic", None).join(" "),
            "iperf3 -c 10.77.0.2 -p 5001 -i 1 -t 3 -J -C cubic"
        );
    }

    #[test]
    fn the_size_of_a_write_reaches_both_ends() {
        let (server, client) = lines("write = 64");
        assert_eq!(server, "iperf -s -p 5001 -i 1 -f k -P 1 -l 64");
        assert_eq!(client, "iperf -c 10.77.0.2 -p 5001 -i 1 -t 10 -f k -l 64 -Z reno");
        let (server, client) = lines("write = 64\ntool = \"iperf3\"");
        assert_eq!(server, "iperf3 -s -p 5001 -i 1 -1 -J");
        assert_eq!(client, "iperf3 -c 10.77.0.2 -p 5001 -i 1 -t 10 -J -l 64 -C reno");
    }

    #[test]
    fn of_a_reversed_flow_the_receiver_connects_to_the_sender() {
        let flow = flow("tool = \"iperf3\"\nreverse = true");
        let own = Some([10, 78, 0, 2].into());
        assert_eq!(
            client(&flow, &assigned(), 10.0, "cubic", own).join(" "),
            "iperf3 -c 10.77.0.1 -p 5001 -i 1 -B 10.78.0.2 -R -t 10 -J -C cubic"
        );
    }
}
