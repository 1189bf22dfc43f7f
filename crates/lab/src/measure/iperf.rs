//! What the receiving iperf printed: its text for iperf 2 (2.1), its JSON for iperf3.

use std::collections::BTreeMap;

use serde_json::Value;

/// What a program received.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Received {
    /// Over the whole transfer, all connections, Mbit/s.
    pub mbit: f64,
    /// In each whole second, Mbit/s.
    pub per_second: Vec<f64>,
    /// UDP: lost ÷ sent.
    pub lost_share: Option<f64>,
}

/// A row of iperf 2's table: `[  1] 0.0000-1.0000 sec  431 KBytes  3534 Kbits/sec …`.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    id: String,
    start_s: f64,
    end_s: f64,
    mbit: f64,
    /// UDP: lost, total.
    lost: Option<(f64, f64)>,
}

/// Shorter and longer intervals are the last one, or a total.
const SECOND: std::ops::Range<f64> = 0.95..1.05;

/// The server's text; none if it has no table.
pub fn iperf2(text: &str) -> Option<Received> {
    let mut connections: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    for row in text.lines().filter_map(row) {
        connections.entry(row.id.clone()).or_default().push(row);
    }
    let mut received = Received::default();
    let mut seconds: BTreeMap<u64, f64> = BTreeMap::new();
    let (mut lost, mut total) = (0.0, 0.0);
    let (mut megabits, mut longest_s) = (0.0, 0.0_f64);
    for rows in connections.values() {
        let (whole, intervals) = split(rows);
        megabits += whole.mbit * whole.end_s;
        longest_s = longest_s.max(whole.end_s);
        if let Some((of_row, of_all)) = whole.lost {
            (lost, total) = (lost + of_row, total + of_all);
        }
        for row in intervals.iter().filter(|row| SECOND.contains(&(row.end_s - row.start_s))) {
            *seconds.entry(row.start_s.round() as u64).or_default() += row.mbit;
        }
    }
    // As in iperf's own sum: a connection that was over early leaves the link to the others.
    received.mbit = if longest_s > 0.0 { megabits / longest_s } else { 0.0 };
    received.per_second = seconds.into_values().collect();
    received.lost_share = (total > 0.0).then(|| lost / total);
    (!connections.is_empty()).then_some(received)
}

/// The row of the whole connection, and those of its intervals.
fn split(rows: &[Row]) -> (Row, &[Row]) {
    let (last, before) = rows.split_last().expect("a connection has rows");
    let is_whole = last.start_s == 0.0 && before.iter().any(|row| row.start_s == 0.0);
    if is_whole {
        return (last.clone(), before);
    }
    // The server ended before it printed the total.
    let length = rows.iter().map(|row| row.end_s).fold(0.0, f64::max);
    let megabits = rows.iter().map(|row| row.mbit * (row.end_s - row.start_s)).sum::<f64>();
    let lost = rows.iter().filter_map(|row| row.lost);
    let lost = lost.reduce(|a, b| (a.0 + b.0, a.1 + b.1));
    let mbit = if length > 0.0 { megabits / length } else { 0.0 };
    (Row { id: last.id.clone(), start_s: 0.0, end_s: length, mbit, lost }, rows)
}

fn row(line: &str) -> Option<Row> {
    let (id, rest) = line.trim_start().strip_prefix('[')?.split_once(']')?;
    let id = id.trim();
    // The sum of the connections is left to us: it misses those that come later.
    if id == "SUM" || id == "ID" || id.is_empty() {
        return None;
    }
    let (interval, rest) = rest.split_once(" sec ")?;
    let (start, end) = interval.trim().split_once('-')?;
    let mut words = rest.split_whitespace();
    let (_transferred, _unit) = (number(words.next()?)?, words.next()?);
    let mbit = number(words.next()?)? * megabits(words.next()?)?;
    let (start_s, end_s) = (number(start.trim())?, number(end.trim())?);
    (start_s <= end_s).then(|| Row { id: id.to_owned(), start_s, end_s, mbit, lost: lost(words) })
}

/// `5.292 ms 3/1567 (0.2%)`, where blanks may stand after the slash.
fn lost<'a>(words: impl Iterator<Item = &'a str>) -> Option<(f64, f64)> {
    let rest: String = words.skip(2).collect();
    let (lost, rest) = rest.split_once('/')?;
    let total = rest.split_once('(').map_or(rest, |(total, _)| total);
    Some((number(lost)?, number(total)?))
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|n: &f64| n.is_finite() && *n >= 0.0)
}

fn megabits(unit: &str) -> Option<f64> {
    let prefix = unit.strip_suffix("bits/sec")?;
    Some(match prefix {
        "" => 1e-6,
        "K" => 1e-3,
        "M" => 1.0,
        "G" => 1e3,
        "T" => 1e6,
        _ => return None,
    })
}

