//! Records of the kernel, turned from rows into Arrow columns.

use std::mem::take;
use std::sync::{Arc, LazyLock};

use anyhow::Result;
use arrow_array::types::{Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BooleanArray, DictionaryArray, ListArray, PrimitiveArray,
    RecordBatch, StringArray, StructArray, new_null_array,
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::Schema;
use bytemuck::Zeroable;
use transom_event::{BadEvent, BodyKind, Kind, Open, Place, Raw, Sack, State, UNSET};

use crate::identity;
use crate::schema::{
    DICTIONARIES, FIRST_OPEN, FLAG_BITS, SACK_WORDS, STATE_WORDS, raw_columns, sack_fields,
    sack_item,
};

/// `ssthresh` as long as no congestion has set one (TCP_INFINITE_SSTHRESH).
pub(crate) const SSTHRESH_UNSET: u32 = i32::MAX as u32;

/// Rows of a block: one word of a validity bitmap, and few enough to stay in the L1 cache.
const BLOCK: usize = 64;

/// Which body a kind of event has; `None` for what is no kind.
static BODY_OF: LazyLock<[Option<BodyKind>; 256]> =
    LazyLock::new(|| std::array::from_fn(|n| Kind::from_number(n as u32).map(Kind::body)));

/// One batch in the making.
pub(crate) struct Columns {
    capacity: usize,
    body_of: &'static [Option<BodyKind>; 256],
    block: Vec<Raw>,
    /// Bits of the block's rows that have a whole state, or at least the part a SACK carries.
    block_state: u64,
    block_flight: u64,
    rows: usize,
    time: Vec<i64>,
    kind: Vec<u8>,
    place: Vec<u8>,
    cookie: Vec<u64>,
    tgid: Vec<u32>,
    cpu: Vec<u16>,
    aux: [Vec<u32>; 2],
    state: [Vec<u32>; STATE_WORDS.len()],
    pacing: Vec<u64>,
    mss: Vec<u16>,
    ca_state: Vec<u8>,
    tcp_state: Vec<u8>,
    chrono: Vec<u8>,
    backoff: Vec<u8>,
    send_buffer: Vec<u32>,
    write_blocked: Vec<u64>,
    flags: [Vec<u64>; FLAG_BITS.len()],
    valid: Validity,
    opens: Vec<(usize, Open)>,
    sacks: Vec<(usize, u32, Sack)>,
    /// Columns of `open` and `sack` for the usual batch that has none.
    absent: Vec<ArrayRef>,
}

/// Validity bitmaps, one bit per row.
#[derive(Default)]
struct Validity {
    state: Vec<u64>,
    flight: Vec<u64>,
    ssthresh: Vec<u64>,
    clamp: Vec<u64>,
    min_rtt: Vec<u64>,
    pacing: Vec<u64>,
    send_buffer: Vec<u64>,
}

/// The body as a state; here, so that it is inlined without link-time optimization.
#[inline]
fn state_of(raw: &Raw) -> &State {
    bytemuck::cast_ref(&raw.body)
}

/// One bit per row of the block.
fn mask(block: &[Raw], is_set: impl Fn(&State) -> bool) -> u64 {
    block.iter().enumerate().fold(0, |bits, (i, raw)| bits | u64::from(is_set(state_of(raw))) << i)
}

impl Columns {
    /// `capacity`: rows of a full batch.
    pub fn new(capacity: usize) -> Columns {
        let absent = raw_columns()[FIRST_OPEN..]
            .iter()
            .map(|field| new_null_array(field.data_type(), capacity))
            .collect();
        let mut columns = Columns {
            capacity,
            body_of: &BODY_OF,
            block: Vec::with_capacity(BLOCK),
            block_state: 0,
            block_flight: 0,
            rows: 0,
            time: Vec::new(),
            kind: Vec::new(),
            place: Vec::new(),
            cookie: Vec::new(),
            tgid: Vec::new(),
            cpu: Vec::new(),
            aux: Default::default(),
            state: Default::default(),
            pacing: Vec::new(),
            mss: Vec::new(),
            ca_state: Vec::new(),
            tcp_state: Vec::new(),
            chrono: Vec::new(),
            backoff: Vec::new(),
            send_buffer: Vec::new(),
            write_blocked: Vec::new(),
            flags: Default::default(),
            valid: Validity::default(),
            opens: Vec::new(),
            sacks: Vec::new(),
            absent,
        };
        columns.reserve();
        columns
    }

    fn reserve(&mut self) {
        let n = self.capacity;
        self.time.reserve_exact(n);
        for bytes in [
            &mut self.kind,
            &mut self.place,
            &mut self.ca_state,
            &mut self.tcp_state,
            &mut self.chrono,
            &mut self.backoff,
        ] {
            bytes.reserve_exact(n);
        }
        for words in self
            .state
            .iter_mut()
            .chain(&mut self.aux)
            .chain([&mut self.tgid, &mut self.send_buffer])
        {
            words.reserve_exact(n);
        }
        self.cookie.reserve_exact(n);
        self.pacing.reserve_exact(n);
        self.cpu.reserve_exact(n);
        self.mss.reserve_exact(n);
    }

    pub fn len(&self) -> usize {
        self.rows + self.block.len()
    }

    pub fn is_full(&self) -> bool {
        self.len() >= self.capacity
    }

    /// Adds one record.
    ///
    /// # Errors
    /// If its kind or its place is not of the contract; nothing is added then.
    #[inline]
    pub fn push(&mut self, raw: &Raw) -> Result<(), BadEvent> {
        let body = self.body_of[usize::from(raw.head.kind)];
        if Place::from_number(raw.head.place.into()).is_none() {
            return Err(BadEvent::Place(raw.head.place));
        }
        let bit = 1 << self.block.len();
        if body == Some(BodyKind::State) {
            self.block_state |= bit;
            self.block_flight |= bit;
            self.block.push(*raw);
        } else {
            self.push_other(raw, body, bit)?;
        }
        if self.block.len() == BLOCK {
            self.end_block();
        }
        Ok(())
    }

    /// Keeps what only this body has aside, and puts the rest where a state has it.
    #[cold]
    fn push_other(&mut self, raw: &Raw, body: Option<BodyKind>, bit: u64) -> Result<(), BadEvent> {
        let row = self.len();
        let mut state = State::zeroed();
        match body.ok_or(BadEvent::Kind(raw.head.kind))? {
            BodyKind::Open => self.opens.push((row, *raw.open())),
            BodyKind::Sack => {
                let sack = raw.sack();
                self.sacks.push((row, raw.head.aux[0], *sack));
                self.block_flight |= bit;
                let from: &[u32; 24] = bytemuck::cast_ref(sack);
                let to: &mut [u32; 24] = bytemuck::cast_mut(&mut state);
                for (i, at) in SACK_WORDS.into_iter().enumerate() {
                    to[at] = from[8 + i];
                }
                state.ca_state = sack.ca_state;
                state.tcp_state = sack.tcp_state;
            }
            BodyKind::None | BodyKind::State => {}
        }
        self.block.push(Raw { head: raw.head, body: bytemuck::cast(state) });
        Ok(())
    }

    fn end_block(&mut self) {
        let block = self.block.as_slice();
        self.time.extend(block.iter().map(|r| r.head.time_ns as i64));
        self.kind.extend(block.iter().map(|r| r.head.kind));
        self.place.extend(block.iter().map(|r| r.head.place));
        self.cookie.extend(block.iter().map(|r| r.head.cookie));
        self.tgid.extend(block.iter().map(|r| r.head.tgid));
        self.cpu.extend(block.iter().map(|r| r.head.cpu));
        for (i, column) in self.aux.iter_mut().enumerate() {
            column.extend(block.iter().map(|r| r.head.aux[i]));
        }
        for (i, column) in self.state.iter_mut().enumerate() {
            column.extend(block.iter().map(|r| {
                let words: &[u32; 24] = bytemuck::cast_ref(&r.body);
                words[i]
            }));
        }
        self.pacing.extend(block.iter().map(|r| state_of(r).pacing_rate));
        self.mss.extend(block.iter().map(|r| state_of(r).mss));
        self.ca_state.extend(block.iter().map(|r| state_of(r).ca_state));
        self.tcp_state.extend(block.iter().map(|r| state_of(r).tcp_state));
        self.chrono.extend(block.iter().map(|r| state_of(r).chrono() as u8));
        self.backoff.extend(block.iter().map(|r| state_of(r).backoff));
        self.send_buffer.extend(block.iter().map(|r| state_of(r).send_buffer_bytes().unwrap_or(0)));
        self.write_blocked.push(mask(block, State::is_write_blocked));
        for (column, (_, bit)) in self.flags.iter_mut().zip(FLAG_BITS) {
            column.push(mask(block, |s| s.flags >> bit & 1 == 1));
        }
        let (state, flight) = (self.block_state, self.block_flight);
        let valid = &mut self.valid;
        valid.state.push(state);
        valid.flight.push(flight);
        valid.ssthresh.push(flight & mask(block, |s| s.ssthresh != SSTHRESH_UNSET));
        valid.clamp.push(state & mask(block, |s| s.clamp != UNSET));
        valid.min_rtt.push(state & mask(block, |s| s.min_rtt_us != UNSET));
        valid.pacing.push(state & mask(block, |s| s.pacing_rate != u64::MAX));
        valid.send_buffer.push(state & mask(block, |s| s.send_buffer_bytes().is_some()));
        self.rows += block.len();
        self.block.clear();
        self.block_state = 0;
        self.block_flight = 0;
    }

    /// Everything pushed since the last batch, as columns; the buffers are not copied.
    pub fn batch(&mut self, schema: &Arc<Schema>) -> Result<RecordBatch> {
        self.end_block();
        let n = take(&mut self.rows);
        let valid = take(&mut self.valid);
        let state = bits(valid.state, n).map(NullBuffer::new);
        let flight = bits(valid.flight, n).map(NullBuffer::new);
        let own = |words| bits(words, n).map(NullBuffer::new);
        let mut nulls: [Option<NullBuffer>; STATE_WORDS.len()] =
            std::array::from_fn(|_| state.clone());
        for at in SACK_WORDS {
            nulls[at] = flight.clone();
        }
        nulls[1] = own(valid.ssthresh);
        nulls[2] = own(valid.clamp);
        nulls[15] = own(valid.min_rtt);

        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(schema.fields().len());
        arrays.push(numbers::<Int64Type>(&mut self.time, None));
        arrays.push(words(&mut self.kind, None, &DICTIONARIES.kind)?);
        arrays.push(words(&mut self.place, None, &DICTIONARIES.place)?);
        arrays.push(numbers::<UInt64Type>(&mut self.cookie, None));
        arrays.push(numbers::<UInt32Type>(&mut self.tgid, None));
        arrays.push(numbers::<UInt16Type>(&mut self.cpu, None));
        for column in &mut self.aux {
            arrays.push(numbers::<UInt32Type>(column, None));
        }
        for (column, nulls) in self.state.iter_mut().zip(nulls) {
            arrays.push(numbers::<UInt32Type>(column, nulls));
        }
        arrays.push(numbers::<UInt64Type>(&mut self.pacing, own(valid.pacing)));
        arrays.push(numbers::<UInt16Type>(&mut self.mss, state.clone()));
        arrays.push(words(&mut self.ca_state, flight.clone(), &DICTIONARIES.ca_state)?);
        arrays.push(words(&mut self.tcp_state, flight, &DICTIONARIES.tcp_state)?);
        arrays.push(words(&mut self.chrono, state.clone(), &DICTIONARIES.chrono)?);
        for column in &mut self.flags {
            let values = BooleanBuffer::new(Buffer::from_vec(take(column)), 0, n);
            arrays.push(Arc::new(BooleanArray::new(values, state.clone())));
        }
        arrays.push(numbers::<UInt8Type>(&mut self.backoff, state.clone()));
        arrays.push(numbers::<UInt32Type>(&mut self.send_buffer, own(valid.send_buffer)));
        let blocked = BooleanBuffer::new(Buffer::from_vec(take(&mut self.write_blocked)), 0, n);
        arrays.push(Arc::new(BooleanArray::new(blocked, state)));
        self.identity(n, &mut arrays);
        self.reserve();
        Ok(RecordBatch::try_new(schema.clone(), arrays)?)
    }

    fn identity(&mut self, n: usize, arrays: &mut Vec<ArrayRef>) {
        let (sack, open) = self.absent.split_last().expect("the schema ends with sack_blocks");
        let opens = take(&mut self.opens);
        if opens.is_empty() {
            arrays.extend(open.iter().map(|column| column.slice(0, n)));
        } else {
            open_columns(&opens, n, arrays);
        }
        let sacks = take(&mut self.sacks);
        if sacks.is_empty() {
            arrays.push(sack.slice(0, n));
        } else {
            arrays.push(sack_column(&sacks, n));
        }
    }
}

/// A bitmap over `n` rows; `None` when every bit is set.
fn bits(words: Vec<u64>, n: usize) -> Option<BooleanBuffer> {
    let bits = BooleanBuffer::new(Buffer::from_vec(words), 0, n);
    (bits.count_set_bits() < n).then_some(bits)
}

fn numbers<T: ArrowPrimitiveType>(
    column: &mut Vec<T::Native>,
    nulls: Option<NullBuffer>,
) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::from(take(column)), nulls))
}

