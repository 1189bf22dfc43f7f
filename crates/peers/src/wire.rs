//! A message as bytes, before it is sealed. `docs/peer.md` describes the form field by field.
//!
//! Numbers are LEB128 varints of 32 bits, in the shortest form only, so that equal messages are
//! equal bytes. There is no time in a message: counters order it, and the receiver's own clock says
//! when it came.

use crate::report::{Algorithm, Flow, MOST_FLOWS, MOST_NAME, Report, TerminalId, Treatment};

/// Sessions that one message asks to prove themselves, and that it answers, at most.
pub const MOST_ASKED: usize = 32;

/// Bytes of an unsealed message at most.
pub const MOST_BYTES: usize = 1100;

/// A random number that a terminal takes at each start; see [`crate::Group`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Session(pub u64);

impl Session {
    /// By this much a session is asked for.
    pub fn short(self) -> u32 {
        self.0 as u32
    }
}

/// An answer to the message with this counter of this session, in which its sender was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    pub session: Session,
    pub counter: u32,
}

/// What travels: a report, and the questions and answers that prove its sender alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub report: Report,
    /// Sessions that must prove that they are no recordings.
    pub asks: Vec<u32>,
    /// Whose question this answers.
    pub answers: Vec<Answer>,
}

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// They end too early, go on after the end, or hold a number in a form that is not used.
    Form,
    /// They hold a number that cannot be.
    Absurd(crate::report::Absurd),
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Malformed::Form => write!(f, "not in the form of a message"),
            Malformed::Absurd(absurd) => absurd.fmt(f),
        }
    }
}

mod bits {
    pub const LEAVING: u8 = 1;
    pub const DRY_RUN: u8 = 2;
    pub const OF_REPORT: u8 = LEAVING | DRY_RUN;

    pub const HUNGRY: u8 = 1;
    pub const UNSTABLE: u8 = 2;
    pub const STEADY: u8 = 4;
    pub const OF_FLOW: u8 = HUNGRY | UNSTABLE | STEADY;
}

