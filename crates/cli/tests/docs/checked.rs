//! What pages show of `transom check` is what it can print, whatever kernel it was printed on.

use std::fs;

use transom_monitor::{Candidate, PURPOSES, Purpose};

use crate::links::prose;
use crate::shown::{pages, root};
use crate::sources;

/// A purpose, the tier that serves it, and what it yields: `ok  rto  tracepoint  rto`.
fn row(line: &str) -> Option<(&'static Purpose, &str, &str)> {
    let line = line.strip_prefix("ok  ").or_else(|| line.strip_prefix("--  "))?;
    let (name, line) = line.split_once(' ')?;
    let (tier, yields) = line.trim_start().split_once(' ')?;
    let purpose = PURPOSES.iter().find(|purpose| purpose.name == name)?;
    Some((purpose, tier, yields.trim()))
}

/// Why `check` does not print this row, or this line below it.
fn row_fault((purpose, tier, yields): (&Purpose, &str, &str)) -> Option<String> {
    let is_way = tier == "none" || purpose.candidates.iter().any(|it| it.tier.name() == tier);
    if !is_way {
        return Some(format!("{} is served by no {tier}", purpose.name));
    }
    let is_said = yields == purpose.yields;
    (!is_said).then(|| format!("{} yields {}", purpose.name, purpose.yields))
}

fn detail_fault(purpose: &Purpose, tier: &str, detail: &str) -> Option<String> {
    let of_tier = |it: &&Candidate| it.tier.name() == tier;
    if let Some(limit) = detail.strip_prefix("limit: ") {
        let is_one = purpose.candidates.iter().filter(of_tier).any(|it| it.limit == limit);
        return (!is_one).then(|| format!("{} by {tier} has no limit: {limit}", purpose.name));
    }
    let refused = detail.strip_prefix("not by ")?.split(':').next()?;
    let mut before = purpose.candidates.iter().take_while(|it| !of_tier(it));
    let is_tried_before = before.any(|it| it.tier.name() == refused);
    (!is_tried_before).then(|| format!("{} is not tried by {refused} before {tier}", purpose.name))
}

#[test]
fn the_probes_that_pages_show_of_check_are_those_that_it_can_print() {
    let (mut checked, mut wrong) = (0, Vec::new());
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        let mut last = None;
        for (number, line) in (1..).zip(text.lines()) {
            let fault = match row(line) {
                Some(row) => {
                    checked += 1;
                    last = Some(row);
                    row_fault(row)
                }
                None if line.starts_with("    ") => {
                    last.and_then(|(purpose, tier, _)| detail_fault(purpose, tier, line.trim()))
                }
                None => {
                    last = None;
                    None
                }
            };
            wrong.extend(fault.map(|fault| format!("{}:{number}: {fault}", page.display())));
        }
    }
    assert!(checked > 20, "only {checked} rows of check were found in the pages");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// What the page of `check` quotes in its text, if it is more than a word or an option.
#[test]
fn the_marks_that_the_page_of_check_names_are_printed() {
    let mut printed = Vec::new();
    sources(&root().join("crates/monitor/src"), &mut printed);
    let page = fs::read_to_string(root().join("docs/check.md")).unwrap();
    let quoted: Vec<&str> = prose(&page)
        .flat_map(|(_, line)| line.split('`').skip(1).step_by(2))
        .filter(|mark| mark.contains(' '))
        .collect();
    assert!(quoted.len() > 2, "{quoted:?}");
    for mark in quoted {
        assert!(printed.iter().any(|text| text.contains(mark)), "nothing prints `{mark}`");
    }
}
