//! A recording → Perfetto track events: per connection a track of what limited it, tracks of its
//! episodes, instants, and a counter for each curve.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use serde_json::Value;
use transom_analysis::{
    Analysis, CURVES, Connection, EpisodeKind, Mark, Recording, Series, WindowSide,
    analyse_connection,
};
use transom_event::{Kind, fields};

use crate::origin::Origin;
use crate::phrase::named;
use crate::protobuf::Message;
use crate::trackevent::{self, Notes, Track, Unit};

/// Writes the whole file.
///
/// # Errors
/// Those of `to`.
pub fn write(recording: &Recording, origin: &Origin, to: impl Write) -> io::Result<()> {
    let mut file = File { to, boot: origin.boot_id.as_bytes(), processes: BTreeSet::new() };
    file.clocks(recording, origin)?;
    file.recording(recording, origin)?;
    for connection in &recording.connections {
        file.connection(connection, &analyse_connection(connection, recording))?;
    }
    file.to.flush()
}

struct File<'a, W> {
    to: W,
    /// Part of the identity of every track, so that files of two machines can be joined.
    boot: &'a [u8],
    /// Those that have a track.
    processes: BTreeSet<u32>,
}

/// Ranks of the tracks of a connection: what the analysis says, what happened, the curves.
mod rank {
    pub const LIMITS: u64 = 0;
    pub const EPISODES: u64 = 1;
    pub const EVENTS: u64 = 100;
    pub const ACKS: u64 = 101;
    pub const COUNTERS: u64 = 200;
}

