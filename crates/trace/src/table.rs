//! The table that others read, made of the batches of a recording.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use anyhow::{Context, Result};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, RecordBatch, StringArray,
    TimestampMicrosecondArray, UInt8Array, UInt16Array, UInt32Array, new_null_array,
};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::Schema;
use transom_event::fields::{Field, Form};
use transom_event::{BodyKind, Connections, Kind, Place};
use transom_raw_stream::Meta;

use crate::schema::{DETAILS, Detail};

/// Which connection it is, as text.
struct Identity {
    local_addr: String,
    remote_addr: String,
    local_port: u16,
    remote_port: u16,
    program: String,
    algorithm: String,
}

/// What was told of the connections so far.
pub(crate) struct Table {
    schema: Arc<Schema>,
    offset_ns: i64,
    known: Connections<Rc<Identity>>,
    absent: HashMap<usize, ArrayRef>,
}

/// The columns of a batch that decide what its rows are.
struct Heads<'a> {
    kind: &'a [u8],
    place: &'a [u8],
    cookie: &'a [u64],
    aux: [&'a [u32]; 2],
}

fn bytes<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a [u8]> {
    let array = batch.column_by_name(name).and_then(|a| a.as_dictionary_opt::<UInt8Type>());
    Ok(array.with_context(|| format!("no column {name}"))?.keys().values())
}

fn numbers<'a, T: arrow_array::ArrowPrimitiveType>(
    batch: &'a RecordBatch,
    name: &str,
) -> Result<&'a [T::Native]> {
    let array = batch.column_by_name(name).and_then(|a| a.as_primitive_opt::<T>());
    Ok(array.with_context(|| format!("no column {name}"))?.values())
}

impl<'a> Heads<'a> {
    fn of(batch: &'a RecordBatch) -> Result<Heads<'a>> {
        Ok(Heads {
            kind: bytes(batch, "kind")?,
            place: bytes(batch, "place")?,
            cookie: numbers::<UInt64Type>(batch, "cookie")?,
            aux: [numbers::<UInt32Type>(batch, "aux0")?, numbers::<UInt32Type>(batch, "aux1")?],
        })
    }

    fn is_open(&self, row: usize) -> bool {
        Kind::from_number(self.kind[row].into()).is_some_and(|kind| kind.body() == BodyKind::Open)
    }
}

impl Table {
    /// `schema` is that of [`crate::schema::columns`].
    pub fn new(schema: Arc<Schema>, meta: &Meta) -> Table {
        Table {
            schema,
            offset_ns: meta.realtime_offset_ns,
            known: Connections::default(),
            absent: HashMap::new(),
        }
    }

    /// The rows of a batch of [`crate::schema::raw_columns`].
    pub fn of(&mut self, raw: &RecordBatch) -> Result<RecordBatch> {
        let heads = Heads::of(raw)?;
        let ends = self.ends(raw, &heads)?;
        let mut columns = Vec::with_capacity(self.schema.fields().len());
        for (at, field) in self.schema.clone().fields().iter().enumerate() {
            let name = field.name().as_str();
            let column = if name == "time_utc" {
                self.wall_time(numbers::<Int64Type>(raw, "time_ns")?)
            } else if let Some(column) = ends.column(name) {
                column
            } else if let Some(detail) = DETAILS.iter().find(|detail| detail.name == name) {
                self.detail(at, detail, &heads)
            } else {
                raw.column_by_name(name).with_context(|| format!("no column {name}"))?.clone()
            };
            columns.push(column);
        }
        Ok(RecordBatch::try_new(self.schema.clone(), columns)?)
    }

    fn wall_time(&self, times: &[i64]) -> ArrayRef {
        let us = |&ns: &i64| ns.saturating_add(self.offset_ns).div_euclid(1000);
        let column: TimestampMicrosecondArray = times.iter().map(us).collect::<Vec<_>>().into();
        Arc::new(column.with_timezone("UTC"))
    }

