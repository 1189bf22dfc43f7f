//! `transom lab compare` on this engine: what is the same on both sides does not differ, and what
//! is known to differ does.

use std::path::Path;

use transom_lab::suite::{CASES, Case, Comparison, Order, Row, compare};

const ENGINE: &str = env!("CARGO_BIN_EXE_transom-simulate");

fn compared(cases: &[&str], sides: [&str; 2], repeats: u32) -> Comparison {
    let named = |name: &&str| CASES.iter().find(|case: &&Case| case.name == *name).unwrap();
    let order = Order {
        engine: Path::new(ENGINE),
        sides: sides.map(|side| side.parse().unwrap()),
        cases: cases.iter().map(named).collect(),
        seed: 1,
        repeats,
        jobs: 2,
    };
    let comparison = compare(&order, &|| false, &|_, _| ()).unwrap();
    assert!(comparison.failures.is_empty(), "{:?}", comparison.failures);
    comparison
}

fn row<'a>(comparison: &'a Comparison, measure: &str) -> &'a Row {
    comparison.rows.iter().find(|row| row.measure.contains(measure)).unwrap()
}

#[test]
fn a_kernel_does_not_differ_from_itself() {
    let comparison = compared(&["loss-3", "short-flows", "incast"], ["6.12", "6.12"], 2);
    assert_eq!(comparison.rows.len(), 8);
    for row in &comparison.rows {
        assert!(!row.differs && row.means[0] == row.means[1], "{row:?}");
    }
}

#[test]
fn without_selective_acknowledgments_short_transfers_wait_for_more_timeouts() {
    let comparison = compared(&["short-loss"], ["6.12", "6.12,ipv4.tcp_sack=0"], 4);
    let timeouts = row(&comparison, "timeouts");
    assert!(timeouts.differs && timeouts.difference.0 > 0.0, "{timeouts:?}");
}
