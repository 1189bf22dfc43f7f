//! One trace, every other format, and nothing half done.

mod bulk;

use std::fs;
use std::path::{Path, PathBuf};

use transom_event::{Event, Kind};
use transom_output::Replace;
use transom_raw_stream::{Coding, Options};
use transom_trace::{Footer, Format, Meta, Reader, Target, Writer, WriterOptions, convert};

struct Place {
    directory: tempfile::TempDir,
    records: Vec<transom_event::Raw>,
}

impl Place {
    fn new() -> Place {
        Place { directory: tempfile::tempdir().unwrap(), records: bulk::records(2_000, 2) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn recording(&self, name: &str) -> Writer {
        let options = WriterOptions { batch_rows: 500, ..WriterOptions::default() };
        let meta = Meta { filters: "port 5201".into(), ..Meta::default() };
        let mut writer = Writer::create(self.path(name), &meta, options).unwrap();
        for raw in &self.records {
            writer.push(raw).unwrap();
        }
        writer
    }

    fn finished(&self) -> PathBuf {
        self.recording("in").finish(Footer { end_ns: 5, ..Footer::default() }).unwrap().path
    }

    fn files(&self) -> usize {
        fs::read_dir(self.directory.path()).unwrap().count()
    }
}

fn turn(input: &Path, target: Target, output: &Path) -> convert::Converted {
    convert::write_file(&mut Reader::open(input).unwrap(), target, output, Replace::Never).unwrap()
}

fn events(path: &Path) -> Vec<Event> {
    Reader::open(path).unwrap().map(Result::unwrap).collect()
}

#[test]
fn parquet_to_stream_and_back_keeps_events_meta_and_footer() {
    let place = Place::new();
    let input = place.finished();
    let (stream, parquet) = (place.path("s.arrow"), place.path("p.parquet"));
    turn(&input, Target::Arrow, &stream);
    let done = turn(&stream, Target::Parquet, &parquet);
    assert_eq!((done.events, done.cut), (2_000, false));
    let (first, last) = (Reader::open(&input).unwrap(), Reader::open(&parquet).unwrap());
    assert_eq!(Reader::open(&stream).unwrap().format(), Format::ArrowStream);
    assert_eq!((first.meta(), first.footer()), (last.meta(), last.footer()));
    assert_eq!(last.footer().unwrap().events, 2_000);
    assert!(events(&input) == events(&stream) && events(&stream) == events(&parquet));
}

#[test]
fn what_is_made_of_a_cut_recording_says_that_it_is_cut() {
    let place = Place::new();
    drop(place.recording("in"));
    let whole = fs::read(place.path("in")).unwrap();
    fs::write(place.path("in"), &whole[..whole.len() - 100]).unwrap();
    for (target, name) in [(Target::Parquet, "p"), (Target::Arrow, "s")] {
        let done = turn(&place.path("in"), target, &place.path(name));
        assert!(done.cut && done.events.is_multiple_of(500) && done.events >= 1_000, "{done:?}");
        let mut reader = Reader::open(place.path(name)).unwrap();
        assert_eq!(reader.by_ref().map(Result::unwrap).count() as u64, done.events);
        assert!(reader.is_cut(), "{name}");
    }
}

#[test]
fn a_stream_made_of_a_whole_recording_and_then_cut_has_no_footer() {
    let place = Place::new();
    let stream = place.path("s");
    turn(&place.finished(), Target::Arrow, &stream);
    assert!(Reader::open(&stream).unwrap().footer().is_some());
    let whole = fs::read(&stream).unwrap();
    fs::write(&stream, &whole[..whole.len() - 9]).unwrap();
    assert!(turn(&stream, Target::Parquet, &place.path("p")).cut);
    let parquet = Reader::open(place.path("p")).unwrap();
    assert!(parquet.is_cut() && parquet.footer().is_none());
}

#[test]
fn csv_has_a_line_an_event_and_the_columns_of_the_parquet_file() {
    let place = Place::new();
    let out = place.path("t.csv");
    turn(&place.finished(), Target::Csv, &out);
    let text = fs::read_to_string(out).unwrap();
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    assert_eq!(&header[..4], ["time_utc", "time_ns", "kind", "place"]);
    assert_eq!(header.last(), Some(&"sack_blocks"));
    let open: Vec<&str> = lines.next().unwrap().split(',').collect();
    assert_eq!((open.len(), open[2]), (header.len(), "open"));
    assert_eq!(lines.count(), 1_999);
}

#[test]
fn every_row_of_csv_and_json_names_its_connection_and_the_wall_time() {
    let place = Place::new();
    let input = place.finished();
    turn(&input, Target::JsonLines, &place.path("j"));
    turn(&input, Target::Csv, &place.path("c"));
    for line in fs::read_to_string(place.path("j")).unwrap().lines() {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        let port = row["cookie"].as_u64().unwrap() - 0x1000 + 40_000;
        assert_eq!(row["local_port"], port, "{line}");
        assert_eq!((&row["remote_addr"], &row["program"]), (&"10.0.0.2".into(), &"iperf".into()));
        // The made-up recording has no offset: 45,000 s after 1970.
        assert!(row["time_utc"].as_str().unwrap().starts_with("1970-01-01T12:30:0"), "{line}");
    }
    let text = fs::read_to_string(place.path("c")).unwrap();
    let header: Vec<&str> = text.lines().next().unwrap().split(',').collect();
    let at = |name: &str| header.iter().position(|column| *column == name).unwrap();
    for line in text.lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        assert!(cells[at("time_utc")].starts_with("1970-01-01T12:30:0"), "{line}");
        assert_eq!((cells[at("remote_port")], cells[at("algorithm")]), ("5201", "cubic"));
        let is_ack = cells[at("kind")] == "ack";
        assert_eq!(cells[at("acked_bytes")].is_empty(), !is_ack, "{line}");
    }
}

#[test]
fn the_text_formats_of_the_event_room_are_one_line_an_event() {
    let place = Place::new();
    let input = place.finished();
    turn(&input, Target::JsonLines, &place.path("j"));
    let json = fs::read_to_string(place.path("j")).unwrap();
    assert!(json.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()));
    assert_eq!(json.lines().count(), 2_000);

