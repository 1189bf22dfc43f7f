//! An event in a few words: its kind and its fields, under the names of the trace's columns.

use std::fmt::Write as _;

use transom_event::fields::{self, Value};
use transom_event::{Kind, Place};

/// As `retransmit retransmit_reason=fast segments=1 seq=77`.
pub(crate) fn phrase(kind: Kind, place: Place, aux: [u32; 2]) -> String {
    let mut phrase = kind.name().to_owned();
    for (field, value) in fields::of(kind, place, aux) {
        let _ = match value {
            Value::Number(number) => write!(phrase, " {field}={number}"),
            Value::Flag(flag) => write!(phrase, " {field}={flag}"),
            Value::Word(word) => write!(phrase, " {field}={word}"),
        };
    }
    phrase
}
