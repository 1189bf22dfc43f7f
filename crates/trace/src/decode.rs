//! Arrow columns, turned back into events.

use anyhow::{Context, Result, anyhow, ensure};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ListArray, RecordBatch, StringArray};
use arrow_buffer::{BooleanBuffer, ScalarBuffer};
use bytemuck::Zeroable;
use transom_event::{
    Body, CaState, Chrono, Event, Kind, Open, Place, Sack, State, UNSET, WRITE_BLOCKED, flags,
};

use crate::columns::{BODY_OF, BodyKind, SSTHRESH_UNSET};
use crate::identity;
use crate::schema::{FLAG_BITS, SACK_WORDS, STATE_WORDS};

/// The columns of one batch, by name, with nulls already turned into what the kernel writes.
pub(crate) struct Rows {
    time: ScalarBuffer<i64>,
    kind: Vec<u8>,
    place: Vec<u8>,
    cookie: ScalarBuffer<u64>,
    tgid: ScalarBuffer<u32>,
    cpu: ScalarBuffer<u16>,
    aux: [ScalarBuffer<u32>; 2],
    state: Vec<ScalarBuffer<u32>>,
    pacing: ScalarBuffer<u64>,
    mss: ScalarBuffer<u16>,
    ca_state: Vec<u8>,
    tcp_state: Vec<u8>,
    flags: Vec<u8>,
    backoff: ScalarBuffer<u8>,
    send_buffer: Vec<u16>,
    opens: Opens,
    sacks: Sacks,
}

struct Opens {
    local_addr: StringArray,
    remote_addr: StringArray,
    local_port: ScalarBuffer<u16>,
    remote_port: ScalarBuffer<u16>,
    netns: ScalarBuffer<u32>,
    ifindex: ScalarBuffer<u32>,
    family: ScalarBuffer<u16>,
    cgroup: ScalarBuffer<u64>,
    comm: StringArray,
    algorithm: StringArray,
    mptcp: ScalarBuffer<u32>,
}

struct Sacks {
    list: ListArray,
    left: ScalarBuffer<u32>,
    right: ScalarBuffer<u32>,
}

fn column<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a dyn Array> {
    batch
        .column_by_name(name)
        .map(AsRef::as_ref)
        .with_context(|| format!("column {name} is missing"))
}

fn wrong(name: &str, array: &dyn Array) -> anyhow::Error {
    anyhow!("column {name} has the unexpected type {}", array.data_type())
}

fn numbers<T: ArrowPrimitiveType>(
    batch: &RecordBatch,
    name: &str,
    null: T::Native,
) -> Result<ScalarBuffer<T::Native>> {
    let array = column(batch, name)?;
    let array = array.as_primitive_opt::<T>().ok_or_else(|| wrong(name, array))?;
    if array.null_count() == 0 {
        return Ok(array.values().clone());
    }
    Ok(array.iter().map(|value| value.unwrap_or(null)).collect())
}

/// A column that older files do not have: all of it 0 there.
fn added_later(batch: &RecordBatch, name: &str) -> Result<ScalarBuffer<u32>> {
    if batch.column_by_name(name).is_none() {
        return Ok(vec![0; batch.num_rows()].into());
    }
    numbers::<UInt32Type>(batch, name, 0)
}

fn text(batch: &RecordBatch, name: &str) -> Result<StringArray> {
    let array = column(batch, name)?;
    Ok(array.as_string_opt::<i32>().ok_or_else(|| wrong(name, array))?.clone())
}

/// A column of words as the numbers of the contract; null is 0.
fn words(batch: &RecordBatch, name: &str, number: impl Fn(&str) -> Option<u8>) -> Result<Vec<u8>> {
    let array = column(batch, name)?;
    let array = array.as_dictionary_opt::<UInt8Type>().ok_or_else(|| wrong(name, array))?;
    let values = array.values();
    let values = values.as_string_opt::<i32>().ok_or_else(|| wrong(name, values.as_ref()))?;
    let known: Vec<Option<u8>> =
        values.iter().map(|word| word.and_then(|w| number(w).or_else(|| w.parse().ok()))).collect();
    let decode = |key: Option<u8>| match key {
        None => Ok(0),
        Some(key) => known.get(usize::from(key)).copied().flatten().with_context(|| {
            let word = if usize::from(key) < values.len() { values.value(key.into()) } else { "?" };
            format!("column {name} holds {word:?}, which this program does not know")
        }),
    };
    array.keys().iter().map(decode).collect()
}

/// The rows in which a column of booleans is true.
fn set_rows(name: &str, array: &dyn Array) -> Result<BooleanBuffer> {
    let array = array.as_boolean_opt().ok_or_else(|| wrong(name, array))?;
    let set = array.values();
    Ok(array.nulls().map_or_else(|| set.clone(), |nulls| set & nulls.inner()))
}

