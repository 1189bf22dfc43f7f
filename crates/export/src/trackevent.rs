//! The part of Perfetto's trace schema (`perfetto_trace.proto`) that track events need.

use serde_json::Value;

use crate::protobuf::Message;

/// Clocks of a `ClockSnapshot`.
pub(crate) const REALTIME: u64 = 1;
pub(crate) const BOOTTIME: u64 = 6;

/// All packets of a file are one sequence. Its number is large so that the file can be appended to
/// one of Perfetto's own, whose service numbers its sequences from 1.
const SEQUENCE: u64 = 0x7472_616e;

const SLICE_BEGIN: u64 = 1;
const SLICE_END: u64 = 2;
const INSTANT: u64 = 3;
const COUNTER: u64 = 4;

const ORDER_EXPLICIT: u64 = 3;
/// Tracks of the same name stay apart.
const MERGE_NONE: u64 = 2;

/// What the numbers of a counter are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// µs in the file, a time on the screen.
    Microseconds,
    Bytes,
    Named(&'static str),
}

/// A `TracePacket`, as a field of the `Trace`.
fn packet(content: Message) -> Message {
    Message::default().message(1, &content.uint(10, SEQUENCE))
}

/// What several clocks showed at one moment, ns; the first is the one that times are of.
pub(crate) fn clocks(readings: &[(u64, u64)]) -> Message {
    let mut snapshot = Message::default();
    for &(clock, time) in readings {
        snapshot = snapshot.message(1, &Message::default().uint(1, clock).uint(2, time));
    }
    if let Some((clock, time)) = readings.first() {
        snapshot = snapshot.uint(2, *clock);
        return packet(at(*time).message(6, &snapshot));
    }
    packet(Message::default().message(6, &snapshot))
}

fn at(time_ns: u64) -> Message {
    Message::default().uint(8, time_ns).uint(58, BOOTTIME)
}

/// A process, by which other traces of the same machine know it, too.
pub(crate) fn process(track: u64, pid: u32, name: &str) -> Message {
    let mut process = Message::default().uint(1, pid.into());
    if !name.is_empty() {
        process = process.text(6, name);
    }
    describe(Message::default().uint(1, track).message(3, &process))
}

/// A track for slices and instants, or the parent of others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Track<'a> {
    pub id: u64,
    pub parent: Option<u64>,
    pub name: &'a str,
    pub description: &'a str,
    /// Its place among its siblings.
    pub rank: u64,
}

impl Track<'_> {
    pub fn packet(&self) -> Message {
        describe(self.descriptor())
    }

    pub fn counter(&self, unit: Unit) -> Message {
        let counter = match unit {
            Unit::Microseconds => Message::default().uint(3, 1).uint(4, 1000),
            Unit::Bytes => Message::default().uint(3, 3),
            Unit::Named(name) => Message::default().text(6, name),
        };
        describe(self.descriptor().message(8, &counter))
    }

    fn descriptor(&self) -> Message {
        let mut track = Message::default().uint(1, self.id).text(2, self.name);
        if let Some(parent) = self.parent {
            track = track.uint(5, parent);
        }
        if !self.description.is_empty() {
            track = track.text(14, self.description);
        }
        track.uint(11, ORDER_EXPLICIT).uint(12, self.rank).uint(15, MERGE_NONE)
    }
}

fn describe(track: Message) -> Message {
    packet(Message::default().message(60, &track))
}

/// Named values of a slice or an instant.
pub(crate) type Notes = Vec<(String, Value)>;

fn noted(mut event: Message, notes: &Notes) -> Message {
    for (name, value) in notes {
        let note = Message::default().text(10, name);
        let note = match value {
            Value::Bool(value) => note.bool(2, *value),
            Value::Number(number) => match (number.as_u64(), number.as_i64()) {
                (Some(value), _) => note.uint(3, value),
                (None, Some(value)) => note.int(4, value),
                _ => note.double(5, number.as_f64().unwrap_or(f64::NAN)),
            },
            Value::String(text) => note.text(6, text),
            Value::Null => continue,
            other => note.text(6, &other.to_string()),
        };
        event = event.message(4, &note);
    }
    event
}

fn event(time_ns: u64, kind: u64, track: u64, rest: Message) -> Message {
    let event = rest.uint(9, kind).uint(11, track);
    packet(at(time_ns).message(11, &event))
}

fn named(name: &str, notes: &Notes) -> Message {
    noted(Message::default().text(22, "tcp").text(23, name), notes)
}

pub(crate) fn begin(time_ns: u64, track: u64, name: &str, notes: &Notes) -> Message {
    event(time_ns, SLICE_BEGIN, track, named(name, notes))
}

pub(crate) fn end(time_ns: u64, track: u64) -> Message {
    event(time_ns, SLICE_END, track, Message::default())
}

pub(crate) fn instant(time_ns: u64, track: u64, name: &str, notes: &Notes) -> Message {
    event(time_ns, INSTANT, track, named(name, notes))
}

pub(crate) fn count(time_ns: u64, track: u64, value: u64) -> Message {
    let value = i64::try_from(value).unwrap_or(i64::MAX);
    event(time_ns, COUNTER, track, Message::default().int(30, value))
}