    let done = turn(&input, Target::Paper { capacity: 100 }, &place.path("p"));
    let paper = fs::read_to_string(place.path("p")).unwrap();
    let opens = events(&input).iter().filter(|event| event.kind == Kind::Open).count();
    assert_eq!(done.left_out as usize, opens);
    assert_eq!(paper.lines().count(), 2_000 - opens);
    assert!(paper.lines().nth(150).unwrap().ends_with("[log 50/99/150]"));
}

#[test]
fn an_output_that_exists_is_kept_unless_told_otherwise() {
    let place = Place::new();
    let input = place.finished();
    let out = place.path("out");
    fs::write(&out, "precious").unwrap();
    let mut reader = Reader::open(&input).unwrap();
    let error = convert::write_file(&mut reader, Target::Csv, &out, Replace::Never).unwrap_err();
    assert!(error.to_string().contains("--force"), "{error}");
    assert_eq!(fs::read(&out).unwrap(), b"precious");
    convert::write_file(&mut reader, Target::Csv, &out, Replace::Always).unwrap();
    assert!(fs::read(&out).unwrap().starts_with(b"time_utc,"));
}

#[test]
fn a_device_is_never_replaced_and_a_link_keeps_pointing() {
    use std::os::unix::fs::{FileTypeExt, symlink};
    let place = Place::new();
    let input = place.finished();
    // A link to a device, so that even a wrong program takes away only the link.
    let (device, link) = (place.path("device"), place.path("link"));
    symlink("/dev/null", &device).unwrap();
    let mut reader = Reader::open(&input).unwrap();
    convert::write_file(&mut reader, Target::Csv, &device, Replace::Always).unwrap();
    assert!(fs::metadata(&device).unwrap().file_type().is_char_device());

    fs::write(place.path("target"), "old").unwrap();
    symlink("target", &link).unwrap();
    convert::write_file(&mut reader, Target::Csv, &link, Replace::Always).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(fs::read(place.path("target")).unwrap().starts_with(b"time_utc,"));
}

#[test]
fn a_conversion_that_fails_leaves_nothing_behind() {
    let place = Place::new();
    let input = place.path("in");
    drop(place.recording("in"));
    let mut bytes = fs::read(&input).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..].fill(0x55);
    fs::write(&input, bytes).unwrap();
    let mut reader = Reader::open(&input).unwrap();
    let result = convert::write_file(&mut reader, Target::Csv, &place.path("out"), Replace::Never);
    let error = format!("{:#}", result.unwrap_err());
    assert!(error.contains("in after "), "{error}");
    assert_eq!(place.files(), 1);
}

#[test]
fn a_raw_stream_is_read_as_the_trace_that_it_is_and_converts_to_the_same_table() {
    let place = Place::new();
    let recorded = place.finished();
    let raw = place.path("raw");
    let meta = Meta { filters: "port 5201".into(), ..Meta::default() };
    let options = Options { coding: Coding::Zstd(1), block_records: 300 };
    let file = fs::File::create(&raw).unwrap();
    let mut writer = transom_raw_stream::Writer::new(file, &meta, options).unwrap();
    for record in &place.records {
        writer.push(record).unwrap();
    }
    writer.finish(Footer { end_ns: 5, ..Footer::default() }).unwrap();

    let mut reader = Reader::open(&raw).unwrap();
    assert_eq!((reader.format(), reader.is_cut()), (Format::RawStream, false));
    assert_eq!(reader.meta(), &meta);
    assert_eq!(reader.footer().map(|footer| footer.events), Some(2_000));
    let events: Vec<Event> = reader.by_ref().map(Result::unwrap).collect();
    assert!(events.iter().map(transom_event::Raw::from).eq(place.records.iter().copied()));

    let table = place.path("table.parquet");
    let mut reader = Reader::open(&raw).unwrap();
    convert::write_file(&mut reader, Target::Parquet, &table, Replace::Never).unwrap();
    let lines = |path: &Path| {
        let mut lines = Vec::new();
        convert::write_to(&mut Reader::open(path).unwrap(), Target::Csv, &mut lines).unwrap();
        lines
    };
    assert_eq!(lines(&table), lines(&recorded));
}
