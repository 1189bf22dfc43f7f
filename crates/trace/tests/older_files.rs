//! Files of format 1, and files that were written before a column was added, are read as ever.

mod bulk;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{Array, RecordBatch, new_null_array};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::arrow::{ARROW_SCHEMA_META_KEY, ArrowWriter, encode_arrow_schema};
use parquet::basic::Compression;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use transom_event::{Body, Event, Kind, Open, Place, Raw, RetransmitReason, State, WRITE_BLOCKED};
use transom_output::Replace;
use transom_trace::{Meta, Reader, Target, Writer, WriterOptions, convert};

/// What came after the first files, in the order in which it came.
const ADDED: [&str; 3] = ["mptcp", "send_buffer", "write_blocked"];

fn read(path: &Path) -> Vec<Event> {
    Reader::open(path).unwrap().map(Result::unwrap).collect()
}

/// The recording of a subflow, as a stream.
fn stream(path: &Path) {
    let mut writer = Writer::create(path, &Meta::default(), WriterOptions::default()).unwrap();
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
    let (new, old) = (directory.path().join("new.arrow"), directory.path().join("old"));
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
    let (new, old) = (directory.path().join("new.arrow"), directory.path().join("old"));
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

/// A real recording by the last program that wrote format 1: 60 kB through a queue that overflowed,
/// then a change of the algorithm and a reset.
fn format_1(ending: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/format1/talk").with_extension(ending)
}

#[test]
fn a_recording_of_format_1_says_what_it_said() {
    let events = read(&format_1("parquet"));
    assert_eq!(events, read(&format_1("arrow")), "in both of its shapes");
    let of = |kind| events.iter().filter(move |event| event.kind == kind);
    let counts = [
        (Kind::Open, 2),
        (Kind::Close, 2),
        (Kind::State, 6),
        (Kind::Ack, 43),
        (Kind::Send, 44),
        (Kind::Retransmit, 30),
        (Kind::DupAck, 10),
        (Kind::Sack, 25),
        (Kind::CaState, 6),
        (Kind::Reset, 1),
        (Kind::Algorithm, 1),
    ];
    for (kind, count) in counts {
        assert_eq!(of(kind).count(), count, "{kind}");
    }
    let open = of(Kind::Open).next().unwrap().open().unwrap();
    assert_eq!(open.endpoints().to_string(), "10.5.1.2:42998 > 10.5.2.2:7777");
    assert_eq!(open.program(), "python3");
    let sack = of(Kind::Sack).next().unwrap();
    assert_eq!((sack.aux, sack.cookie), ([1, 0], 13_226));
    assert_eq!(sack.sack().unwrap().blocks[0], [1_908_819_314, 1_908_820_762]);
    let retransmit = of(Kind::Retransmit).next().unwrap();
    assert_eq!(retransmit.retransmit(), (Some(RetransmitReason::Fast), 1));
    assert_eq!((retransmit.aux[1], retransmit.place), (1_908_810_626, Place::RetransmitSkb));
    let state = retransmit.state().unwrap();
    assert_eq!((state.cwnd, state.srtt_us, state.unsent), (10, 4967, 28_144));
    assert_eq!(state.mdev(), None, "what format 1 has in its place is another thing");
}

#[test]
fn a_recording_of_format_1_becomes_one_of_today() {
    let directory = tempfile::tempdir().unwrap();
    for (target, name) in [(Target::Parquet, "p"), (Target::Arrow, "a")] {
        let new = directory.path().join(name);
        let mut old = Reader::open(format_1("arrow")).unwrap();
        convert::write_file(&mut old, target, &new, Replace::Never).unwrap();
        assert_eq!(read(&new), read(&format_1("arrow")));
        let (then, now) = (Reader::open(format_1("parquet")).unwrap(), Reader::open(&new).unwrap());
        assert_eq!((now.meta(), now.footer()), (then.meta(), then.footer()));
    }
}

#[test]
fn a_file_that_another_program_saved_with_snappy_is_a_trace() {
    let directory = tempfile::tempdir().unwrap();
    let (ours, theirs) = (directory.path().join("ours"), directory.path().join("theirs"));
    let mut old = Reader::open(format_1("arrow")).unwrap();
    convert::write_file(&mut old, Target::Parquet, &ours, Replace::Never).unwrap();
    // Without the hints of Arrow: plain text for dictionaries, and none of our metadata.
    let plain = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let batches =
        ParquetRecordBatchReaderBuilder::try_new_with_options(File::open(&ours).unwrap(), plain)
            .unwrap();
    let schema = Arc::new(Schema::new(batches.schema().fields().clone()));
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let to = File::create(&theirs).unwrap();
    let options =
        ArrowWriterOptions::new().with_properties(properties).with_skip_arrow_metadata(true);
    let mut writer = ArrowWriter::try_new_with_options(to, schema.clone(), options).unwrap();
    for batch in batches.build().unwrap() {
        let batch =
            RecordBatch::try_new(schema.clone(), batch.unwrap().columns().to_vec()).unwrap();
        writer.write(&batch).unwrap();
    }
    writer.close().unwrap();
    assert_eq!(read(&theirs), read(&ours));
    let reader = Reader::open(&theirs).unwrap();
    assert!(!reader.is_cut() && reader.footer().is_none(), "nothing is known of its end");
}

/// Its words of which no row has any are a dictionary of nothing, whose keys are of one byte.
#[test]
fn what_pandas_has_saved_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let (ours, theirs) = (directory.path().join("ours"), directory.path().join("theirs"));
    let mut old = Reader::open(format_1("arrow")).unwrap();
    convert::write_file(&mut old, Target::Parquet, &ours, Replace::Never).unwrap();
    let batches = ParquetRecordBatchReaderBuilder::try_new(File::open(&ours).unwrap()).unwrap();
    let batches: Vec<_> = batches.build().unwrap().map(Result::unwrap).collect();
    let is_empty = |field: &Field| {
        let of = |batch: &RecordBatch| {
            let column = batch.column_by_name(field.name()).unwrap();
            column.null_count() == column.len()
        };
        matches!(field.data_type(), DataType::Dictionary(..)) && batches.iter().all(of)
    };
    let full = batches[0].schema();
    let with = |nothing: DataType| {
        let fields = full.fields().iter().map(|field| match is_empty(field) {
            true => field.as_ref().clone().with_data_type(nothing.clone()),
            false => field.as_ref().clone(),
        });
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    };
    let claimed = with(DataType::Dictionary(DataType::Int8.into(), DataType::Null.into()));
    assert!(claimed.fields().iter().any(|field| is_empty(field)));
    let schema = with(DataType::Null);
    let options = ArrowWriterOptions::new().with_skip_arrow_metadata(true);
    let to = File::create(&theirs).unwrap();
    let mut writer = ArrowWriter::try_new_with_options(to, schema.clone(), options).unwrap();
    let claimed = encode_arrow_schema(&claimed);
    writer.append_key_value_metadata(KeyValue::new(ARROW_SCHEMA_META_KEY.to_owned(), claimed));
    for batch in &batches {
        let columns =
            schema.fields().iter().zip(batch.columns()).map(|(field, column)| {
                match field.data_type() {
                    DataType::Null => new_null_array(&DataType::Null, batch.num_rows()),
                    _ => column.clone(),
                }
            });
        writer.write(&RecordBatch::try_new(schema.clone(), columns.collect()).unwrap()).unwrap();
    }
    writer.close().unwrap();
    assert_eq!(read(&theirs), read(&ours));
}