fn put(to: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

/// The bytes of a message.
pub fn encode(message: &Message) -> Vec<u8> {
    let Message { report, asks, answers } = message;
    let mut to = Vec::with_capacity(96);
    let flag = |on: bool, bit: u8| if on { bit } else { 0 };
    to.push(flag(report.leaving, bits::LEAVING) | flag(report.dry_run, bits::DRY_RUN));
    to.extend(report.terminal.0);
    to.push(report.name.len() as u8);
    to.extend(report.name.as_bytes());
    put(&mut to, report.class.into());
    to.extend(report.rules.to_le_bytes());
    put(&mut to, report.air_kbit);
    to.push(asks.len() as u8);
    asks.iter().for_each(|short| to.extend(short.to_le_bytes()));
    to.push(answers.len() as u8);
    for answer in answers {
        to.extend(answer.session.0.to_le_bytes());
        to.extend(answer.counter.to_le_bytes());
    }
    to.push(report.flows.len() as u8);
    for flow in &report.flows {
        to.extend(flow.id.to_le_bytes());
        to.push(
            flag(flow.hungry, bits::HUNGRY)
                | flag(flow.unstable, bits::UNSTABLE)
                | flag(flow.treatment.algorithm == Algorithm::Steady, bits::STEADY),
        );
        put(&mut to, flow.cwnd);
        put(&mut to, flow.ssthresh.unwrap_or(0));
        put(&mut to, flow.srtt_us);
        put(&mut to, flow.min_rtt_us);
        put(&mut to, flow.mss.into());
        put(&mut to, flow.goodput_kbit);
        put(&mut to, flow.losses.into());
        to.push(flow.unsteady);
        put(&mut to, flow.treatment.cap.unwrap_or(0));
    }
    to
}

/// The message that these bytes are.
///
/// # Errors
/// When they are none, or one with a number that cannot be. All memory it takes is bounded by what
/// a message may hold, whatever the bytes claim.
pub fn decode(bytes: &[u8]) -> Result<Message, Malformed> {
    if bytes.len() > MOST_BYTES {
        return Err(Malformed::Form);
    }
    let mut from = Reader { rest: bytes };
    let message = from.message()?;
    if !from.rest.is_empty() {
        return Err(Malformed::Form);
    }
    message.report.check().map_err(Malformed::Absurd)?;
    Ok(message)
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(Malformed::Form)?;
        self.rest = rest;
        Ok(*taken)
    }

    fn byte(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    fn flags(&mut self, known: u8) -> Result<u8, Malformed> {
        let byte = self.byte()?;
        if byte & !known == 0 { Ok(byte) } else { Err(Malformed::Form) }
    }

    fn count(&mut self, most: usize) -> Result<usize, Malformed> {
        let count = usize::from(self.byte()?);
        if count <= most { Ok(count) } else { Err(Malformed::Form) }
    }

    fn varint(&mut self) -> Result<u32, Malformed> {
        let mut number = 0u32;
        for shift in (0..35).step_by(7) {
            let byte = self.byte()?;
            let value = u32::from(byte & 0x7f);
            let too_large = shift == 28 && value > 0xf;
            let not_shortest = byte == 0 && shift > 0;
            if too_large || not_shortest {
                return Err(Malformed::Form);
            }
            number |= value << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Malformed::Form)
    }

    fn short(&mut self) -> Result<u16, Malformed> {
        u16::try_from(self.varint()?).map_err(|_| Malformed::Form)
    }

    fn optional(&mut self) -> Result<Option<u32>, Malformed> {
        Ok(Some(self.varint()?).filter(|&number| number != 0))
    }

    fn name(&mut self) -> Result<String, Malformed> {
        let length = self.count(MOST_NAME)?;
        let (name, rest) = self.rest.split_at_checked(length).ok_or(Malformed::Form)?;
        self.rest = rest;
        String::from_utf8(name.to_vec()).map_err(|_| Malformed::Form)
    }

    fn many<T>(
        &mut self,
        most: usize,
        mut one: impl FnMut(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        (0..self.count(most)?).map(|_| one(self)).collect()
    }

    fn message(&mut self) -> Result<Message, Malformed> {
        let flags = self.flags(bits::OF_REPORT)?;
        let terminal = TerminalId(self.array()?);
        let name = self.name()?;
        let class = self.short()?;
        let rules = u32::from_le_bytes(self.array()?);
        let air_kbit = self.varint()?;
        let asks = self.many(MOST_ASKED, |from| Ok(u32::from_le_bytes(from.array()?)))?;
        let answers = self.many(MOST_ASKED, Reader::answer)?;
        let flows = self.many(MOST_FLOWS, Reader::flow)?;
        let report = Report {
            terminal,
            name,
            class,
            rules,
            air_kbit,
            leaving: flags & bits::LEAVING != 0,
            dry_run: flags & bits::DRY_RUN != 0,
            flows,
        };
        Ok(Message { report, asks, answers })
    }

    fn answer(&mut self) -> Result<Answer, Malformed> {
        let session = Session(u64::from_le_bytes(self.array()?));
        Ok(Answer { session, counter: u32::from_le_bytes(self.array()?) })
    }

    fn flow(&mut self) -> Result<Flow, Malformed> {
        let id = u32::from_le_bytes(self.array()?);
        let flags = self.flags(bits::OF_FLOW)?;
        let algorithm =
            if flags & bits::STEADY != 0 { Algorithm::Steady } else { Algorithm::Default };
        Ok(Flow {
            id,
            cwnd: self.varint()?,
            ssthresh: self.optional()?,
            srtt_us: self.varint()?,
            min_rtt_us: self.varint()?,
            mss: self.short()?,
            goodput_kbit: self.varint()?,
            losses: self.short()?,
            unsteady: self.byte()?,
            hungry: flags & bits::HUNGRY != 0,
            unstable: flags & bits::UNSTABLE != 0,
            treatment: Treatment { algorithm, cap: self.optional()? },
        })
    }
}