    /// One of the numbers of an event under its name, null for the kinds that do not have it.
    fn detail(&mut self, at: usize, detail: &Detail, heads: &Heads<'_>) -> ArrayRef {
        let rows = heads.kind.len();
        let mut by_kind: [Option<&Field>; 256] = [None; 256];
        for field in &detail.fields {
            by_kind[field.kind as usize] = Some(field);
        }
        let of = |row: usize| {
            let field = by_kind[usize::from(heads.kind[row])]?;
            let Some((place, there)) = field.only else { return Some(field) };
            let here = Place::from_number(heads.place[row].into()) == Some(place);
            (here == there).then_some(field)
        };
        let valid = BooleanBuffer::collect_bool(rows, |row| of(row).is_some());
        if valid.count_set_bits() == 0 {
            return self.absent(at, rows);
        }
        let value = |row| of(row).map_or(0, |f| f.get([heads.aux[0][row], heads.aux[1][row]]));
        let nulls = Some(NullBuffer::new(valid));
        match (detail.form, &detail.dictionary) {
            (Form::Flag, _) => Arc::new(BooleanArray::new(
                BooleanBuffer::collect_bool(rows, |r| value(r) == 1),
                nulls,
            )),
            (Form::Word(_), Some(words)) => {
                let keys: Vec<u8> = (0..rows).map(|row| value(row) as u8).collect();
                let keys = UInt8Array::new(keys.into(), nulls);
                Arc::new(DictionaryArray::new(keys, words.clone()))
            }
            _ => {
                let values: Vec<u32> = (0..rows).map(value).collect();
                Arc::new(UInt32Array::new(values.into(), nulls))
            }
        }
    }

    /// Only nulls; kept, since most batches have many such columns.
    fn absent(&mut self, at: usize, rows: usize) -> ArrayRef {
        let of = self.schema.field(at).data_type();
        let kept = self.absent.entry(at).or_insert_with(|| new_null_array(of, rows));
        if kept.len() < rows {
            *kept = new_null_array(of, rows);
        }
        kept.slice(0, rows)
    }