impl<W: Write> File<'_, W> {
    fn put(&mut self, packet: &Message) -> io::Result<()> {
        self.to.write_all(packet.bytes())
    }

    /// The identity of a track: the same in every file of the same boot.
    fn id(&self, cookie: u64, name: &str) -> u64 {
        // FNV-1a, 64 bits.
        let parts = [self.boot, &cookie.to_le_bytes(), name.as_bytes()];
        let hash = parts.into_iter().flatten().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        // 0 is the track of the whole trace.
        hash.max(1)
    }

    fn clocks(&mut self, recording: &Recording, origin: &Origin) -> io::Result<()> {
        let boot = recording.start_ns;
        let mut readings = vec![(trackevent::BOOTTIME, boot)];
        if origin.realtime_offset_ns != 0 {
            let wall = boot.saturating_add_signed(origin.realtime_offset_ns);
            readings.push((trackevent::REALTIME, wall));
        }
        self.put(&trackevent::clocks(&readings))
    }

    /// A track that says where the recording is from, with the events that it lacks.
    fn recording(&mut self, recording: &Recording, origin: &Origin) -> io::Result<()> {
        let id = self.id(0, "recording");
        let remark = origin.remark();
        let track =
            Track { id, parent: None, name: &origin.program, description: &remark, rank: 0 };
        self.put(&track.packet())?;
        for &(time_ns, cause, count) in &recording.lost {
            let notes = vec![("lost_count".to_owned(), Value::from(count))];
            self.put(&trackevent::instant(time_ns, id, &format!("lost {cause}"), &notes))?;
        }
        if origin.cut {
            self.put(&trackevent::instant(recording.end_ns, id, "the recording is cut", &vec![]))?;
        }
        Ok(())
    }

    fn connection(&mut self, connection: &Connection, analysis: &Analysis) -> io::Result<()> {
        let parent = self.process(connection)?;
        let cookie = connection.cookie;
        let name = match connection.endpoints() {
            Some(ends) => ends.to_string(),
            None => format!("cookie {cookie}"),
        };
        let verdict = analysis.verdict.text();
        let id = self.id(cookie, "");
        let track = Track { id, parent, name: &name, description: &verdict, rank: cookie };
        self.put(&track.packet())?;
        let notes = about(connection, analysis);
        self.put(&trackevent::begin(connection.begun_ns(), id, &name, &notes))?;
        self.put(&trackevent::end(connection.last_ns.max(connection.first_ns), id))?;
        self.limits(id, cookie, analysis)?;
        self.episodes(id, cookie, analysis)?;
        self.marks(id, cookie, &connection.marks)?;
        self.counters(id, cookie, &Series::of(connection))
    }

    /// The track of the process that owns the connection.
    fn process(&mut self, connection: &Connection) -> io::Result<Option<u64>> {
        let pid = connection.tgid;
        if pid == 0 {
            return Ok(None);
        }
        let id = self.id(pid.into(), "process");
        if self.processes.insert(pid) {
            self.put(&trackevent::process(id, pid, &connection.program()))?;
        }
        Ok(Some(id))
    }

    fn child(&mut self, parent: u64, cookie: u64, name: &str, rank: u64) -> io::Result<u64> {
        let id = self.id(cookie, name);
        let track = Track { id, parent: Some(parent), name, description: "", rank };
        self.put(&track.packet())?;
        Ok(id)
    }

    /// What held the sender back at every moment.
    fn limits(&mut self, parent: u64, cookie: u64, analysis: &Analysis) -> io::Result<()> {
        let id = self.child(parent, cookie, "limited by", rank::LIMITS)?;
        for span in &analysis.limits.spans {
            self.put(&trackevent::begin(span.start_ns, id, span.limit.label(), &vec![]))?;
            self.put(&trackevent::end(span.end_ns, id))?;
        }
        Ok(())
    }

    /// Each kind on a track of its own, because slices of one track must not overlap.
    fn episodes(&mut self, parent: u64, cookie: u64, analysis: &Analysis) -> io::Result<()> {
        let mut lanes: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for episode in &analysis.episodes {
            let (kind, notes) = described(&episode.kind);
            let mut lane = kind.clone();
            while lanes.get(&lane).is_some_and(|&(_, end_ns)| end_ns > episode.start_ns) {
                lane.push('\'');
            }
            let id = match lanes.get(&lane) {
                Some(&(id, _)) => id,
                None => {
                    let rank = rank::EPISODES + lanes.len() as u64;
                    self.child(parent, cookie, &lane, rank)?
                }
            };
            lanes.insert(lane, (id, episode.end_ns));
            self.put(&trackevent::begin(episode.start_ns, id, &kind, &notes))?;
            self.put(&trackevent::end(episode.end_ns.max(episode.start_ns), id))?;
        }
        Ok(())
    }

    fn marks(&mut self, parent: u64, cookie: u64, marks: &[Mark]) -> io::Result<()> {
        let of_acks = |mark: &&Mark| matches!(mark.kind, Kind::DupAck | Kind::Sack);
        let (acks, events): (Vec<&Mark>, Vec<&Mark>) = marks.iter().partition(of_acks);
        let tracks =
            [("events", rank::EVENTS, events), ("duplicate ACKs and SACK", rank::ACKS, acks)];
        for (name, rank, marks) in tracks {
            if marks.is_empty() {
                continue;
            }
            let id = self.child(parent, cookie, name, rank)?;
            for mark in marks {
                let (name, notes) = happened(mark);
                self.put(&trackevent::instant(mark.time_ns, id, &name, &notes))?;
            }
        }
        Ok(())
    }

    /// One counter per curve, a value where it changed.
    fn counters(&mut self, parent: u64, cookie: u64, series: &Series) -> io::Result<()> {
        for (curve, column) in CURVES.into_iter().enumerate() {
            let values = series.samples.iter().map(|s| (s.time_ns, s.curves()[curve]));
            let rank = rank::COUNTERS + curve as u64;
            self.counter(parent, cookie, column, rank, values)?;
        }
        for (at, name) in ["sent", "acked", "received"].into_iter().enumerate() {
            let values = series.samples.iter().map(|s| {
                let sums = [s.sent, s.acked, s.received];
                (s.time_ns, Some(sums[at]))
            });
            let rank = rank::COUNTERS + (CURVES.len() + at) as u64;
            self.counter(parent, cookie, name, rank, values)?;
        }
        Ok(())
    }

    fn counter(
        &mut self,
        parent: u64,
        cookie: u64,
        column: &str,
        rank: u64,
        values: impl Iterator<Item = (u64, Option<u64>)>,
    ) -> io::Result<()> {
        let (name, unit) = unit(column);
        let id = self.id(cookie, column);
        let mut last = None;
        for (time_ns, value) in values {
            let Some(value) = value.filter(|&value| last != Some(value)) else { continue };
            if last.is_none() {
                let track = Track { id, parent: Some(parent), name, description: "", rank };
                self.put(&track.counter(unit))?;
            }
            last = Some(value);
            self.put(&trackevent::count(time_ns, id, value))?;
        }
        Ok(())
    }
}

