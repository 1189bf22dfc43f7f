//! Events → pcapng in the form of FreeBSD's TCP Black Box Log, in the order in which they come.

use std::collections::HashMap;
use std::io::{self, Write};

use transom_event::{Body, CaState, Event, Kind, Open, Sack, State, fields};

use crate::bblog::{self, Id, Record};
use crate::origin::Origin;
use crate::pcapng::{self, Block};
use crate::phrase::phrase;

/// Writes a pcapng file that Wireshark reads.
pub struct BlackBox<W> {
    to: W,
    offset_ns: i64,
    /// Whole µs that readers add to the times of the records.
    offset_us: i64,
    connections: HashMap<u64, Known>,
    /// Forgotten at the next event.
    closed: Option<u64>,
    serial: u32,
}

/// What is remembered of a connection.
#[derive(Default)]
struct Known {
    name: String,
    scaling: Option<[u32; 2]>,
    state: Option<State>,
    /// Events that had no state yet to be written with.
    waiting: Vec<String>,
}

impl<W: Write> BlackBox<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// Those of `to`.
    pub fn new(mut to: W, origin: &Origin) -> io::Result<BlackBox<W>> {
        let offset_us = origin.realtime_offset_ns.div_euclid(1000);
        let mut section = Block::section_header();
        section.text(pcapng::COMMENT, &origin.remark());
        section.text(pcapng::SECTION_OS, &format!("Linux {}", origin.kernel));
        section.text(pcapng::SECTION_PROGRAM, &origin.program);
        custom(&mut section, bblog::VERSION_OPTION, &bblog::VERSION.to_le_bytes());
        custom(&mut section, bblog::DUMP_OPTION, &bblog::dump(offset_us, &origin.host));
        to.write_all(&section.end())?;
        // Without one, tshark stops where it prints the first time: the resolution is unknown.
        let mut interface = Block::interface(pcapng::RAW_IP, 0, 6);
        interface.text(pcapng::INTERFACE_DESCRIPTION, "events only, no packets");
        to.write_all(&interface.end())?;
        Ok(BlackBox {
            to,
            offset_ns: origin.realtime_offset_ns,
            offset_us,
            connections: HashMap::new(),
            closed: None,
            serial: 0,
        })
    }

    /// Adds an event.
    ///
    /// # Errors
    /// Those of the file.
    pub fn push(&mut self, event: &Event) -> io::Result<()> {
        if let Some(cookie) = self.closed.take_if(|cookie| *cookie != event.cookie) {
            self.connections.remove(&cookie);
        }
        if event.kind == Kind::Lost {
            return self.skipped(event);
        }
        let known = self.connections.entry(event.cookie).or_default();
        if known.name.is_empty() {
            known.name = format!("cookie {}", event.cookie);
        }
        if let Body::Open(open) = &event.body {
            known.learn(event, open);
        }
        let line = comment(&known.name, event);
        let state = match &event.body {
            Body::State(state) => Some(*state),
            Body::Sack(sack) => known.state.map(|last| met_by(&last, sack)),
            // It changes no number that the connection had.
            _ => known.state,
        };
        let Some(state) = state else {
            known.waiting.push(line);
            return Ok(());
        };
        known.state = Some(state);
        if event.kind == Kind::Close {
            self.closed = Some(event.cookie);
        }
        let mut comments = std::mem::take(&mut known.waiting);
        comments.push(line);
        let scaling = known.scaling;
        self.event(event, &state, scaling, &comments)
    }

    /// Ends the file.
    ///
    /// # Errors
    /// Those of the file.
    pub fn finish(mut self) -> io::Result<W> {
        self.to.flush()?;
        Ok(self.to)
    }

    fn event(
        &mut self,
        event: &Event,
        state: &State,
        scaling: Option<[u32; 2]>,
        comments: &[String],
    ) -> io::Result<()> {
        let id = id(event);
        let record = Record {
            time_us: self.time_us(event.time_ns),
            serial: self.serial,
            id,
            errno: if id == Id::NoBuffers { bblog::ENOBUFS } else { 0 },
            state,
            scaling,
            dup_acks: if event.kind == Kind::DupAck { fields::in_a_row(event.aux) } else { 0 },
            flex: event.aux,
            payload: if event.kind == Kind::Send { fields::sent(event.aux).0 } else { 0 },
        };
        self.serial = self.serial.wrapping_add(1);
        let mut block = Block::new(pcapng::CUSTOM);
        block.u32(bblog::ENTERPRISE);
        block.u32(bblog::EVENT_BLOCK);
        for comment in comments {
            block.text(pcapng::COMMENT, comment);
        }
        custom(&mut block, bblog::STATE_OPTION, &record.bytes());
        self.to.write_all(&block.end())
    }

    /// Events that the recording lacks.
    fn skipped(&mut self, event: &Event) -> io::Result<()> {
        let mut block = Block::new(pcapng::CUSTOM);
        block.u32(bblog::ENTERPRISE);
        block.u32(bblog::SKIPPED_BLOCK);
        block.u32(fields::lost(event.aux).1);
        block.text(pcapng::COMMENT, &comment("", event));
        self.to.write_all(&block.end())
    }

    /// With the offset that readers add, the wall time in whole µs.
    fn time_us(&self, time_ns: u64) -> u64 {
        let wall_us = time_ns.cast_signed().saturating_add(self.offset_ns).div_euclid(1000);
        wall_us.saturating_sub(self.offset_us).max(0).cast_unsigned()
    }
}

