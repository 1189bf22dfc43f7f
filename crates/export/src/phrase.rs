//! An event in a few words: its kind, its fields and what its body names, under the names of the
//! trace's columns.

use std::fmt::Write as _;

use transom_event::fields::{self, Value};
use transom_event::{Body, Kind, Place};

/// As `retransmit retransmit_reason=fast segments=1 seq=77`.
pub(crate) fn phrase(kind: Kind, place: Place, aux: [u32; 2], body: &Body) -> String {
    let mut phrase = kind.name().to_owned();
    for (field, value) in fields::of(kind, place, aux) {
        let _ = match value {
            Value::Number(number) => write!(phrase, " {field}={number}"),
            Value::Flag(flag) => write!(phrase, " {field}={flag}"),
            Value::Word(word) => write!(phrase, " {field}={word}"),
        };
    }
    if let Some((field, text)) = named(kind, aux, body) {
        let _ = write!(phrase, " {field}={text}");
    }
    phrase
}

/// What the two numbers have no room for: the algorithm from now on, the SACK blocks.
pub(crate) fn named(kind: Kind, aux: [u32; 2], body: &Body) -> Option<(&'static str, String)> {
    match body {
        Body::Open(open) if kind == Kind::Algorithm => Some(("algorithm", open.algorithm())),
        Body::Sack(sack) => {
            let blocks = &sack.blocks[..fields::sack_blocks(aux)];
            let edges = blocks.iter().map(|[left, right]| format!("{left}-{right}"));
            Some(("sack_blocks", edges.collect::<Vec<String>>().join(" ")))
        }
        _ => None,
    }
}