/// The name of a counter and the unit of its numbers.
fn unit(column: &str) -> (&str, Unit) {
    if let Some(name) = column.strip_suffix("_us") {
        return (name, Unit::Microseconds);
    }
    match column {
        "cwnd" | "ssthresh" | "in_flight" | "clamp" | "snd_wnd" => {
            (column, Unit::Named("segments"))
        }
        "pacing_rate" => (column, Unit::Named("bytes/s")),
        _ => (column, Unit::Bytes),
    }
}

/// What is said of a whole connection.
fn about(connection: &Connection, analysis: &Analysis) -> Notes {
    let texts = [
        ("verdict", analysis.verdict.text()),
        ("program", connection.program()),
        ("algorithm", connection.algorithm()),
    ];
    let numbers = [
        ("cookie", connection.cookie),
        ("acked_bytes", analysis.summary.acked),
        ("received_bytes", analysis.summary.received),
    ];
    let texts = texts.into_iter().filter(|(_, text)| !text.is_empty());
    let texts = texts.map(|(name, text)| (name.to_owned(), Value::from(text)));
    let numbers = numbers.into_iter().map(|(name, number)| (name.to_owned(), Value::from(number)));
    texts.chain(numbers).collect()
}

/// An episode in words and its numbers.
fn described(kind: &EpisodeKind) -> (String, Notes) {
    let name = match kind {
        EpisodeKind::SlowStart { .. } => "slow start",
        EpisodeKind::FastRecovery { .. } => "fast recovery",
        EpisodeKind::Timeout { .. } => "timeout",
        EpisodeKind::Resend { .. } => "sent again",
        EpisodeKind::IdleRestart { .. } => "idle restart",
        EpisodeKind::CwndValidation { .. } => "cwnd validation",
        EpisodeKind::WindowCollapse { .. } => "window collapse",
        EpisodeKind::ZeroWindow { by: WindowSide::Other } => "zero window of the other side",
        EpisodeKind::ZeroWindow { by: WindowSide::Here } => "zero window of this side",
        EpisodeKind::Saturated { .. } => "saturated",
    };
    let notes = match serde_json::to_value(kind) {
        Ok(Value::Object(map)) => map.into_iter().filter(|(key, _)| key != "episode").collect(),
        _ => Notes::new(),
    };
    (name.to_owned(), notes)
}

/// An instant: its kind with the word that tells most, and all fields.
fn happened(mark: &Mark) -> (String, Notes) {
    let mut name = mark.kind.name().to_owned();
    let mut notes = Notes::new();
    let mut word = None;
    for (field, value) in fields::of(mark.kind, mark.place, mark.aux) {
        let value = match value {
            fields::Value::Number(number) => number.into(),
            fields::Value::Flag(flag) => flag.into(),
            fields::Value::Word(text) => {
                // Of an old and a new state the last one, the new.
                word = Some(text);
                text.into()
            }
        };
        notes.push((field.to_owned(), value));
    }
    if let Some(word) = word {
        name = format!("{name} {word}");
    }
    if let Some((field, text)) = named(mark.kind, mark.aux, &mark.body) {
        if mark.kind == Kind::Algorithm {
            name = format!("{name} {text}");
        }
        notes.push((field.to_owned(), text.into()));
    }
    (name, notes)
}
