//! The table's rows as the page's script reads them (`assets/page/table.js`).

use serde_json::{Value, json};
use transom_analysis::{Analysis, Multipath, families};

/// Bytes of the table.
const TABLE_BYTES: usize = 2_200_000;

/// What a connection is called in the page: its cookie, behind a letter where there are two traces.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    pub trace: usize,
    pub traces: usize,
}

impl Key {
    pub fn of(self, name: impl std::fmt::Display) -> String {
        if self.traces > 1 {
            format!("{}-{name}", Key::letter(self.trace))
        } else {
            name.to_string()
        }
    }

    pub fn letter(trace: usize) -> char {
        char::from(b'A' + (trace % 26) as u8)
    }
}

/// A row for each connection, until they would fill the page; above the subflows of a Multipath TCP
/// connection a row with their sum. `has_other_end` tells of a cookie whether the page has its other end.
pub fn table(
    analyses: &[Analysis],
    key: Key,
    start_ns: u64,
    has_other_end: impl Fn(u64) -> bool,
) -> Vec<Value> {
    let most = TABLE_BYTES / key.traces.max(1);
    let mut bytes = 0;
    families(analyses, |analysis| analysis.mptcp)
        .flat_map(|family| {
            let heading = Multipath::of(family).filter(|sum| sum.subflows > 1);
            let heading = heading.map(|sum| self::heading(&sum, family, key, start_ns));
            let row = |a: &Analysis| connection(a, key, start_ns, has_other_end(a.cookie));
            heading.into_iter().chain(family.iter().map(row)).collect::<Vec<_>>()
        })
        .take_while(|value| {
            bytes += value.to_string().len();
            bytes < most
        })
        .collect()
}

fn micros(ns: u64, start_ns: u64) -> u64 {
    ns.saturating_sub(start_ns) / 1000
}

/// Who it is, as in `explain`; empty when the trace was cut before its `open`.
pub fn ends(analysis: &Analysis) -> String {
    match analysis.ends {
        Some(_) => format!("{} > {}", analysis.local_name, analysis.remote_name),
        None => String::new(),
    }
}

/// The addresses and ports where the table has names for any of them, so that its filter finds them.
fn numbers(analysis: &Analysis) -> Option<String> {
    analysis.ends.map(|numbers| numbers.to_string()).filter(|numbers| *numbers != ends(analysis))
}

/// Twelve cells; a subflow has its token as the thirteenth, and one with names its numbers as the
/// fifteenth.
fn connection(analysis: &Analysis, key: Key, start_ns: u64, has_other_end: bool) -> Value {
    let summary = &analysis.summary;
    let verdict = match has_other_end {
        true => analysis.verdict.clone().beside_other_end().text(),
        false => analysis.verdict.text(),
    };
    let mut cells = vec![
        json!(key.of(analysis.cookie)),
        json!(analysis.program),
        json!(ends(analysis)),
        json!(analysis.algorithm),
        json!(micros(analysis.start_ns, start_ns)),
        json!(summary.duration_ns / 1000),
        json!(summary.acked),
        json!(summary.received),
        json!(summary.retransmitted.total()),
        json!(summary.timeouts),
        json!(summary.rtt.map(|rtt| rtt.min_us)),
        json!(verdict),
    ];
    cells.extend(analysis.mptcp.map(|token| json!(token.to_string())));
    if let Some(numbers) = numbers(analysis) {
        cells.resize(14, Value::Null);
        cells.push(json!(numbers));
    }
    cells.into()
}

/// The sum of the subflows of one connection; the number of subflows is the fourteenth cell.
fn heading(sum: &Multipath, subflows: &[Analysis], key: Key, start_ns: u64) -> Value {
    let algorithm = &subflows[0].algorithm;
    let same = subflows.iter().all(|subflow| subflow.algorithm == *algorithm);
    json!([
        key.of(format!("mptcp-{}", sum.token)),
        sum.program,
        format!("MPTCP {}, {} subflows", sum.token, sum.subflows),
        if same { algorithm.as_str() } else { "" },
        micros(sum.start_ns, start_ns),
        sum.duration_ns / 1000,
        sum.acked,
        sum.received,
        sum.retransmitted,
        sum.timeouts,
        subflows.iter().filter_map(|subflow| subflow.summary.rtt).map(|rtt| rtt.min_us).min(),
        shares(sum, subflows),
        sum.token.to_string(),
        sum.subflows,
    ])
}

