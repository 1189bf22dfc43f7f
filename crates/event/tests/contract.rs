//! `bpf/event.h` and this crate say the same.

use transom_event::{Kind, LossCause, Place, Reason, RetransmitReason, RtoCause};

const HEADER: &str =
    concat!(include_str!("../../../bpf/event.h"), include_str!("../../../bpf/tuned.h"));

/// Names and numbers of a C enum, counted as a compiler does.
fn c_enum(name: &str) -> Vec<(String, u32)> {
    let start = HEADER.find(&format!("enum {name} {{")).expect("the enum is in event.h");
    let body = &HEADER[start..];
    let body = &body[body.find('{').unwrap() + 1..body.find('}').unwrap()];
    let mut without_comments = String::new();
    let mut rest = body;
    while let Some(at) = rest.find("/*") {
        without_comments.push_str(&rest[..at]);
        rest = rest[at..].split_once("*/").expect("a comment ends").1;
    }
    without_comments.push_str(rest);
    let mut next = 0;
    let mut values = Vec::new();
    for item in without_comments.split(',').map(str::trim).filter(|item| !item.is_empty()) {
        let (name, value) = item.split_once('=').unwrap_or((item, ""));
        next = value.trim().parse().unwrap_or(next);
        values.push((name.trim().to_owned(), next));
        next += 1;
    }
    values
}

/// Compares all but the last name, which only counts the others.
fn agree(enum_name: &str, prefix: &str, ours: &[(String, u32)], has_count: bool) {
    let mut theirs = c_enum(enum_name);
    if has_count {
        theirs.pop();
    }
    let theirs: Vec<_> = theirs
        .into_iter()
        .map(|(name, number)| (name.strip_prefix(prefix).unwrap().replace('_', ""), number))
        .collect();
    assert_eq!(ours, theirs, "{enum_name}");
}

macro_rules! listed {
    ($type:ty) => {
        <$type>::ALL
            .iter()
            .map(|v| (format!("{v:?}").to_uppercase(), *v as u32))
            .collect::<Vec<_>>()
    };
}

#[test]
fn kinds_have_the_numbers_of_the_kernel_side() {
    agree("tx_kind", "TX_", &listed!(Kind), true);
}

#[test]
fn reasons_have_the_numbers_of_the_kernel_side() {
    agree("tx_reason", "TX_", &listed!(Reason), true);
}

#[test]
fn places_have_the_numbers_of_the_kernel_side() {
    agree("tx_where", "TX_AT_", &listed!(Place), true);
}

#[test]
fn reasons_and_causes_have_the_numbers_of_the_kernel_side() {
    agree("tx_retransmit_reason", "TX_RETRANS_", &listed!(RetransmitReason), false);
    agree("tx_rto_cause", "TX_RTO_", &listed!(RtoCause), false);
    agree("tx_loss", "TX_LOSS_", &listed!(LossCause), true);
}
