//! Arrow columns, turned back into events.

use anyhow::{Context, Result, ensure};
use arrow_array::Array;
use arrow_array::RecordBatch;
use arrow_array::types::{Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_buffer::ScalarBuffer;
use bytemuck::Zeroable;
use transom_event::fields::Form;
use transom_event::{
    Body, BodyKind, CaState, Chrono, Event, Kind, Open, Place, Sack, State, TcpState, UNSET,
    WRITE_BLOCKED, flags,
};

use crate::cells::{Pairs, Texts, added_later, booleans, either, numbers, pairs, texts, words};
use crate::columns::SSTHRESH_UNSET;
use crate::identity;
use crate::schema::{DETAILS, Detail, FLAG_BITS, SACK_WORDS, STATE_WORDS};

/// The columns of one batch, by name, with nulls already turned into what the kernel writes.
pub(crate) struct Rows {
    time: ScalarBuffer<i64>,
    kind: Vec<u8>,
    place: Vec<u8>,
    cookie: ScalarBuffer<u64>,
    tgid: ScalarBuffer<u32>,
    cpu: ScalarBuffer<u16>,
    aux: Vec<[u32; 2]>,
    state: Vec<ScalarBuffer<u32>>,
    pacing: ScalarBuffer<u64>,
    mss: ScalarBuffer<u16>,
    ca_state: Vec<u8>,
    tcp_state: Vec<u8>,
    flags: Vec<u8>,
    backoff: ScalarBuffer<u8>,
    send_buffer: Vec<u16>,
    opens: Opens,
    sacks: Pairs,
}

struct Opens {
    local_addr: Texts,
    remote_addr: Texts,
    local_port: ScalarBuffer<u16>,
    remote_port: ScalarBuffer<u16>,
    netns: ScalarBuffer<u32>,
    ifindex: ScalarBuffer<u32>,
    family: ScalarBuffer<u16>,
    cgroup: ScalarBuffer<u64>,
    program: Texts,
    algorithm: Texts,
    mptcp: ScalarBuffer<u32>,
}

/// What an older file calls otherwise.
const FORMER: [(&str, &str); 2] = [("place", "where"), ("program", "comm")];

fn former(name: &'static str) -> &'static str {
    FORMER.iter().find(|(now, _)| *now == name).map_or(name, |(_, then)| then)
}

/// The two numbers of each row: as such in a recording, taken apart in the table.
fn aux(batch: &RecordBatch, kind: &[u8], place: &[u8], sacks: &Pairs) -> Result<Vec<[u32; 2]>> {
    if batch.column_by_name("aux0").is_some() {
        let first = numbers::<UInt32Type>(batch, "aux0", 0)?;
        let second = numbers::<UInt32Type>(batch, "aux1", 0)?;
        return Ok(first.iter().zip(&second).map(|(&a, &b)| [a, b]).collect());
    }
    let mut aux = vec![[0; 2]; kind.len()];
    for detail in DETAILS.iter() {
        // A file that others made of ours need not have all columns.
        let present = batch.column_by_name(detail.name).filter(|a| a.null_count() < a.len());
        if present.is_some() {
            add_detail(batch, detail, kind, place, &mut aux)?;
        }
    }
    for (row, aux) in aux.iter_mut().enumerate().filter(|(row, _)| kind[*row] == Kind::Sack as u8) {
        aux[0] = sacks.count(row) as u32;
    }
    Ok(aux)
}

fn add_detail(
    batch: &RecordBatch,
    detail: &Detail,
    kind: &[u8],
    place: &[u8],
    aux: &mut [[u32; 2]],
) -> Result<()> {
    let values: Vec<u32> = match detail.form {
        Form::Number => numbers::<UInt32Type>(batch, detail.name, 0)?.to_vec(),
        Form::Flag => {
            let set = booleans(batch, detail.name)?;
            (0..kind.len()).map(|row| u32::from(set.value(row))).collect()
        }
        Form::Word(of) => words(batch, detail.name, |word| (of.number)(word)?.try_into().ok())?
            .into_iter()
            .map(u32::from)
            .collect(),
    };
    for field in &detail.fields {
        for row in (0..kind.len()).filter(|&row| kind[row] == field.kind as u8) {
            let here = field.only.is_none_or(|(at, there)| (place[row] == at as u8) == there);
            if here {
                field.put(&mut aux[row], values[row]);
            }
        }
    }
    Ok(())
}

fn flags(batch: &RecordBatch) -> Result<Vec<u8>> {
    let chrono = words(batch, "chrono", |w| Chrono::from_name(w).map(|c| c as u8))?;
    let mut flags: Vec<u8> =
        chrono.into_iter().map(|chrono| (chrono & 3) << flags::CHRONO_SHIFT).collect();
    for (name, bit) in FLAG_BITS {
        for row in booleans(batch, name)?.set_indices() {
            flags[row] |= 1 << bit;
        }
    }
    Ok(flags)
}

/// `State::send_buffer` from its two columns, which older files do not have.
fn send_buffer(batch: &RecordBatch) -> Result<Vec<u16>> {
    let bytes = added_later(batch, "send_buffer")?;
    let kib = |bytes: &u32| u16::try_from(bytes >> 10).unwrap_or(u16::MAX) & !WRITE_BLOCKED;
    let mut buffers: Vec<u16> = bytes.iter().map(kib).collect();
    if batch.column_by_name("write_blocked").is_some() {
        for row in booleans(batch, "write_blocked")?.set_indices() {
            buffers[row] |= WRITE_BLOCKED;
        }
    }
    Ok(buffers)
}

impl Opens {
    fn of(batch: &RecordBatch) -> Result<Opens> {
        Ok(Opens {
            local_addr: texts(batch, "local_addr")?,
            remote_addr: texts(batch, "remote_addr")?,
            local_port: numbers::<UInt16Type>(batch, "local_port", 0)?,
            remote_port: numbers::<UInt16Type>(batch, "remote_port", 0)?,
            netns: numbers::<UInt32Type>(batch, "netns", 0)?,
            ifindex: numbers::<UInt32Type>(batch, "ifindex", 0)?,
            family: numbers::<UInt16Type>(batch, "family", 0)?,
            cgroup: numbers::<UInt64Type>(batch, "cgroup", 0)?,
            program: texts(batch, either(batch, "program", former("program")))?,
            algorithm: texts(batch, "algorithm")?,
            mptcp: added_later(batch, "mptcp")?,
        })
    }

    fn open(&self, row: usize) -> Result<Open> {
        let family = self.family[row];
        let address = |column: &Texts| {
            let text = column.get(row).unwrap_or_default();
            identity::address_bytes(text, family).with_context(|| format!("{text:?} is no address"))
        };
        let name = |column: &Texts| {
            let text = column.get(row).unwrap_or_default();
            identity::name_bytes(text).with_context(|| format!("{text:?} is no name of the kernel"))
        };
        Ok(Open {
            local_addr: address(&self.local_addr)?,
            remote_addr: address(&self.remote_addr)?,
            local_port: self.local_port[row],
            remote_port: self.remote_port[row],
            netns: self.netns[row],
            ifindex: self.ifindex[row],
            family,
            cgroup: self.cgroup[row],
            comm: name(&self.program)?,
            algorithm: name(&self.algorithm)?,
            mptcp: self.mptcp[row],
            ..Open::zeroed()
        })
    }
}

impl Rows {
    pub fn of(batch: &RecordBatch) -> Result<Rows> {
        let state = STATE_WORDS.map(|name| {
            let null = match name {
                "ssthresh" => SSTHRESH_UNSET,
                "clamp" | "min_rtt_us" | "mdev_us" => UNSET,
                _ => 0,
            };
            // Format 1 has the smoothed variance instead, which the kernel keeps from falling.
            if name == "mdev_us" && batch.column_by_name(name).is_none() {
                return Ok(vec![UNSET; batch.num_rows()].into());
            }
            numbers::<UInt32Type>(batch, name, null)
        });
        let kind = words(batch, "kind", |w| Kind::from_name(w).map(|k| k as u8))?;
        let at = either(batch, "place", former("place"));
        let place = words(batch, at, |w| Place::from_name(w).map(|p| p as u8))?;
        let edges = [["left_edge", "left"], ["right_edge", "right"]];
        let sacks = pairs(batch, "sack_blocks", edges)?;
        let rows = Rows {
            time: numbers::<Int64Type>(batch, "time_ns", 0)?,
            cookie: numbers::<UInt64Type>(batch, "cookie", 0)?,
            tgid: numbers::<UInt32Type>(batch, "tgid", 0)?,
            cpu: numbers::<UInt16Type>(batch, "cpu", 0)?,
            aux: aux(batch, &kind, &place, &sacks)?,
            kind,
            place,
            state: state.into_iter().collect::<Result<_>>()?,
            pacing: numbers::<UInt64Type>(batch, "pacing_rate", u64::MAX)?,
            mss: numbers::<UInt16Type>(batch, "mss", 0)?,
            ca_state: words(batch, "ca_state", |w| CaState::from_name(w).map(|s| s as u8))?,
            tcp_state: words(batch, "tcp_state", |w| TcpState::from_name(w).map(|s| s as u8))?,
            flags: flags(batch)?,
            backoff: numbers::<UInt8Type>(batch, "backoff", 0)?,
            send_buffer: send_buffer(batch)?,
            opens: Opens::of(batch)?,
            sacks,
        };
        ensure!(rows.time.len() == batch.num_rows(), "its columns differ in length");
        Ok(rows)
    }

    pub fn len(&self) -> usize {
        self.time.len()
    }

    /// The event of a row.
    ///
    /// # Errors
    /// If its numbers are not of the contract.
    pub fn event(&self, row: usize) -> Result<Event> {
        let number = self.kind[row];
        let kind =
            Kind::from_number(number.into()).with_context(|| format!("unknown kind {number}"))?;
        let number = self.place[row];
        let place =
            Place::from_number(number.into()).with_context(|| format!("unknown place {number}"))?;
        let body = match kind.body() {
            BodyKind::Open => Body::Open(self.opens.open(row)?),
            BodyKind::Sack => Body::Sack(self.sack(row)),
            BodyKind::State => Body::State(self.state(row)),
            BodyKind::None => Body::None,
        };
        Ok(Event {
            time_ns: self.time[row] as u64,
            cookie: self.cookie[row],
            tgid: self.tgid[row],
            cpu: self.cpu[row],
            kind,
            place,
            aux: self.aux[row],
            body,
        })
    }

    fn state(&self, row: usize) -> State {
        let mut state = State::zeroed();
        let words: &mut [u32; 24] = bytemuck::cast_mut(&mut state);
        for (word, column) in words.iter_mut().zip(&self.state) {
            *word = column[row];
        }
        State {
            pacing_rate: self.pacing[row],
            mss: self.mss[row],
            ca_state: self.ca_state[row],
            tcp_state: self.tcp_state[row],
            flags: self.flags[row],
            backoff: self.backoff[row],
            send_buffer: self.send_buffer[row],
            ..state
        }
    }

    fn sack(&self, row: usize) -> Sack {
        let mut sack = Sack::zeroed();
        for (block, pair) in sack.blocks.iter_mut().zip(self.sacks.get(row)) {
            *block = pair;
        }
        let words: &mut [u32; 24] = bytemuck::cast_mut(&mut sack);
        for (i, from) in SACK_WORDS.into_iter().enumerate() {
            words[8 + i] = self.state[from][row];
        }
        Sack { ca_state: self.ca_state[row], tcp_state: self.tcp_state[row], ..sack }
    }
}
