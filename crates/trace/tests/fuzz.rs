//! Corrupt files: an error or fewer events, never a panic, never absurd memory.
//!
//! A bounded number of cases, the same in every run; `TRANSOM_FUZZ_CASES` sets
//! another number, `TRANSOM_FUZZ_SEED` another start.

mod bulk;

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use bulk::Random;
use transom_raw_stream::{Coding, Options};
use transom_trace::{Compression, Footer, Meta, Reader, Writer, WriterOptions};

/// Largest single allocation seen: a corrupt length shows up here.
struct Watched;

static LARGEST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system allocator as it came.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        LARGEST.fetch_max(size, Ordering::Relaxed);
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Watched = Watched;

const LIMIT: usize = 256 << 20;

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

fn stream(path: &Path, compression: Compression) -> Writer {
    let options = WriterOptions { compression, batch_rows: 128 };
    let mut writer = Writer::create(path, &Meta::of_this_machine(), options).unwrap();
    for raw in bulk::records(600, 3) {
        writer.push(&raw).unwrap();
    }
    writer.flush().unwrap();
    writer
}

/// One to four wounds: bytes changed, a word made huge, a stretch repeated or missing, the end cut.
fn wound(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(3) {
        if bytes.len() < 16 {
            return;
        }
        // Headers and footers are where lengths live: aim at the ends half of the time.
        let near = bytes.len().min(1 + 4_096) as u32;
        let at = match random.below(4) {
            0 => random.below(near) as usize,
            1 => bytes.len() - 1 - random.below(near - 1) as usize,
            _ => random.below(bytes.len() as u32) as usize,
        };
        let end = (at + 1 + random.below(64) as usize).min(bytes.len());
        match random.below(6) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.below(256) as u8,
            2 => bytes[at..end.min(at + 4)].fill([0, 0x7f, 0x80, 0xff][random.below(4) as usize]),
            3 => drop(bytes.drain(at..end)),
            4 => bytes.extend_from_within(at..end),
            _ => bytes.truncate(at),
        }
    }
}

fn survive(whole: &[u8], path: &Path, seed: u64, cases: u64) {
    let mut random = Random(seed);
    for case in 0..cases {
        let mut bytes = whole.to_vec();
        wound(&mut bytes, &mut random);
        fs::write(path, &bytes).unwrap();
        LARGEST.store(0, Ordering::Relaxed);
        let read = std::panic::catch_unwind(|| match Reader::open(path) {
            Ok(reader) => reader.take_while(Result::is_ok).count(),
            Err(error) => {
                let text = format!("{error:#}");
                assert!(text.contains(&path.display().to_string()), "{text}");
                0
            }
        });
        let largest = LARGEST.load(Ordering::Relaxed);
        if read.is_err() || largest > LIMIT {
            let keep = std::env::temp_dir().join("transom-fuzz-case");
            fs::copy(path, &keep).unwrap();
            panic!("case {case} of seed {seed}: {read:?}, {largest} B at once; {}", keep.display());
        }
    }
}

#[test]
fn a_corrupt_stream_is_survived() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.arrow");
    let cases = number("TRANSOM_FUZZ_CASES", 600);
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
        drop(stream(&path, compression));
        let whole = fs::read(&path).unwrap();
        survive(&whole, &path, number("TRANSOM_FUZZ_SEED", 1), cases);
    }
}

#[test]
fn a_corrupt_raw_stream_is_survived() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t");
    let cases = number("TRANSOM_FUZZ_CASES", 600);
    for coding in [Coding::Plain, Coding::Zstd(1)] {
        let options = Options { coding, block_records: 128 };
        let meta = Meta::of_this_machine();
        let file = fs::File::create(&path).unwrap();
        let mut writer = transom_raw_stream::Writer::new(file, &meta, options).unwrap();
        for raw in bulk::records(600, 3) {
            writer.push(&raw).unwrap();
        }
        writer.finish(Footer::default()).unwrap();
        let whole = fs::read(&path).unwrap();
        survive(&whole, &path, number("TRANSOM_FUZZ_SEED", 1), cases);
    }
}

/// A finished trace.
fn parquet(path: &Path) -> Vec<u8> {
    stream(path, Compression::Lz4).finish(Footer::default()).unwrap();
    fs::read(path).unwrap()
}

/// The same file, as a version wrote it that had no checksum.
fn without_checksum(mut bytes: Vec<u8>) -> Vec<u8> {
    let key = b"transom.crc32";
    let at = bytes.windows(key.len()).rposition(|window| window == key).unwrap();
    bytes[at + key.len() - 1] = b'_';
    bytes
}

#[test]
fn a_corrupt_parquet_file_is_survived() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t");
    let whole = without_checksum(parquet(&path));
    let cases = number("TRANSOM_FUZZ_CASES", 600);
    survive(&whole, &path, number("TRANSOM_FUZZ_SEED", 1), cases);
}

#[test]
fn one_changed_bit_of_a_parquet_file_is_an_error_or_changes_no_event() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t");
    let whole = parquet(&path);
    let read = || Reader::open(&path)?.collect::<anyhow::Result<Vec<_>>>();
    let events = read().unwrap();
    let mut random = Random(number("TRANSOM_FUZZ_SEED", 1));
    let mut told = 0;
    let cases = number("TRANSOM_FUZZ_CASES", 600);
    for case in 0..cases {
        let mut bytes = whole.clone();
        let at = random.below(bytes.len() as u32) as usize;
        bytes[at] ^= 1 << random.below(8);
        fs::write(&path, &bytes).unwrap();
        match read() {
            Ok(left) => assert!(left == events, "case {case}: byte {at}"),
            Err(error) => {
                let error = format!("{error:#}");
                assert!(error.contains(&path.display().to_string()), "{error}");
                told +=
                    u64::from(error.contains("it is damaged") && error.contains("copy it again"));
            }
        }
    }
    assert!(told > cases / 2, "{told} of {cases} by the checksum");
}

#[test]
fn a_parquet_file_without_a_checksum_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t");
    let bytes = without_checksum(parquet(&path));
    fs::write(&path, bytes).unwrap();
    assert_eq!(Reader::open(&path).unwrap().map(Result::unwrap).count(), 600);
}

#[test]
fn a_file_that_is_no_trace_is_named_with_what_was_expected() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t");
    for (bytes, says) in [
        (&b""[..], "it is empty"),
        (b"{\"a\":1}\n", "it begins with \"{\\\"a\\\":1}\\n\""),
        (b"ARROW1\0\0....", "Feather"),
        (b"PAR1", "footer is not readable"),
        (b"\xff\xff\xff\xff", "ends before its schema"),
        (b"\xff\xff\xff\xff\0\0\0\0", "ends before its schema"),
    ] {
        fs::write(&path, bytes).unwrap();
        let error = format!("{:#}", Reader::open(&path).err().unwrap());
        assert!(error.contains(says) && error.contains(&path.display().to_string()), "{error}");
    }
    for (path, says) in
        [(directory.path(), "it is a directory"), (Path::new("no/such"), "No such file")]
    {
        let error = format!("{:#}", Reader::open(path).err().unwrap());
        assert!(error.contains(says) && error.contains(&path.display().to_string()), "{error}");
    }
}
