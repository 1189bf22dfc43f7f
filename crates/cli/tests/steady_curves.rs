//! The curves of docs/steady.md: the same transfer under each algorithm, over a
//! link of 20 Mbit/s behind which three segments in a thousand are lost on the air.
//!
//! `CURVES=DIRECTORY cargo test -p transom --test steady_curves -- --ignored`

use std::io::{Read, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use transom_event::{Kind, fields};
use transom_testbed::tuned::Setting;
use transom_testbed::{
    Fate, Path, Recording, Towards, Trace, needs_probes, pair, set_algorithm, set_linger_zero,
    transom,
};

/// One way.
const DELAY: Duration = Duration::from_millis(32);
const TIME: Duration = Duration::from_secs(10);
const LOST_OF: u64 = 333;

/// 20 Mbit/s: a segment of 1500 bytes each 0.6 ms.
const SEGMENT: Duration = Duration::from_micros(600);
/// What the queue before it holds: 100 segments.
const QUEUE: Duration = Duration::from_millis(60);

/// A link of 20 Mbit/s behind which the air loses one segment in so many, always the same ones.
fn lossy(path: &Path) {
    let mut random = 0x2545_f491_4f6c_dd1du64;
    let mut free_at = Instant::now();
    path.judge(move |towards, segment| {
        if towards == Towards::Left || segment.payload == 0 {
            return Fate::Pass;
        }
        let now = Instant::now();
        let waits = free_at.saturating_duration_since(now);
        if waits > QUEUE {
            return Fate::Drop;
        }
        free_at = now + waits + SEGMENT;
        // xorshift (Marsaglia 2003).
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        if random.is_multiple_of(LOST_OF) { Fate::Drop } else { Fate::Late(waits + SEGMENT) }
    });
}

/// Sends for ten seconds; Mbit/s, share of retransmissions, and what was drawn.
fn run(name: &str, algorithm: &str, words: &[&str], to: &std::path::Path) -> (f64, f64) {
    let path = Path::new(DELAY);
    let _setting = (!words.is_empty()).then(|| Setting::unguarded(path.left.name(), words));
    let recording = Recording::start(&["--netns", path.left.name()]);
    let (mut client, mut server) = pair(&path);
    if words.is_empty() {
        set_algorithm(&client, algorithm);
    }
    lossy(&path);
    let start = Instant::now();
    // What has come when the time is over counts, not what still waits.
    let reader = std::thread::spawn(move || {
        let (mut in_time, mut buffer) = (0u64, vec![0; 1 << 16]);
        while let Ok(length @ 1..) = server.read(&mut buffer) {
            in_time += if start.elapsed() < TIME { length as u64 } else { 0 };
        }
        in_time
    });
    while start.elapsed() < TIME {
        client.write_all(&[7; 16 * 1448]).expect("the connection holds");
    }
    set_linger_zero(&client);
    drop(client);
    let file = to.join(format!("{name}.parquet"));
    let received = reader.join().expect("the reader ends");
    let mut recording = recording;
    recording.signal(libc::SIGINT);
    let (code, errors) = recording.wait();
    assert_eq!(code, 0, "the recorder failed: {errors}");
    std::fs::copy(recording.file(), &file).expect("a copy");
    let trace = Trace::read(&file);
    let sent: u32 = trace.of(Kind::Send).iter().map(|e| fields::sent(e.aux).1).sum();
    let again: u32 = trace.of(Kind::Retransmit).iter().map(|event| event.retransmit().1).sum();
    (received as f64 * 8.0 / TIME.as_secs_f64() / 1e6, f64::from(again) / f64::from(sent.max(1)))
}

#[test]
#[ignore = "draws the pictures of docs/steady.md"]
fn curves() {
    needs_probes!();
    let to = PathBuf::from(std::env::var("CURVES").expect("CURVES=DIRECTORY"));
    let eighth = ["--algorithm", "steady", "--target", "70", "--cap", "100"];
    let none = ["--algorithm", "steady", "--target", "70", "--cap", "100", "--backoff", "0"];
    for (name, algorithm, words) in [
        ("reno", "reno", &[][..]),
        ("cubic", "cubic", &[]),
        ("bbr", "bbr", &[]),
        ("steady", "steady", &eighth),
        ("steady-no-backoff", "steady", &none),
    ] {
        let (mbit, again) = run(name, algorithm, words, &to);
        println!("{name:<18} {mbit:6.2} Mbit/s  {:5.2} % retransmitted", again * 100.0);
        let status = transom()
            .args(["report", "--force", "--png-width", "900", "--top", "1", "--png"])
            .arg(to.join(name))
            .arg(to.join(format!("{name}.parquet")))
            .status();
        assert!(status.expect("transom runs").success());
    }
}