/// Which part of the bytes each subflow carried, in the words of the verdicts.
fn shares(sum: &Multipath, subflows: &[Analysis]) -> String {
    let share = |subflow: &Analysis| {
        let percent = subflow.bytes() as f64 * 100.0 / sum.bytes().max(1) as f64;
        format!("{percent:.0}% over {}", subflow.local)
    };
    format!("Of the bytes, {}.", subflows.iter().map(share).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use transom_analysis::{Recording, analyse};
    use transom_event::{Body, Event, Kind, Names, Open, Origin, Place, State, TcpState};

    use super::*;

    const ONE: Key = Key { trace: 0, traces: 1 };

    /// Connections with a token (0 = none) and bytes acknowledged; the cookie is the order.
    fn analyses(connections: &[(u32, u32)]) -> Vec<Analysis> {
        let mut recording = Recording::default();
        for (&(mptcp, acked), cookie) in connections.iter().zip(1..) {
            let mut open = Open { family: 2, local_port: 1, mptcp, ..Open::default() };
            open.local_addr[..4].copy_from_slice(&[10, 0, 0, cookie as u8]);
            let state = |snd_una| State {
                snd_una,
                snd_nxt: 1000,
                tcp_state: TcpState::Established as u8,
                ..State::default()
            };
            let bodies = [Body::Open(open), Body::State(state(0)), Body::State(state(acked))];
            for (body, n) in bodies.into_iter().zip(0..) {
                let kind = if n == 0 { Kind::Open } else { Kind::Sample };
                let aux = [Origin::Connect as u32, 0];
                let (time_ns, place) = (cookie * 1000 + n * 50_000, Place::SetState);
                let event = Event { time_ns, cookie, tgid: 1, cpu: 0, kind, place, aux, body };
                recording.push(&event);
            }
        }
        analyse(&recording)
    }

    #[test]
    fn subflows_stand_under_their_sum() {
        let table = table(&analyses(&[(0xbeef, 300), (0xbeef, 100), (0, 50)]), ONE, 0, |_| false);
        let names: Vec<_> = table.iter().map(|row| row[0].as_str().unwrap()).collect();
        assert_eq!(names, ["mptcp-0000beef", "1", "2", "3"]);
        let heading = &table[0];
        assert_eq!(heading[2], "MPTCP 0000beef, 2 subflows");
        assert_eq!(heading[6], 400);
        assert_eq!((&heading[4], &heading[5]), (&json!(1), &json!(101)));
        assert_eq!(heading[11], "Of the bytes, 75% over 10.0.0.1:1, 25% over 10.0.0.2:1.");
        assert_eq!(table[1][12], "0000beef");
    }

    #[test]
    fn each_row_has_its_own_numbers_though_names_are_the_same() {
        let mut analyses = analyses(&[(0, 50), (0xbeef, 50), (0, 50)]);
        let hosts = analyses.iter().map(|a| (a.ends.unwrap().local.ip(), "localhost".to_owned()));
        let names = Names::new([].into(), hosts.collect());
        analyses.iter_mut().for_each(|analysis| analysis.name_ends(&names));
        let table = table(&analyses, ONE, 0, |_| false);
        for (row, analysis) in table.iter().zip(&analyses) {
            assert_eq!(row[2], "localhost:1 > 0.0.0.0:0");
            assert_eq!(row[12], json!(analysis.mptcp.map(|token| token.to_string())));
            assert_eq!(row[14], json!(analysis.ends.unwrap().to_string()));
        }
    }

    #[test]
    fn single_path_tcp_has_no_heading_and_no_token() {
        let table = table(&analyses(&[(0, 50)]), ONE, 0, |_| false);
        assert_eq!(table.len(), 1);
        assert_eq!(table[0].as_array().unwrap().len(), 12);
    }
}
