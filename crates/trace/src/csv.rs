//! CSV (RFC 4180) with the columns of the trace; what is not there is empty.

use std::fmt::{Display, Write};

use transom_event::fields::{self, Field, Value};
use transom_event::text::{Context, Utc};
use transom_event::{Body, CaState, Event, Open, Sack, State, TcpState};

use crate::columns::SSTHRESH_UNSET;
use crate::identity;
use crate::schema::{DETAILS, FLAG_BITS, SACK_WORDS, STATE_WORDS, columns};

/// The names of the columns, without a newline.
pub(crate) fn header() -> String {
    let names: Vec<String> = columns().iter().map(|field| field.name().clone()).collect();
    names.join(",")
}

struct Line<'a>(&'a mut String);

impl Line<'_> {
    fn put(&mut self, value: impl Display) {
        let _ = write!(self.0, ",{value}");
    }

    fn maybe(&mut self, value: Option<impl Display>) {
        match value {
            Some(value) => self.put(value),
            None => self.0.push(','),
        }
    }

    fn absent(&mut self, columns: usize) {
        self.0.extend(std::iter::repeat_n(',', columns));
    }

    fn quoted(&mut self, text: &str) {
        if text.contains([',', '"', '\n', '\r']) {
            self.put(format_args!("\"{}\"", text.replace('"', "\"\"")));
        } else {
            self.put(text);
        }
    }

    fn named(&mut self, name: Option<&'static str>, number: u8) {
        match name {
            Some(name) => self.put(name),
            None => self.put(number),
        }
    }

    fn words(&mut self, words: &[Option<u32>; STATE_WORDS.len()]) {
        for word in words {
            self.maybe(*word);
        }
    }

    fn states(&mut self, ca_state: u8, tcp_state: u8) {
        self.named(CaState::from_number(ca_state.into()).map(CaState::name), ca_state);
        self.named(TcpState::from_number(tcp_state.into()).map(TcpState::name), tcp_state);
    }

    fn state(&mut self, state: &State) {
        let all: &[u32; 24] = bytemuck::cast_ref(state);
        let mut words: [Option<u32>; STATE_WORDS.len()] = std::array::from_fn(|i| Some(all[i]));
        words[1] = Some(state.ssthresh).filter(|&n| n != SSTHRESH_UNSET);
        words[2] = state.clamp_set();
        words[14] = state.mdev();
        words[15] = state.min_rtt();
        self.words(&words);
        self.maybe(state.pacing());
        self.put(state.mss);
        self.states(state.ca_state, state.tcp_state);
        self.put(state.chrono());
        for (_, bit) in FLAG_BITS {
            self.put(state.flags >> bit & 1 == 1);
        }
        self.put(state.backoff);
        self.maybe(state.send_buffer_bytes());
        self.put(state.is_write_blocked());
    }

    fn sack_state(&mut self, sack: &Sack) {
        let all: &[u32; 24] = bytemuck::cast_ref(sack);
        let mut words = [None; STATE_WORDS.len()];
        for (i, at) in SACK_WORDS.into_iter().enumerate() {
            words[at] = Some(all[8 + i]);
        }
        words[1] = words[1].filter(|&n| n != SSTHRESH_UNSET);
        self.words(&words);
        self.absent(2);
        self.states(sack.ca_state, sack.tcp_state);
        self.absent(4 + FLAG_BITS.len());
    }

    fn ends(&mut self, open: &Open) {
        self.put(identity::address(&open.local_addr, open.family));
        self.put(identity::address(&open.remote_addr, open.family));
        self.put(open.local_port);
        self.put(open.remote_port);
        self.quoted(&identity::name(&open.comm));
        self.quoted(&identity::name(&open.algorithm));
    }

    fn details(&mut self, event: &Event) {
        let is_its = |field: &&&Field| field.is_of(event.kind, event.place);
        for detail in DETAILS.iter() {
            match detail.fields.iter().find(is_its).map(|field| field.value(event.aux)) {
                None => self.absent(1),
                Some(Value::Number(number)) => self.put(number),
                Some(Value::Flag(flag)) => self.put(flag),
                Some(Value::Word(word)) => self.put(word),
            }
        }
    }

    fn whereabouts(&mut self, open: &Open) {
        self.put(open.netns);
        self.put(open.ifindex);
        self.put(open.family);
        self.put(open.cgroup);
        self.maybe((open.mptcp != 0).then_some(open.mptcp));
    }
}

const STATE_COLUMNS: usize = STATE_WORDS.len() + 8 + FLAG_BITS.len();
const END_COLUMNS: usize = 6;
const WHEREABOUTS_COLUMNS: usize = 5;

