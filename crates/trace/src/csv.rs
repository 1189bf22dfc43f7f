//! CSV (RFC 4180) with the columns of the trace; what is not there is empty.

use std::fmt::{Display, Write};

use transom_event::{Body, CaState, Event, Open, Sack, State, TcpState};

use crate::columns::SSTHRESH_UNSET;
use crate::identity;
use crate::schema::{FLAG_BITS, SACK_WORDS, STATE_WORDS, columns};

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

    fn open(&mut self, open: &Open) {
        self.put(identity::address(&open.local_addr, open.family));
        self.put(identity::address(&open.remote_addr, open.family));
        self.put(open.local_port);
        self.put(open.remote_port);
        self.put(open.netns);
        self.put(open.ifindex);
        self.put(open.family);
        self.put(open.cgroup);
        self.quoted(&identity::name(&open.comm));
        self.quoted(&identity::name(&open.algorithm));
        self.maybe((open.mptcp != 0).then_some(open.mptcp));
    }
}

const STATE_COLUMNS: usize = STATE_WORDS.len() + 8 + FLAG_BITS.len();
const OPEN_COLUMNS: usize = 11;

/// Appends the row of an event, without a newline.
pub(crate) fn row(event: &Event, to: &mut String) {
    let _ = write!(to, "{}", event.time_ns);
    let mut line = Line(to);
    line.put(event.kind);
    line.put(event.place);
    line.put(event.cookie);
    line.put(event.tgid);
    line.put(event.cpu);
    line.put(event.aux[0]);
    line.put(event.aux[1]);
    match &event.body {
        Body::State(state) => line.state(state),
        Body::Sack(sack) => line.sack_state(sack),
        Body::Open(_) | Body::None => line.absent(STATE_COLUMNS),
    }
    match event.open() {
        Some(open) => line.open(open),
        None => line.absent(OPEN_COLUMNS),
    }
    line.0.push(',');
    if let Some(sack) = event.sack() {
        let blocks = sack.blocks.iter().take(event.aux[0] as usize);
        let text: Vec<String> = blocks.map(|[left, right]| format!("{left}-{right}")).collect();
        line.0.push_str(&text.join(" "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytemuck::Zeroable;
    use transom_event::{Kind, Place};

    fn event(kind: Kind, body: Body) -> Event {
        let (time_ns, cookie, tgid, cpu) = (1, 2, 3, 4);
        Event { time_ns, cookie, tgid, cpu, kind, place: Place::Ack, aux: [5, 6], body }
    }

    fn cells(event: &Event) -> Vec<String> {
        let mut line = String::new();
        row(event, &mut line);
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

    #[test]
    fn what_is_not_set_is_empty() {
        let state = State { ssthresh: SSTHRESH_UNSET, cwnd: 10, ..State::zeroed() };
        let cells = cells(&event(Kind::Ack, Body::State(state)));
        assert_eq!(&cells[..10], ["1", "ack", "tcp_ack", "2", "3", "4", "5", "6", "10", ""]);
    }

    #[test]
    fn a_program_with_a_comma_in_its_name_is_quoted() {
        let mut comm = [0; 16];
        comm[..4].copy_from_slice(b"a,\"b");
        let mut line = String::new();
        row(&event(Kind::Open, Body::Open(Open { comm, ..Open::zeroed() })), &mut line);
        assert!(line.contains(",\"a,\"\"b\","), "{line}");
    }
}
