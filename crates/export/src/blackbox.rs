//! Events → pcapng in the form of FreeBSD's TCP Black Box Log, in the order in which they come.

use std::io::{self, Write};

use transom_analysis::is_timeout;
use transom_event::{
    Body, CaState, Connections, Event, Kind, LossCause, Open, Sack, State, fields,
};

use crate::bblog::{self, Id, Record};
use crate::origin::Origin;
use crate::pcapng::{self, Block};
use crate::phrase::phrase;

/// A packet that passed an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// CLOCK_BOOTTIME, ns.
    pub time_ns: u64,
    /// Which of the file's interfaces it passed.
    pub interface: u32,
    /// It left by the interface; in the file, its connection sent it.
    pub outgoing: bool,
    /// Bytes from the IP header on, before it was cut.
    pub length: u32,
    pub bytes: Vec<u8>,
}

/// Writes a pcapng file that Wireshark reads.
pub struct BlackBox<W> {
    to: W,
    offset_ns: i64,
    /// Whole µs that readers add to the times of the records.
    offset_us: i64,
    connections: Connections<Known>,
    serial: u32,
}

/// Decimal places of the second in the times of packets.
const DECIMALS: u8 = 9;

/// What is remembered of a connection.
#[derive(Default)]
struct Known {
    name: String,
    scaling: Option<[u32; 2]>,
    /// After the last event, and the number of that event.
    state: Option<State>,
    serial: u32,
    /// Events that had no state yet to be written with.
    waiting: Vec<String>,
}

impl<W: Write> BlackBox<W> {
    /// Begins a file of events.
    ///
    /// # Errors
    /// Those of `to`.
    pub fn new(to: W, origin: &Origin) -> io::Result<BlackBox<W>> {
        BlackBox::with_interfaces(to, origin, &[])
    }

    /// Begins a file that has the packets of these interfaces, too.
    ///
    /// # Errors
    /// Those of `to`.
    pub fn with_interfaces(
        mut to: W,
        origin: &Origin,
        names: &[String],
    ) -> io::Result<BlackBox<W>> {
        let offset_us = origin.realtime_offset_ns.div_euclid(1000);
        let mut section = Block::section_header();
        section.text(pcapng::COMMENT, &origin.remark());
        section.text(pcapng::SECTION_OS, &format!("Linux {}", origin.kernel));
        section.text(pcapng::SECTION_PROGRAM, &origin.program);
        custom(&mut section, bblog::VERSION_OPTION, &bblog::VERSION.to_le_bytes());
        custom(&mut section, bblog::DUMP_OPTION, &bblog::dump(offset_us, &origin.host));
        to.write_all(&section.end())?;
        if names.is_empty() {
            // Without any, tshark stops where it prints the first time: the resolution is unknown.
            let mut interface = Block::interface(pcapng::RAW_IP, 0, 6);
            interface.text(pcapng::INTERFACE_DESCRIPTION, "events only, no packets");
            to.write_all(&interface.end())?;
        }
        for name in names {
            let mut interface = Block::interface(pcapng::RAW_IP, 0, DECIMALS);
            interface.text(pcapng::INTERFACE_NAME, name);
            to.write_all(&interface.end())?;
        }
        Ok(BlackBox {
            to,
            offset_ns: origin.realtime_offset_ns,
            offset_us,
            connections: Connections::default(),
            serial: 0,
        })
    }

    /// Adds an event.
    ///
    /// # Errors
    /// Those of the file.
    pub fn push(&mut self, event: &Event) -> io::Result<()> {
        match event.kind {
            Kind::Lost => return self.skipped(event),
            Kind::Open => self.connections.open(event.cookie),
            _ => {}
        }
        let known = self.connections.get_or(event.cookie, Known::default);
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
        (known.state, known.serial) = (Some(state), self.serial);
        let mut comments = std::mem::take(&mut known.waiting);
        comments.push(line);
        let scaling = known.scaling;
        if event.kind == Kind::Close {
            self.connections.close(event.cookie);
        }
        self.event(event, &state, scaling, &comments)
    }

    /// Adds a packet, with the state of its connection at the event before and the number of that
    /// event.
    ///
    /// # Errors
    /// Those of the file.
    pub fn packet(&mut self, packet: &Packet, cookie: u64) -> io::Result<()> {
        let wall_ns = packet.time_ns.cast_signed().saturating_add(self.offset_ns).max(0);
        let Packet { interface, length, ref bytes, .. } = *packet;
        let mut block = Block::packet(interface, wall_ns.cast_unsigned(), length, bytes);
        let direction: u32 = if packet.outgoing { 2 } else { 1 };
        block.option(pcapng::PACKET_FLAGS, &[&direction.to_le_bytes()]);
        let known = self.connections.get(cookie);
        // Wireshark takes the shift counts from the record: one that lacks them would be wrong.
        let state = known.and_then(|known| Some((known.serial, known.state?, known.scaling?)));
        if let Some((serial, state, scaling)) = state {
            let record = Record {
                time_us: self.time_us(packet.time_ns),
                serial,
                id: if packet.outgoing { Id::Out } else { Id::In },
                errno: 0,
                state: &state,
                scaling: Some(scaling),
                dup_acks: 0,
                flex: [0; 2],
                payload: 0,
            };
            custom(&mut block, bblog::STATE_OPTION, &record.bytes());
        }
        self.to.write_all(&block.end())
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
            // Readers take them for the number of the timer and what became of it: 0, the
            // retransmission timer, and 0, it expired.
            flex: if id == Id::Rto { [0; 2] } else { event.aux },
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

    /// Events that the recording lacks. Segments that left unseen are none: the comment has their number.
    fn skipped(&mut self, event: &Event) -> io::Result<()> {
        let (cause, number) = fields::lost(event.aux);
        let is_of_segments = cause.is_some_and(LossCause::counts_segments);
        let mut block = Block::new(pcapng::CUSTOM);
        block.u32(bblog::ENTERPRISE);
        block.u32(bblog::SKIPPED_BLOCK);
        block.u32(if is_of_segments { 0 } else { number });
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
        Kind::Rto if is_timeout(event.aux) => Id::Rto,
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
    let phrase = phrase(event.kind, event.place, event.aux, &event.body);
    if name.is_empty() { phrase } else { format!("{name}: {phrase}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transom_event::Place;

    #[test]
    fn the_reset_that_a_close_sends_has_the_name_and_the_state_of_its_connection() {
        let event = |cookie, kind| {
            let body = match kind {
                Kind::Open => Body::Open(Open { family: 2, local_port: 4711, ..Open::default() }),
                Kind::Reset => Body::None,
                _ => Body::State(State::default()),
            };
            let place = Place::SetState;
            Event { time_ns: 7, cookie, tgid: 1, cpu: 0, kind, place, aux: [1, 0], body }
        };
        let mut file = BlackBox::new(Vec::new(), &Origin::default()).unwrap();
        for (cookie, kind) in [(7, Kind::Open), (7, Kind::Close), (8, Kind::Ack), (7, Kind::Reset)]
        {
            file.push(&event(cookie, kind)).unwrap();
        }
        let text = String::from_utf8_lossy(&file.finish().unwrap()).into_owned();
        assert_eq!(text.matches("0.0.0.0:4711 > 0.0.0.0:0").count(), 3, "{text}");
        assert!(!text.contains("cookie 7"), "{text}");
    }
}
