//! `transom lab compare` on this engine: what is the same on both sides does not differ, and what
//! is known to differ does.

use std::path::Path;

use transom_lab::suite::{CASES, Case, Comparison, Order, Row, compare};

const ENGINE: &str = env!("CARGO_BIN_EXE_transom-simulate");

fn compared(cases: &[&str], sides: [&str; 2], repeats: u32) -> Comparison {
    let comparison = try_to_compare(cases, sides, repeats).unwrap();
    assert!(comparison.failures.is_empty(), "{:?}", comparison.failures);
    comparison
}

fn try_to_compare(cases: &[&str], sides: [&str; 2], repeats: u32) -> anyhow::Result<Comparison> {
    let named = |name: &&str| CASES.iter().find(|case: &&Case| case.name == *name).unwrap();
    let order = Order {
        engine: Path::new(ENGINE),
        sides: sides.map(|side| side.parse().unwrap()),
        cases: cases.iter().map(named).collect(),
        seed: 1,
        repeats,
        jobs: 2,
    };
    compare(&order, &|| false, &|_, _| ())
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
    let comparison = compared(&["short-loss"], ["6.12", "6.12,ipv4.tcp_sack=0"], 8);
    let timeouts = row(&comparison, "timeouts");
    assert!(timeouts.differs && timeouts.difference.0 > 0.0, "{timeouts:?}");
}

#[test]
fn a_side_that_cannot_be_is_named_before_anything_runs() {
    for (side, says) in [
        ("5.4", "there is no kernel 5.4"),
        ("6.12,ipv4.no_such_key=1", "net.ipv4.no_such_key"),
        ("6.12,cc=no_such_algorithm", "no_such_algorithm"),
    ] {
        let error = try_to_compare(&["bulk"], ["6.12", side], 2).unwrap_err();
        let error = format!("{error:#}");
        assert!(error.contains(side) && error.contains(says), "{error}");
    }
}