fn flags(batch: &RecordBatch) -> Result<Vec<u8>> {
    let chrono = words(batch, "chrono", |w| Chrono::from_name(w).map(|c| c as u8))?;
    let mut flags: Vec<u8> =
        chrono.into_iter().map(|chrono| (chrono & 3) << flags::CHRONO_SHIFT).collect();
    for (name, bit) in FLAG_BITS {
        for row in set_rows(name, column(batch, name)?)?.set_indices() {
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
    if let Some(array) = batch.column_by_name("write_blocked") {
        for row in set_rows("write_blocked", array)?.set_indices() {
            buffers[row] |= WRITE_BLOCKED;
        }
    }
    Ok(buffers)
}

impl Sacks {
    fn of(batch: &RecordBatch) -> Result<Sacks> {
        let array = column(batch, "sack_blocks")?;
        let list = array.as_list_opt::<i32>().ok_or_else(|| wrong("sack_blocks", array))?;
        let blocks = list.values();
        let blocks = blocks.as_struct_opt().ok_or_else(|| wrong("sack_blocks", array))?;
        let edge = |name: &str| {
            let edge = blocks.column_by_name(name).and_then(|e| e.as_primitive_opt::<UInt32Type>());
            edge.map(|edge| edge.values().clone()).ok_or_else(|| wrong("sack_blocks", array))
        };
        Ok(Sacks { left: edge("left")?, right: edge("right")?, list: list.clone() })
    }

    fn blocks(&self, row: usize) -> [[u32; 2]; 4] {
        let mut blocks = [[0; 2]; 4];
        if self.list.is_valid(row) {
            let offsets = self.list.value_offsets();
            let range = offsets[row] as usize..offsets[row + 1] as usize;
            for (block, i) in blocks.iter_mut().zip(range) {
                *block = [self.left[i], self.right[i]];
            }
        }
        blocks
    }
}

impl Opens {
    fn of(batch: &RecordBatch) -> Result<Opens> {
        Ok(Opens {
            local_addr: text(batch, "local_addr")?,
            remote_addr: text(batch, "remote_addr")?,
            local_port: numbers::<UInt16Type>(batch, "local_port", 0)?,
            remote_port: numbers::<UInt16Type>(batch, "remote_port", 0)?,
            netns: numbers::<UInt32Type>(batch, "netns", 0)?,
            ifindex: numbers::<UInt32Type>(batch, "ifindex", 0)?,
            family: numbers::<UInt16Type>(batch, "family", 0)?,
            cgroup: numbers::<UInt64Type>(batch, "cgroup", 0)?,
            comm: text(batch, "comm")?,
            algorithm: text(batch, "algorithm")?,
            mptcp: added_later(batch, "mptcp")?,
        })
    }

    fn open(&self, row: usize) -> Result<Open> {
        let family = self.family[row];
        let address = |column: &StringArray| {
            let text = if column.is_valid(row) { column.value(row) } else { "" };
            identity::address_bytes(text, family).with_context(|| format!("{text:?} is no address"))
        };
        let name = |column: &StringArray| {
            let text = if column.is_valid(row) { column.value(row) } else { "" };
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
            comm: name(&self.comm)?,
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
                "clamp" | "min_rtt_us" => UNSET,
                _ => 0,
            };
            numbers::<UInt32Type>(batch, name, null)
        });
        let rows = Rows {
            time: numbers::<Int64Type>(batch, "time_ns", 0)?,
            kind: words(batch, "kind", |w| Kind::from_name(w).map(|k| k as u8))?,
            place: words(batch, "where", |w| Place::from_name(w).map(|p| p as u8))?,
            cookie: numbers::<UInt64Type>(batch, "cookie", 0)?,
            tgid: numbers::<UInt32Type>(batch, "tgid", 0)?,
            cpu: numbers::<UInt16Type>(batch, "cpu", 0)?,
            aux: [
                numbers::<UInt32Type>(batch, "aux0", 0)?,
                numbers::<UInt32Type>(batch, "aux1", 0)?,
            ],
            state: state.into_iter().collect::<Result<_>>()?,
            pacing: numbers::<UInt64Type>(batch, "pacing_rate", u64::MAX)?,
            mss: numbers::<UInt16Type>(batch, "mss", 0)?,
            ca_state: words(batch, "ca_state", |w| CaState::from_name(w).map(|s| s as u8))?,
            tcp_state: words(batch, "tcp_state", |w| {
                transom_event::TcpState::from_name(w).map(|s| s as u8)
            })?,
            flags: flags(batch)?,
            backoff: numbers::<UInt8Type>(batch, "backoff", 0)?,
            send_buffer: send_buffer(batch)?,
            opens: Opens::of(batch)?,
            sacks: Sacks::of(batch)?,
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
        let body = match BODY_OF[kind as usize] {
            BodyKind::Open => Body::Open(self.opens.open(row)?),
            BodyKind::Sack => Body::Sack(self.sack(row)),
            BodyKind::State => Body::State(self.state(row)),
            BodyKind::None | BodyKind::Bad => Body::None,
        };
        Ok(Event {
            time_ns: self.time[row] as u64,
            cookie: self.cookie[row],
            tgid: self.tgid[row],
            cpu: self.cpu[row],
            kind,
            place,
            aux: [self.aux[0][row], self.aux[1][row]],
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
        let mut sack = Sack { blocks: self.sacks.blocks(row), ..Sack::zeroed() };
        let words: &mut [u32; 24] = bytemuck::cast_mut(&mut sack);
        for (i, from) in SACK_WORDS.into_iter().enumerate() {
            words[8 + i] = self.state[from][row];
        }
        Sack { ca_state: self.ca_state[row], tcp_state: self.tcp_state[row], ..sack }
    }
}