fn words(column: &mut Vec<u8>, nulls: Option<NullBuffer>, names: &ArrayRef) -> Result<ArrayRef> {
    let keys = PrimitiveArray::<UInt8Type>::new(ScalarBuffer::from(take(column)), nulls);
    Ok(Arc::new(DictionaryArray::try_new(keys, names.clone())?))
}

fn open_columns(opens: &[(usize, Open)], n: usize, arrays: &mut Vec<ArrayRef>) {
    fn spread<T>(opens: &[(usize, Open)], n: usize, of: impl Fn(&Open) -> T) -> Vec<Option<T>> {
        let mut column: Vec<Option<T>> = std::iter::repeat_with(|| None).take(n).collect();
        for (row, open) in opens {
            column[*row] = Some(of(open));
        }
        column
    }
    fn number<T: ArrowPrimitiveType>(
        opens: &[(usize, Open)],
        n: usize,
        of: impl Fn(&Open) -> T::Native,
    ) -> ArrayRef {
        Arc::new(PrimitiveArray::<T>::from_iter(spread(opens, n, of)))
    }
    let token = |open: &Open| (open.mptcp != 0).then_some(open.mptcp);
    let tokens = spread(opens, n, token).into_iter().map(Option::flatten);
    let text = |of: fn(&Open) -> String| -> ArrayRef {
        Arc::new(StringArray::from_iter(spread(opens, n, of)))
    };
    arrays.push(text(|o| identity::address(&o.local_addr, o.family).to_string()));
    arrays.push(text(|o| identity::address(&o.remote_addr, o.family).to_string()));
    arrays.push(number::<UInt16Type>(opens, n, |o| o.local_port));
    arrays.push(number::<UInt16Type>(opens, n, |o| o.remote_port));
    arrays.push(text(|o| identity::name(&o.comm)));
    arrays.push(text(|o| identity::name(&o.algorithm)));
    arrays.push(number::<UInt32Type>(opens, n, |o| o.netns));
    arrays.push(number::<UInt32Type>(opens, n, |o| o.ifindex));
    arrays.push(number::<UInt16Type>(opens, n, |o| o.family));
    arrays.push(number::<UInt64Type>(opens, n, |o| o.cgroup));
    arrays.push(Arc::new(PrimitiveArray::<UInt32Type>::from_iter(tokens)));
}

fn sack_column(sacks: &[(usize, u32, Sack)], n: usize) -> ArrayRef {
    let mut lengths = vec![0; n];
    let mut valid = vec![false; n];
    let mut edges = [Vec::new(), Vec::new()];
    for (row, count, sack) in sacks {
        let blocks = &sack.blocks[..(*count as usize).min(sack.blocks.len())];
        lengths[*row] = blocks.len();
        valid[*row] = true;
        for [left, right] in blocks {
            edges[0].push(*left);
            edges[1].push(*right);
        }
    }
    let edges = edges
        .into_iter()
        .map(|edge| Arc::new(PrimitiveArray::<UInt32Type>::from(edge)) as ArrayRef)
        .collect();
    let blocks = StructArray::new(sack_fields(), edges, None);
    let offsets = OffsetBuffer::from_lengths(lengths);
    Arc::new(ListArray::new(sack_item(), offsets, Arc::new(blocks), Some(NullBuffer::from(valid))))
}
