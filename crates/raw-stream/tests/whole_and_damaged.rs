//! What was written is read, and of a damaged file what lies before the damage.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use bytemuck::Zeroable;
use proptest::prelude::*;
use transom_event::{Kind, LossCause, RAW_LEN, Raw};
use transom_raw_stream::{Coding, Footer, MAGIC, Meta, Options, Reader, Writer};

fn record(number: u64) -> Raw {
    let mut raw = Raw::zeroed();
    raw.head.time_ns = 1_000 * number;
    raw.head.cookie = number % 7;
    raw.head.kind = Kind::Ack as u8;
    raw.body[3] = number;
    raw
}

fn meta() -> Meta {
    let mut meta = Meta { host: "a\nb\\n=c".to_owned(), us_per_jiffy: 4_000, ..Meta::default() };
    meta.extra.insert("agent.level".to_owned(), "2\r".to_owned());
    meta
}

fn footer(records: u64) -> Footer {
    let mut footer = Footer { events: records, end_ns: 77, ..Footer::default() };
    footer.lost.insert(LossCause::Ring, 3);
    footer
}

fn begin(path: &Path, coding: Coding, block_records: usize) -> Writer<File> {
    let options = Options { coding, block_records };
    Writer::new(File::create(path).unwrap(), &meta(), options).unwrap()
}

fn write(path: &Path, coding: Coding, block_records: usize, records: u64) {
    let mut writer = begin(path, coding, block_records);
    for number in 0..records {
        writer.push(&record(number)).unwrap();
    }
    assert_eq!(writer.events(), records);
    writer.finish(footer(0)).unwrap();
}

/// The records up to the end or the damage, the reader, and what it said of the damage.
fn read(path: &Path) -> (Vec<Raw>, Option<Reader>, Option<String>) {
    let mut reader = match Reader::open(File::open(path).unwrap()) {
        Ok(reader) => reader,
        Err(error) => return (Vec::new(), None, Some(format!("{error:#}"))),
    };
    let mut records = Vec::new();
    let error = loop {
        match reader.next_block() {
            Ok(Some(block)) => records.extend(block),
            Ok(None) => break None,
            Err(error) => break Some(format!("{error:#}")),
        }
    };
    (records, Some(reader), error)
}

fn any_coding() -> impl Strategy<Value = Coding> {
    prop_oneof![
        Just(Coding::Plain),
        Just(Coding::Delta),
        Just(Coding::Zstd(1)),
        Just(Coding::Zstd(-5))
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_record_and_all_about_the_recording_comes_back(
        coding in any_coding(),
        block_records in 1_usize..50,
        records in 0_u64..200,
    ) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t");
        write(&path, coding, block_records, records);
        let (found, reader, error) = read(&path);
        prop_assert_eq!(error, None);
        prop_assert_eq!(found, (0..records).map(record).collect::<Vec<_>>());
        let reader = reader.unwrap();
        prop_assert_eq!(reader.meta(), &meta());
        prop_assert_eq!(reader.footer(), Some(&footer(records)));
        prop_assert!(!reader.is_cut());
    }

    #[test]
    fn a_file_cut_anywhere_is_called_cut_and_loses_only_its_last_block(
        coding in any_coding(),
        block_records in 1_usize..20,
        cut in 1_usize..6_000,
    ) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t");
        write(&path, coding, block_records, 100);
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len().saturating_sub(cut)]).unwrap();
        let (found, reader, error) = read(&path);
        prop_assert_eq!(&found, &(0..found.len() as u64).map(record).collect::<Vec<_>>());
        match reader {
            Some(reader) => {
                prop_assert_eq!(error, None);
                prop_assert!(reader.is_cut());
                prop_assert_eq!(reader.footer(), None);
                prop_assert!(found.len() == 100 || found.len().is_multiple_of(block_records));
                if coding == Coding::Plain {
                    // A block, its frame, and less than 1 KiB of end and trailer.
                    let lost = 100 - found.len();
                    prop_assert!(lost * RAW_LEN <= cut + block_records * (RAW_LEN + 20));
                }
            }
            None => prop_assert!(error.unwrap().contains("before its header")),
        }
    }

    #[test]
    fn a_changed_byte_never_changes_a_record(
        coding in any_coding(),
        at in any::<prop::sample::Index>(),
        change in 1_u8..,
    ) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t");
        write(&path, coding, 10, 100);
        let mut bytes = fs::read(&path).unwrap();
        let at = at.index(bytes.len());
        bytes[at] ^= change;
        fs::write(&path, bytes).unwrap();
        let (found, reader, error) = read(&path);
        prop_assert_eq!(&found, &(0..found.len() as u64).map(record).collect::<Vec<_>>());
        prop_assert!(found.len() == 100 || error.is_some() || reader.unwrap().is_cut());
    }

    #[test]
    fn noise_after_the_header_is_no_panic(noise: Vec<u8>) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t");
        drop(begin(&path, Coding::Plain, 10));
        File::options().append(true).open(&path).unwrap().write_all(&noise).unwrap();
        read(&path);
    }
}

