//! The table's rows as the page's script reads them (`assets/page/table.js`).

use serde_json::{Value, json};
use transom_analysis::families;

use super::AllNotes;
use super::summary::Summary;

/// Bytes of the table.
const TABLE_BYTES: usize = 2_200_000;

/// A row for each connection, until they would fill the page; above the subflows of a Multipath TCP
/// connection a row with their sum.
pub fn table(rows: &[Summary], notes: &AllNotes) -> Vec<Value> {
    let mut bytes = 0;
    families(rows, |row| row.mptcp)
        .flat_map(|family| {
            let heading = (family.len() > 1).then(|| heading(family));
            heading.into_iter().chain(family.iter().map(|row| connection(row, notes)))
        })
        .take_while(|value| {
            bytes += value.to_string().len();
            bytes < TABLE_BYTES
        })
        .collect()
}

/// Single-path TCP has twelve cells, a subflow its token as the thirteenth.
fn connection(row: &Summary, notes: &AllNotes) -> Value {
    let mut cells = vec![
        json!(row.cookie.to_string()),
        json!(row.program),
        json!(row.endpoints),
        json!(row.algorithm),
        json!(row.first_us),
        json!(row.duration_us),
        json!(row.acked),
        json!(row.received),
        json!(row.retransmitted),
        json!(row.timeouts),
        json!(row.min_rtt_us),
        json!(notes.get(&row.cookie).map(|notes| notes.verdict.as_str()).unwrap_or_default()),
    ];
    cells.extend(row.mptcp.map(|token| json!(token.to_string())));
    cells.into()
}

/// The sum of the subflows of one connection; the number of subflows is the fourteenth cell.
fn heading(subflows: &[Summary]) -> Value {
    let sum = |of: fn(&Summary) -> u64| subflows.iter().map(of).sum::<u64>();
    let first_us = subflows.iter().map(|row| row.first_us).min().unwrap_or(0);
    let end_us = subflows.iter().map(|row| row.first_us + row.duration_us).max().unwrap_or(0);
    let token = subflows[0].mptcp.map(|token| token.to_string()).unwrap_or_default();
    let algorithm = &subflows[0].algorithm;
    let same = subflows.iter().all(|row| row.algorithm == *algorithm);
    json!([
        format!("mptcp-{token}"),
        subflows[0].program,
        format!("MPTCP {token}, {} subflows", subflows.len()),
        if same { algorithm.as_str() } else { "" },
        first_us,
        end_us - first_us,
        sum(|row| row.acked),
        sum(|row| row.received),
        sum(|row| row.retransmitted),
        sum(|row| row.timeouts),
        subflows.iter().filter_map(|row| row.min_rtt_us).min(),
        shares(subflows),
        token,
        subflows.len(),
    ])
}

/// Which part of the bytes each subflow carried, in the words of the verdicts.
fn shares(subflows: &[Summary]) -> String {
    let all: u64 = subflows.iter().map(Summary::bytes).sum();
    let share = |row: &Summary| {
        let percent = row.bytes() as f64 * 100.0 / all.max(1) as f64;
        let local = row.endpoints.split(" > ").next().unwrap_or_default();
        format!("{percent:.0}% over {local}")
    };
    format!("Of the bytes, {}.", subflows.iter().map(share).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use transom_event::Token;

    use super::*;

    fn row(cookie: u64, token: u32, acked: u64) -> Summary {
        Summary {
            cookie,
            acked,
            mptcp: (token != 0).then_some(Token(token)),
            endpoints: format!("10.0.0.{cookie}:1 > 10.0.9.9:2"),
            first_us: cookie,
            duration_us: 100,
            ..Summary::default()
        }
    }

    #[test]
    fn subflows_stand_under_their_sum() {
        let rows = [row(1, 0xbeef, 300), row(2, 0xbeef, 100), row(3, 0, 50)];
        let table = table(&rows, &AllNotes::new());
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
    fn single_path_tcp_has_no_heading_and_no_token() {
        let table = table(&[row(3, 0, 50)], &AllNotes::new());
        assert_eq!(table.len(), 1);
        assert_eq!(table[0].as_array().unwrap().len(), 12);
    }
}