/// Appends the row of an event, without a newline.
pub(crate) fn row(event: &Event, context: Context<'_>, to: &mut String) {
    if let Some(offset) = context.realtime_offset_ns {
        let us = (event.time_ns as i64).saturating_add(offset).div_euclid(1000);
        let _ = write!(to, "{}", Utc::from_us(us));
    }
    let mut line = Line(to);
    line.put(event.time_ns);
    line.put(event.kind);
    line.put(event.place);
    line.put(event.cookie);
    line.put(event.tgid);
    line.put(event.cpu);
    match event.open().or(context.connection) {
        Some(open) => line.ends(open),
        None => line.absent(END_COLUMNS),
    }
    line.details(event);
    match &event.body {
        Body::State(state) => line.state(state),
        Body::Sack(sack) => line.sack_state(sack),
        Body::Open(_) | Body::None => line.absent(STATE_COLUMNS),
    }
    match event.open() {
        Some(open) => line.whereabouts(open),
        None => line.absent(WHEREABOUTS_COLUMNS),
    }
    line.0.push(',');
    if let Some(sack) = event.sack() {
        let blocks = sack.blocks.iter().take(fields::sack_blocks(event.aux));
        let text: Vec<String> = blocks.map(|[left, right]| format!("{left}-{right}")).collect();
        line.0.push_str(&text.join(" "));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use bytemuck::Zeroable;
    use transom_event::{BodyKind, Kind, Place};

    fn event(kind: Kind, body: Body) -> Event {
        let (time_ns, cookie, tgid, cpu) = (1, 2, 3, 4);
        Event { time_ns, cookie, tgid, cpu, kind, place: Place::Ack, aux: [5, 6], body }
    }

    fn cells(event: &Event) -> Vec<String> {
        let mut line = String::new();
        row(event, Context::default(), &mut line);
        line.split(',').map(str::to_owned).collect()
    }

    #[test]
    fn every_kind_of_row_has_a_cell_under_every_name() {
        let names = header().split(',').count();
        for body in [
            Body::None,
            Body::State(State::zeroed()),
            Body::Open(Open::zeroed()),
            Body::Sack(Sack::zeroed()),
        ] {
            assert_eq!(cells(&event(Kind::Ack, body)).len(), names);
        }
    }

    /// Of each kind, at each place: what one format tells, the other does.
    #[test]
    fn a_line_of_json_has_what_a_row_has() {
        for (kind, place) in Kind::ALL.iter().flat_map(|k| Place::ALL.iter().map(move |p| (*k, *p)))
        {
            let body = match kind.body() {
                BodyKind::None => Body::None,
                BodyKind::State => Body::State(State::zeroed()),
                BodyKind::Open => {
                    Body::Open(Open { comm: [b'a'; 16], algorithm: [b'b'; 16], ..Open::zeroed() })
                }
                BodyKind::Sack => Body::Sack(Sack { blocks: [[8, 9]; 4], ..Sack::zeroed() }),
            };
            let event = Event { place, aux: [1, 1], ..event(kind, body) };
            let context = Context { realtime_offset_ns: Some(0), ..Context::default() };
            let mut line = String::new();
            row(&event, context, &mut line);
            let header = header();
            let in_row =
                header.split(',').zip(line.split(',')).filter(|(_, cell)| !cell.is_empty());
            let in_row: BTreeSet<&str> = in_row.map(|(name, _)| name).collect();
            let json = transom_event::text::value(&event, context);
            let in_json = json.as_object().unwrap().iter().filter(|(_, value)| !value.is_null());
            let in_json: BTreeSet<&str> = in_json.map(|(name, _)| name.as_str()).collect();
            assert_eq!(in_json, in_row, "{kind} at {place}");
        }
    }

    #[test]
    fn what_is_not_set_is_empty() {
        let state = State { ssthresh: SSTHRESH_UNSET, cwnd: 10, ..State::zeroed() };
        let cells = cells(&event(Kind::Ack, Body::State(state)));
        let cell =
            |name: &str| cells[header().split(',').position(|n| n == name).unwrap()].as_str();
        let named = ["time_utc", "time_ns", "kind", "place", "cookie", "acked_bytes", "cwnd"];
        assert_eq!(named.map(cell), ["", "1", "ack", "tcp_ack", "2", "5", "10"]);
        assert_eq!(["ssthresh", "local_addr", "payload_bytes"].map(cell), ["", "", ""]);
    }

    #[test]
    fn a_program_with_a_comma_in_its_name_is_quoted() {
        let mut comm = [0; 16];
        comm[..4].copy_from_slice(b"a,\"b");
        let mut line = String::new();
        let open = Open { comm, ..Open::zeroed() };
        row(&event(Kind::Open, Body::Open(open)), Context::default(), &mut line);
        assert!(line.contains(",\"a,\"\"b\","), "{line}");
    }
}