#[test]
fn a_writer_that_was_dropped_leaves_all_blocks_and_a_file_that_is_cut() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t");
    let mut writer = begin(&path, Coding::Zstd(1), 64);
    for number in 0..100 {
        writer.push(&record(number)).unwrap();
    }
    writer.flush().unwrap();
    writer.push(&record(100)).unwrap();
    drop(writer);
    let (found, reader, error) = read(&path);
    assert_eq!((found.len(), error), (100, None));
    assert!(reader.unwrap().is_cut());
}

#[test]
fn a_tail_of_zeros_is_a_cut() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t");
    let mut writer = begin(&path, Coding::Plain, 10);
    for number in 0..10 {
        writer.push(&record(number)).unwrap();
    }
    drop(writer);
    File::options().append(true).open(&path).unwrap().write_all(&[0; 4096]).unwrap();
    let (found, reader, error) = read(&path);
    assert_eq!((found.len(), error), (10, None));
    assert!(reader.unwrap().is_cut());
}

#[test]
fn a_damaged_block_among_others_is_an_error_and_those_before_it_are_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t");
    write(&path, Coding::Plain, 10, 30);
    let mut bytes = fs::read(&path).unwrap();
    let mut frames = (0..bytes.len()).filter(|&at| bytes[at..].starts_with(b"TXF\x02"));
    let second = frames.nth(1).unwrap();
    bytes[second + 100] ^= 1;
    fs::write(&path, bytes).unwrap();
    let (found, _, error) = read(&path);
    assert_eq!(found.len(), 10);
    assert!(error.unwrap().contains("checksum"));
}

#[test]
fn a_file_of_a_newer_version_is_refused_by_its_name() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t");
    write(&path, Coding::Plain, 10, 10);
    let mut bytes = fs::read(&path).unwrap();
    bytes[7] = MAGIC[7] + 1;
    fs::write(&path, bytes).unwrap();
    let (_, reader, error) = read(&path);
    assert!(reader.is_none());
    assert!(error.unwrap().contains("use a newer transom"));
}

/// Takes `room` bytes and no more.
struct Disk {
    room: usize,
}

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let taken = bytes.len().min(self.room);
        self.room -= taken;
        if taken == 0 && !bytes.is_empty() {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        Ok(taken)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn nothing_follows_a_block_that_a_full_disk_took_in_part() {
    let options = Options { coding: Coding::Plain, block_records: 10 };
    let mut writer = Writer::new(Disk { room: 3_000 }, &meta(), options).unwrap();
    let results: Vec<bool> = (0..60).map(|number| writer.push(&record(number)).is_ok()).collect();
    assert!(results[..10].iter().all(|&written| written));
    assert!(!results[29] && !results[39]);
    assert!(writer.finish(footer(0)).is_err());
}