/// As pyarrow saves a selection of which no row is left.
#[test]
fn a_table_without_a_row_is_a_trace_without_an_event() {
    let directory = tempfile::tempdir().unwrap();
    let (ours, theirs) = (directory.path().join("ours"), directory.path().join("theirs"));
    let mut old = Reader::open(format_1("arrow")).unwrap();
    convert::write_file(&mut old, Target::Parquet, &ours, Replace::Never).unwrap();
    let table = SerializedFileReader::new(File::open(&ours).unwrap()).unwrap();
    let of_file = table.metadata().file_metadata();
    let schema = of_file.schema_descr().root_schema_ptr();
    let metadata = of_file.key_value_metadata().cloned();
    let properties = WriterProperties::builder().set_key_value_metadata(metadata).build();
    let to = File::create(&theirs).unwrap();
    let mut writer = SerializedFileWriter::new(to, schema, properties.into()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    while let Some(column) = group.next_column().unwrap() {
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
    let written = SerializedFileReader::new(File::open(&theirs).unwrap()).unwrap();
    assert_eq!(written.metadata().num_row_groups(), 1);
    assert!(read(&theirs).is_empty());
}

/// As a program writes that selects rows of one batch after another.
#[test]
fn a_batch_without_a_row_is_not_the_end_of_a_stream() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("theirs");
    let ours = StreamReader::try_new(File::open(format_1("arrow")).unwrap(), None).unwrap();
    let schema = ours.schema();
    let mut writer = StreamWriter::try_new(File::create(&path).unwrap(), &schema).unwrap();
    for batch in ours.map(Result::unwrap) {
        writer.write(&batch.slice(0, 0)).unwrap();
        writer.write(&batch).unwrap();
    }
    writer.finish().unwrap();
    assert_eq!(read(&path), read(&format_1("arrow")));
}