/// The server's JSON (`-J`); none if it has no result.
pub fn iperf3(text: &str) -> Option<Received> {
    let report: Value = serde_json::from_str(text).ok()?;
    let end = report.get("end")?;
    let bits = |sum: &Value| sum.get("bits_per_second")?.as_f64();
    let sum =
        ["sum_received", "sum"].iter().find_map(|name| end.get(name).filter(|s| s.is_object()))?;
    let intervals = report.get("intervals").and_then(Value::as_array);
    let per_second = intervals
        .into_iter()
        .flatten()
        .filter_map(|interval| interval.get("sum"))
        .filter(|sum| {
            sum.get("seconds").and_then(Value::as_f64).is_some_and(|s| SECOND.contains(&s))
        })
        .filter_map(|sum| Some(bits(sum)? / 1e6))
        .collect();
    let of_datagrams = |name: &str| end.get("sum").and_then(|sum| sum.get(name)?.as_f64());
    // A server to which none came knows of none that was lost.
    let lost = match of_datagrams("packets") {
        Some(0.0) => of_datagrams("lost_percent").map(|_| 100.0),
        _ => of_datagrams("lost_percent"),
    };
    Some(Received {
        mbit: bits(sum).filter(|rate| rate.is_finite())? / 1e6,
        per_second,
        lost_share: lost.map(|percent| percent / 100.0),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // Printed by iperf 2.1.8 and iperf 3.12 through a queue of 8.6 Mbit/s.
    const TWO: &str = include_str!("samples/iperf2-tcp-two-connections.server.txt");
    const UDP: &str = include_str!("samples/iperf2-udp.server.txt");
    const THREE: &str = include_str!("samples/iperf3-tcp.server.json");

    #[test]
    fn two_connections_are_added() {
        let received = iperf2(TWO).unwrap();
        assert!((received.mbit - 7.020).abs() < 1e-3, "iperf's own sum: {received:?}");
        assert_eq!(received.per_second.len(), 6);
        assert!((received.per_second[0] - 8.828).abs() < 1e-9);
        assert_eq!(received.lost_share, None);
    }

    #[test]
    fn connections_of_unlike_length_are_no_faster_than_the_link() {
        let text = "[  1] 0.0000-1.0000 sec  1 KBytes  6.0 Mbits/sec\n\
                    [  1] 0.0000-1.0000 sec  1 KBytes  6.0 Mbits/sec\n\
                    [  2] 0.0000-1.0000 sec  1 KBytes  2.0 Mbits/sec\n\
                    [  2] 0.0000-4.0000 sec  1 KBytes  6.5 Mbits/sec\n";
        assert_eq!(iperf2(text).unwrap().mbit, (6.0 + 4.0 * 6.5) / 4.0);
    }

    #[test]
    fn of_datagrams_of_which_none_came_all_are_lost() {
        let none = r#"{"end": {"sum": {"bits_per_second": 0, "packets": 0, "lost_percent": 0}}}"#;
        assert_eq!(iperf3(none).unwrap().lost_share, Some(1.0));
        let all = none.replace("\"packets\": 0", "\"packets\": 9");
        assert_eq!(iperf3(&all).unwrap().lost_share, Some(0.0));
        assert_eq!(iperf3(THREE).unwrap().lost_share, None, "TCP has none");
    }

    #[test]
    fn udp_tells_its_losses() {
        let received = iperf2(UDP).unwrap();
        assert!((received.mbit - 5.921).abs() < 1e-9, "{received:?}");
        assert_eq!(received.lost_share, Some(0.0));
        let some = UDP.replace("0/1567 (0%)", " 47/ 1567 (3%)");
        assert_eq!(iperf2(&some).unwrap().lost_share, Some(47.0 / 1567.0));
    }

    #[test]
    fn iperf3_says_the_same_in_json() {
        let received = iperf3(THREE).unwrap();
        assert!((received.mbit - 8.228_356_957).abs() < 1e-6, "{received:?}");
        assert_eq!(received.per_second.len(), 3);
    }

    #[test]
    fn a_server_that_ended_early_is_read_by_its_intervals() {
        let text = "[  1] 0.0000-1.0000 sec  1 KBytes  4.0 Mbits/sec\n\
                    [  1] 1.0000-1.5000 sec  1 KBytes  2000 Kbits/sec\n";
        let received = iperf2(text).unwrap();
        assert!((received.mbit - 5.0 / 1.5).abs() < 1e-9);
        assert_eq!(received.per_second, [4.0]);
    }

    #[test]
    fn text_without_a_table_is_nothing() {
        assert_eq!(iperf2("bind failed: Address already in use\n"), None);
        assert_eq!(iperf3("{\"error\": \"unable to connect\"}"), None);
        assert_eq!(iperf3("iperf3: error"), None);
    }

    proptest! {
        #[test]
        fn damaged_text_never_panics(at in 0..TWO.len(), length in 0..60usize, put in "\\PC{0,20}") {
            let end = (at + length).min(TWO.len());
            let text = format!("{}{put}{}", &TWO[..at], &TWO[end..]);
            if let Some(received) = iperf2(&text) {
                prop_assert!(received.mbit.is_finite() && received.mbit >= 0.0);
            }
        }

        #[test]
        fn damaged_json_never_panics(at in 0..THREE.len(), length in 0..60usize, put in "[ -~]{0,9}") {
            let end = (at + length).min(THREE.len());
            let _ = iperf3(&format!("{}{put}{}", &THREE[..at], &THREE[end..]));
        }

        #[test]
        fn any_text_never_panics(text in "(\\[[ 0-9A-Z]{0,3}\\] [-0-9. sec/KMGbits%()]{0,60}\n?){0,9}") {
            let _ = iperf2(&text);
        }
    }
}