    /// Which connection each row belongs to.
    fn ends(&mut self, raw: &RecordBatch, heads: &Heads<'_>) -> Result<Ends> {
        let opens: Vec<usize> = (0..heads.kind.len()).filter(|&row| heads.is_open(row)).collect();
        let told = Told::of(raw)?;
        // What another CPU saw just before the `open` was written belongs to the connection, too.
        for &row in opens.iter().filter(|&&row| told.is_whole(row)) {
            self.known.get_or(heads.cookie[row], || Rc::new(told.identity(row)));
        }
        let mut opens = opens.into_iter().peekable();
        let mut ends = Ends::default();
        let mut before = None;
        for (row, &cookie) in heads.cookie.iter().enumerate() {
            // A socket whose `connect` has failed may connect again.
            if heads.kind[row] == Kind::Open as u8 {
                self.known.open(cookie);
            }
            let opened = opens.next_if_eq(&row).is_some() && told.is_whole(row);
            if opened {
                let identity = Rc::new(told.identity(row));
                let known = self.known.get_or(cookie, || Rc::clone(&identity));
                *known = identity;
            }
            if opened || before != Some(cookie) {
                ends.begin(self.known.get(cookie));
                before = Some(cookie);
            }
            ends.push();
            if heads.kind[row] == Kind::Close as u8 {
                self.known.close(cookie);
            }
        }
        Ok(ends)
    }
}

/// The columns that only `open`, `owner` and `algorithm` have in a recording.
struct Told<'a> {
    text: [&'a StringArray; 4],
    ports: [&'a UInt16Array; 2],
}

impl<'a> Told<'a> {
    fn of(batch: &'a RecordBatch) -> Result<Told<'a>> {
        let text = |name: &str| {
            let array = batch.column_by_name(name).and_then(|a| a.as_string_opt::<i32>());
            array.with_context(|| format!("no column {name}"))
        };
        let port = |name: &str| {
            let array = batch.column_by_name(name).and_then(|a| a.as_primitive_opt::<UInt16Type>());
            array.with_context(|| format!("no column {name}"))
        };
        Ok(Told {
            text: [text("local_addr")?, text("remote_addr")?, text("program")?, text("algorithm")?],
            ports: [port("local_port")?, port("remote_port")?],
        })
    }

    fn is_whole(&self, row: usize) -> bool {
        self.text.iter().all(|text| text.is_valid(row))
    }

    fn identity(&self, row: usize) -> Identity {
        let [local_addr, remote_addr, program, algorithm] =
            self.text.map(|text| text.value(row).to_owned());
        let [local_port, remote_port] = self.ports.map(|port| port.value(row));
        Identity { local_addr, remote_addr, local_port, remote_port, program, algorithm }
    }
}

/// Stretches of rows of one connection, under one identity.
#[derive(Default)]
struct Ends {
    stretches: Vec<(Option<Rc<Identity>>, usize)>,
}

impl Ends {
    fn begin(&mut self, identity: Option<&Rc<Identity>>) {
        self.stretches.push((identity.cloned(), 0));
    }

    fn push(&mut self) {
        if let Some((_, rows)) = self.stretches.last_mut() {
            *rows += 1;
        }
    }

    fn column(&self, name: &str) -> Option<ArrayRef> {
        Some(match name {
            "local_addr" => self.text(|identity| &identity.local_addr),
            "remote_addr" => self.text(|identity| &identity.remote_addr),
            "program" => self.text(|identity| &identity.program),
            "algorithm" => self.text(|identity| &identity.algorithm),
            "local_port" => self.port(|identity| identity.local_port),
            "remote_port" => self.port(|identity| identity.remote_port),
            _ => return None,
        })
    }

    fn port(&self, of: fn(&Identity) -> u16) -> ArrayRef {
        let stretch = |(identity, rows): &(Option<Rc<Identity>>, usize)| {
            std::iter::repeat_n(identity.as_deref().map(of), *rows)
        };
        Arc::new(UInt16Array::from_iter(self.stretches.iter().flat_map(stretch)))
    }

    fn text(&self, of: fn(&Identity) -> &String) -> ArrayRef {
        let mut words = Vec::new();
        let mut numbers: HashMap<&str, u32> = HashMap::new();
        let mut keys = Vec::new();
        for (identity, rows) in &self.stretches {
            let key = identity.as_deref().map(|identity| {
                let word = of(identity).as_str();
                *numbers.entry(word).or_insert_with(|| {
                    words.push(word);
                    words.len() as u32 - 1
                })
            });
            keys.extend(std::iter::repeat_n(key, *rows));
        }
        let words: ArrayRef = Arc::new(StringArray::from_iter_values(words));
        Arc::new(DictionaryArray::new(UInt32Array::from_iter(keys), words))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::Columns;
    use crate::schema;
    use transom_event::{Body, Event, Open, Raw, State};

    fn event(cookie: u64, kind: Kind) -> Raw {
        let body = match kind {
            Kind::Open => Body::Open(Open { family: 2, ..Open::default() }),
            _ => Body::State(State::default()),
        };
        let place = Place::SetState;
        Raw::from(&Event { time_ns: 7, cookie, tgid: 1, cpu: 0, kind, place, aux: [1, 0], body })
    }

    fn batch(events: &[(u64, Kind)]) -> RecordBatch {
        let mut columns = Columns::new(64);
        for &(cookie, kind) in events {
            columns.push(&event(cookie, kind)).unwrap();
        }
        columns.batch(&schema::raw_schema([])).unwrap()
    }

    /// Whether the row of 7 after these batches, in a batch of its own, has a program.
    fn program_after(batches: &[&[(u64, Kind)]]) -> bool {
        let mut table = Table::new(schema::schema([]), &Meta::default());
        for events in batches {
            table.of(&batch(events)).unwrap();
        }
        let rows = table.of(&batch(&[(7, Kind::Reset)])).unwrap();
        rows.column_by_name("program").unwrap().is_valid(0)
    }

    const OPEN: (u64, Kind) = (7, Kind::Open);
    const CLOSE: (u64, Kind) = (7, Kind::Close);

    #[test]
    fn a_socket_that_connects_again_after_a_failure_is_still_known() {
        assert!(program_after(&[&[OPEN, CLOSE, OPEN]]));
        assert!(program_after(&[&[OPEN, CLOSE], &[OPEN], &[(7, Kind::Ack)]]));
    }

    #[test]
    fn the_reset_that_a_close_sends_is_of_a_known_connection_also_in_a_later_batch() {
        assert!(program_after(&[&[OPEN, CLOSE], &[(8, Kind::Ack)]]));
        let others: Vec<[(u64, Kind); 2]> =
            (100..5000).map(|other| [(other, Kind::Open), (other, Kind::Close)]).collect();
        let later = others.iter().map(|events| &events[..]);
        let batches: Vec<_> = std::iter::once(&[OPEN, CLOSE][..]).chain(later).collect();
        assert!(!program_after(&batches), "one that ended long ago is forgotten");
    }
}
