//! What `record` says of itself: that it is ready, and what it recorded.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use transom_event::LossCause;
use transom_monitor::{ProcessOne, Source, clock};
use transom_output::{note, say};
use transom_trace::Recorded;

use crate::captured::Written;

/// How long a loss that only process 1 explains is looked into.
const LOOK: Duration = Duration::from_secs(1);

/// How it is said.
pub struct Messages {
    pub json: bool,
    pub quiet: bool,
    /// The standard output is free for them: neither a program of the user nor the trace has it.
    pub has_stdout: bool,
}

impl Messages {
    fn line(&self, line: &Value) {
        if self.has_stdout {
            let _ = say!("{line}");
        } else {
            note!("{line}");
        }
    }

    /// The probes are attached and the file is there: what happens from now on is recorded.
    pub fn ready(&self, source: &Source, file: &Path) {
        let file = file.display();
        if self.json {
            self.line(&json!({
                "ready": true, "file": file.to_string(), "probes": source.probes(),
                "note": source.note(),
            }));
        } else if !self.quiet {
            note!("transom: ready, recording to {file}");
        }
    }

    /// `packets`: the file of `--pcap`, if there is one.
    pub fn summary(&self, recorded: &Recorded, packets: Option<&Written>, took: Duration) {
        if self.quiet {
            return;
        }
        let unseen = recorded.lost.contains_key(&LossCause::UnseenSend);
        let process_1 = if unseen { ProcessOne::test(LOOK).ok() } else { None };
        if self.json {
            self.line(&as_json(recorded, packets, process_1, took));
        } else {
            print_summary(recorded, process_1);
            packets.inspect(|packets| print_packets(packets));
        }
    }
}

fn as_json(
    recorded: &Recorded,
    packets: Option<&Written>,
    process_1: Option<ProcessOne>,
    took: Duration,
) -> Value {
    let files = recorded.files.iter().map(|file| {
        json!({
            "file": file.path.display().to_string(), "events": file.events, "bytes": file.bytes,
        })
    });
    let lost: serde_json::Map<String, Value> =
        recorded.lost.iter().map(|(cause, n)| (cause.to_string(), (*n).into())).collect();
    let mut line = json!({
        "done": true,
        "events": recorded.events,
        "connections": recorded.connections,
        "lost": lost,
        "unseen_because_of_process_1": process_1.map(|found| found == ProcessOne::Unseen),
        "files": files.collect::<Vec<_>>(),
        "duration_s": took.as_secs_f64(),
        "clock_step_s": recorded.clock_step_ns as f64 / 1e9,
    });
    if let Some(written) = packets {
        line["pcap"] = written.file.display().to_string().into();
        line["packets"] = written.packets.into();
        line["packets_lost"] = written.lost.into();
    }
    line
}

/// A name with the date and the time that is nobody's yet, nor that of a row of files.
pub fn fresh_path(folder: &Path, begins: &str) -> PathBuf {
    let entries = fs::read_dir(Path::new(".").join(folder)).into_iter().flatten().flatten();
    let taken: Vec<OsString> = entries.map(|entry| entry.file_name()).collect();
    let is_free = |stem: &String| {
        let stem = format!("{stem}.");
        !taken.iter().any(|name| name.as_encoded_bytes().starts_with(stem.as_bytes()))
    };
    let first = format!("{begins}{}", clock::calendar(SystemTime::now()));
    let numbered = (1..).map(|number| format!("{first}-{number}"));
    let mut names = std::iter::once(first.clone()).chain(numbered);
    folder.join(format!("{}.parquet", names.find(is_free).unwrap_or_default()))
}

pub fn size(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} B"),
        10_000..10_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

pub fn print_summary(recorded: &Recorded, process_1: Option<ProcessOne>) {
    for file in &recorded.files {
        note!("transom: {} in {}", contents(file.events, file.bytes), file.path.display());
    }
    print_losses(&recorded.lost, recorded.clock_step_ns as f64 / 1e9, process_1);
}

/// How many events, and what they take. A file without any is its frame alone.
fn contents(events: u64, bytes: u64) -> String {
    let each = match events {
        0 => String::new(),
        _ => format!(" ({:.1} B each)", bytes as f64 / events as f64),
    };
    format!("{events} events, {}{each}", size(bytes))
}

/// What is missing in a trace, and whether its wall times are another clock's by now.
fn print_losses(lost: &BTreeMap<LossCause, u64>, clock_step_s: f64, process_1: Option<ProcessOne>) {
    for (&cause, lost) in lost {
        let what = cause.told_as("events were lost");
        note!("transom: {lost} {what}, {cause}: {}", remedy(cause, process_1));
    }
    if clock_step_s != 0.0 {
        note!(
            "transom: the clock was set by {clock_step_s:+.3} s meanwhile: time_utc is by the clock \
             at the start"
        );
    }
    if lost.is_empty() {
        note!("transom: no event was lost");
    }
}

/// The same of a recorder that ran elsewhere, by its last line of JSON.
pub fn print_losses_of(done: &Value) {
    let counts = done["lost"].as_object().into_iter().flatten();
    let lost = counts.filter_map(|(cause, n)| Some((LossCause::from_name(cause)?, n.as_u64()?)));
    let is_unseen = done["unseen_because_of_process_1"] == true;
    let clock_step_s = done["clock_step_s"].as_f64().unwrap_or(0.0);
    print_losses(&lost.collect(), clock_step_s, is_unseen.then_some(ProcessOne::Unseen));
}

fn print_packets(written: &Written) {
    let file = written.file.display();
    note!("transom: {} packets beside the events in {file}", written.packets);
    if written.lost > 0 {
        note!("transom: {} packets were not captured in time", written.lost);
    }
}

fn remedy(cause: LossCause, process_1: Option<ProcessOne>) -> &'static str {
    match cause {
        LossCause::Ring => "a larger --ring or a --rate helps",
        LossCause::Storage => "a filter helps, or more memory for the kernel",
        LossCause::Recursion => "the kernel skips a probe that interrupts itself; a filter helps",
        LossCause::Segment => "segments whose header was not where the kernel said",
        LossCause::UnseenSend if process_1 == Some(ProcessOne::Unseen) => {
            "this kernel runs no probe while process 1 is current"
        }
        LossCause::UnseenSend => "they passed no probe on their way out; see `transom check`",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_no_event_has_no_size_of_each() {
        assert_eq!(contents(0, 12_249), "0 events, 12.2 kB");
        assert_eq!(contents(1889, 55_833), "1889 events, 55.8 kB (29.6 B each)");
    }
}
