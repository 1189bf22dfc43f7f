//! Files that were written before a column was added are read as ever.

mod bulk;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::Schema;
use parquet::arrow::ArrowWriter;
use parquet::file::metadata::KeyValue;
use transom_event::{Body, Event, Kind, Open, Place, Raw, State, WRITE_BLOCKED};
use transom_trace::{Meta, Options, Reader, Writer};

/// What came after the first files, in the order in which it came.
const ADDED: [&str; 3] = ["mptcp", "send_buffer", "write_blocked"];

fn read(path: &Path) -> Vec<Event> {
    Reader::open(path).unwrap().map(Result::unwrap).collect()
}

/// The recording of a subflow, as a stream.
fn stream(path: &Path) {
    let mut writer = Writer::create(path, &Meta::default(), Options::default()).unwrap();
    let (cookie, place) = (1, Place::SetState);
    let body = Body::Open(Open { family: 2, mptcp: 77, ..Open::default() });
    let (time_ns, tgid, cpu, kind, aux) = (5, 6, 0, Kind::Open, [1, 0]);
    writer.push(&Raw::from(&Event { time_ns, cookie, tgid, cpu, kind, place, aux, body })).unwrap();
    for raw in bulk::records(200, 1) {
        let mut event = Event::try_from(&raw).unwrap();
        if let Body::State(state) = &mut event.body {
            state.send_buffer = 16 | WRITE_BLOCKED;
        }
        writer.push(&Raw::from(&event)).unwrap();
    }
    writer.flush().unwrap();
}

/// What the file holds, without the columns that were added.
fn older(path: &Path) -> (Arc<Schema>, Vec<RecordBatch>) {
    let reader = StreamReader::try_new(File::open(path).unwrap(), None).unwrap();
    let schema = reader.schema();
    let kept: Vec<usize> = (0..schema.fields().len())
        .filter(|&at| !ADDED.contains(&schema.field(at).name().as_str()))
        .collect();
    assert_eq!(kept.len() + ADDED.len(), schema.fields().len());
    let schema = Arc::new(schema.project(&kept).unwrap());
    // The recorder did not end the stream: the batches before that are whole.
    let batches = reader.map_while(Result::ok).map(|batch| batch.project(&kept).unwrap()).collect();
    (schema, batches)
}

/// As the events are read now, without what the columns that were added say.
fn expected(path: &Path) -> Vec<Event> {
    let mut events = read(path);
    for event in &mut events {
        match &mut event.body {
            Body::Open(open) => open.mptcp = 0,
            Body::State(state) => state.send_buffer = 0,
            _ => {}
        }
    }
    events
}

#[test]
fn an_older_stream_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let (new, old) = (directory.path().join("new"), directory.path().join("old"));
    stream(&new);
    assert_eq!(read(&new)[0].open().unwrap().mptcp, 77);
    let states: Vec<State> = read(&new).iter().filter_map(|e| e.state().copied()).collect();
    assert!(states.iter().all(|s| s.send_buffer_bytes() == Some(16_384) && s.is_write_blocked()));
    let (schema, batches) = older(&new);
    let mut writer = StreamWriter::try_new(File::create(&old).unwrap(), &schema).unwrap();
    for batch in &batches {
        writer.write(batch).unwrap();
    }
    writer.finish().unwrap();
    let events = read(&old);
    assert!(events.len() > 200);
    assert_eq!(events, expected(&new));
}

#[test]
fn an_older_parquet_file_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let (new, old) = (directory.path().join("new"), directory.path().join("old"));
    stream(&new);
    let (schema, batches) = older(&new);
    let mut writer =
        ArrowWriter::try_new(File::create(&old).unwrap(), schema.clone(), None).unwrap();
    for (key, value) in schema.metadata() {
        writer.append_key_value_metadata(KeyValue::new(key.clone(), value.clone()));
    }
    for batch in &batches {
        writer.write(batch).unwrap();
    }
    writer.close().unwrap();
    assert_eq!(read(&old), expected(&new));
}