impl Known {
    fn learn(&mut self, event: &Event, open: &Open) {
        let ends = open.endpoints();
        self.name = match open.program() {
            program if program.is_empty() => ends.to_string(),
            program => format!("{ends} {program}"),
        };
        if event.kind == Kind::Open {
            self.scaling = fields::window_scaling(event.aux);
        }
    }
}

/// Adds a custom option, its value after the enterprise number and its own type.
fn custom(block: &mut Block, kind: u32, value: &[u8]) {
    let (enterprise, kind) = (bblog::ENTERPRISE.to_le_bytes(), kind.to_le_bytes());
    block.option(pcapng::CUSTOM_BINARY, &[&enterprise, &kind, value]);
}

/// The event of FreeBSD that happens at the same place in its TCP.
fn id(event: &Event) -> Id {
    match event.kind {
        Kind::Ack => Id::In,
        Kind::Send | Kind::Retransmit => Id::Out,
        Kind::Rto => Id::Rto,
        Kind::LocalCongestion => Id::NoBuffers,
        Kind::Close => Id::ConnectionEnd,
        Kind::CaState => match fields::ca_states(event.aux) {
            [_, Some(CaState::Recovery | CaState::Loss)] => Id::EnterRecovery,
            [Some(CaState::Recovery | CaState::Loss), _] => Id::ExitRecovery,
            _ => Id::Cwnd,
        },
        _ => Id::User,
    }
}

/// The state that a segment with SACK blocks met: the trace has these of its numbers.
fn met_by(last: &State, sack: &Sack) -> State {
    State {
        cwnd: sack.cwnd,
        ssthresh: sack.ssthresh,
        snd_una: sack.snd_una,
        snd_nxt: sack.snd_nxt,
        packets_out: sack.packets_out,
        sacked_out: sack.sacked_out,
        lost_out: sack.lost_out,
        retrans_out: sack.retrans_out,
        ca_state: sack.ca_state,
        tcp_state: sack.tcp_state,
        ..*last
    }
}

/// One line that says of an event what the state record cannot: whose it is, its kind, its fields.
fn comment(name: &str, event: &Event) -> String {
    let phrase = phrase(event.kind, event.place, event.aux);
    if name.is_empty() { phrase } else { format!("{name}: {phrase}") }
}
