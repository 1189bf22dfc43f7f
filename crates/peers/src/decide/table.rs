//! `table`: algorithm and cap by round-trip time and class of the terminal (thesis, table 1).

use super::{Decision, Opening, Why, each};
use crate::report::{Report, Treatment};
use crate::rules::{Column, Row};

pub fn decide(table: &[Column], group: &[&Report]) -> Vec<Decision> {
    group.iter().map(|report| of_one(table, report)).collect()
}

/// The rows are known before there is a connection.
pub fn openings(table: &[Column], own: &Report) -> Vec<Opening> {
    let rows = column(table, own).map_or(&[][..], |column| &column.rows);
    let ends = rows.iter().skip(1).map(|next| from_us(next) - 1).chain([u64::from(u32::MAX)]);
    let opening = |(row, to_us): (&Row, u64)| Opening {
        from_us: from_us(row) as u32,
        to_us: to_us as u32,
        treatment: Treatment { algorithm: row.algorithm.into(), cap: row.cap },
    };
    rows.iter().zip(ends).map(opening).collect()
}

/// The one for the terminal's class.
fn column<'a>(table: &'a [Column], report: &Report) -> Option<&'a Column> {
    let class = u64::from(report.class);
    let fitting = table.iter().filter(|column| column.class_tenths() <= class);
    fitting.max_by_key(|column| column.class_tenths())
}

fn of_one(table: &[Column], report: &Report) -> Decision {
    let column = column(table, report);
    each(report, None, |flow| {
        let row = column.and_then(|column| row(column, flow.min_rtt_us));
        match row {
            Some(row) => {
                let treatment = Treatment { algorithm: row.algorithm.into(), cap: row.cap };
                (treatment, Why::Row { rtt_us: from_us(row) })
            }
            None => (Treatment::default(), Why::NoRow),
        }
    })
}

fn from_us(row: &Row) -> u64 {
    (row.rtt_ms * 1000.0).round() as u64
}

fn row(column: &Column, rtt_us: u32) -> Option<&Row> {
    column.rows.iter().rev().find(|row| from_us(row) <= u64::from(rtt_us))
}
