//! The commands that the pages show, and the output under them.

use std::fs;
use std::path::{Path, PathBuf};

/// The repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub fn pages() -> Vec<PathBuf> {
    let mut pages = vec![root().join("README.md")];
    let folder = fs::read_dir(root().join("docs")).expect("docs");
    pages.extend(folder.map(|entry| entry.unwrap().path()));
    pages.retain(|path| path.extension().is_some_and(|it| it == "md"));
    pages.sort();
    pages
}

/// A command of a page, and the lines that the page shows under it.
pub struct Shown {
    pub place: String,
    pub command: String,
    /// After `$ `: what it prints is below it. Else only how it is called.
    pub is_run: bool,
    pub output: Vec<String>,
}

/// Commands in the fenced blocks of a page: lines after `$ `, with their output, and lines that
/// begin with one of our programs.
pub fn shown(page: &Path) -> Vec<Shown> {
    let text = fs::read_to_string(page).unwrap();
    let (mut all, mut fenced): (Vec<Shown>, bool) = (Vec::new(), false);
    let mut open = false;
    for (n, line) in text.lines().enumerate() {
        if line.starts_with("```") {
            (fenced, open) = (!fenced, false);
            continue;
        }
        if !fenced {
            continue;
        }
        let place = format!("{}:{}", page.file_name().unwrap().display(), n + 1);
        let bare = ["transom ", "sudo transom "].iter().any(|start| line.starts_with(start));
        if let Some(command) = line.strip_prefix("$ ") {
            all.push(Shown { place, command: command.into(), is_run: true, output: Vec::new() });
            open = true;
        } else if bare && !open {
            all.push(Shown { place, command: line.into(), is_run: false, output: Vec::new() });
        } else if open {
            all.last_mut().unwrap().output.push(line.to_owned());
        }
    }
    all
}

/// What follows a number and may be another one in another run.
const UNITS: [&str; 18] = [
    "us",
    "ms",
    "s",
    "min",
    "B",
    "kB",
    "MB",
    "KiB",
    "MiB",
    "GiB",
    "bit/s",
    "kbit/s",
    "Mbit/s",
    "Gbit/s",
    "B/s",
    "KBytes",
    "MBytes",
    "Mbits/sec",
];

const CA_STATES: [&str; 5] = ["open", "disorder", "cwr", "recovery", "loss"];

/// An event that was noticed where the next one happened.
fn tells_a_change(line: &str) -> bool {
    [" algorithm ", " clamp ", " action "].iter().any(|kind| line.contains(kind))
}

/// A line without what differs between two runs: letters stay, each number with its unit becomes
/// `N`, bars go. Of a JSON object the keys stay.
pub fn shape(line: &str) -> String {
    if let Ok(serde_json::Value::Object(object)) = serde_json::from_str(line) {
        return object.keys().map(String::as_str).collect::<Vec<_>>().join(" ");
    }
    let mut shape: Vec<String> = Vec::new();
    for word in line.split_whitespace() {
        let core = word.trim_matches(|c: char| ",;:()[]>↑↓".contains(c));
        let number = |text: &str| {
            if text == "-" {
                return true; // a number that is not there
            }
            text.trim_start_matches('-').starts_with(|c: char| c.is_ascii_digit())
                || text.len() == 8 && text.chars().all(|c| c.is_ascii_hexdigit())
        };
        match core.split_once('=') {
            Some((key, value)) if number(value) => shape.push(format!("{key}=N")),
            _ if number(core) => shape.push("N".into()),
            // A socket's cookie.
            _ if core.strip_prefix('#').is_some_and(number) => shape.push("#N".into()),
            // What changes outside of the code that is probed is told with the next event.
            _ if core.starts_with('@') && tells_a_change(line) => shape.push("@PLACE".into()),
            _ if UNITS.contains(&core) && shape.last().is_some_and(|last| last == "N") => {}
            _ if core.chars().all(|c| "#█".contains(c)) => {}
            // The congestion state that the last fields of an event, or a table, tell.
            _ if CA_STATES.contains(&core)
                && shape.last().is_some_and(|it| it == "rto=N" || it == "established") =>
            {
                shape.push("CA".into());
            }
            // A file of a number.
            _ => shape.push(core.replace(|c: char| c.is_ascii_digit(), "N")),
        }
    }
    shape.join(" ")
}

/// The phrases of a text, each as [`shape`] has it: what lies between two marks of punctuation,
/// however the lines are wrapped.
pub fn phrases(lines: &[String]) -> Vec<String> {
    let text = lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ");
    let (mut all, mut phrase) = (Vec::new(), String::new());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        // Not the points of numbers and addresses.
        let is_last = letters.peek().is_none_or(|next| next.is_whitespace() || *next == '#');
        if is_last && ",.:;()>#".contains(letter) {
            all.push(std::mem::take(&mut phrase));
        } else {
            phrase.push(letter);
        }
    }
    all.push(phrase);
    all.iter().map(|phrase| shape(phrase)).filter(|phrase| phrase.len() > 1).collect()
}

/// Both without what only some machines say: that they ran no probe while process 1 was current, or while
/// another probe was interrupted, in place of that no event was lost, or that the lab was short of processors and ran something once more.
fn without_the_machines(page: &[String], real: &[String]) -> (Vec<String>, Vec<String>) {
    let causes = ["unseen_send", "probe_recursion"];
    let hides =
        |line: &String| causes.iter().any(|cause| line.contains(cause)) && !line.starts_with('{');
    let is_whole = |line: &String| line.contains("no event was lost");
    let is_busy = |line: &String| line.contains(": rejected, ") && line.ends_with("once more");
    let hidden = [page, real].map(|lines| lines.iter().any(hides));
    let kept = |lines: &[String], other_hides: bool| {
        let mut lines = lines.to_vec();
        lines.retain(|line| {
            let is_the_machines = hides(line) || is_busy(line) || other_hides && is_whole(line);
            !is_the_machines
        });
        lines
    };
    (kept(page, hidden[1]), kept(real, hidden[0]))
}

/// Why `real` is not what the page shows, if it is not: the lines of the page come in `real` in
/// this order, `…` stands for any lines or the rest of one, and without it there are no others.
pub fn differs(page: &[String], real: &[String]) -> Option<String> {
    let is_left_out = page.iter().any(|line| line.trim() == "…");
    let (page, real) = without_the_machines(page, real);
    let shapes = |lines: &[String]| -> Vec<String> {
        lines.iter().map(|line| shape(line)).filter(|line| !line.is_empty()).collect()
    };
    let (page, real) = (shapes(&page), shapes(&real));
    let is = |shown: &str, real: &str| match shown.strip_suffix('…') {
        Some(start) => real.starts_with(start.trim_end()),
        None => shown == real,
    };
    let mut left = real.iter();
    for shown in page.iter().filter(|line| *line != "…") {
        if !left.any(|real| is(shown, real)) {
            return Some(format!("it does not print (here): {shown}"));
        }
    }
    let strange = real.iter().find(|real| !page.iter().any(|shown| is(shown, real)));
    strange.filter(|_| !is_left_out).map(|line| format!("the page does not show: {line}"))
}

/// The same where the text depends on the run: which share of the page's phrases is in `real`.
pub fn share_found(page: &[String], real: &[String]) -> f64 {
    let (page, real) = without_the_machines(page, real);
    let (page, real) = (phrases(&page), phrases(&real));
    let found = page.iter().filter(|phrase| real.contains(phrase)).count();
    found as f64 / page.len().max(1) as f64
}

#[test]
fn a_shape_is_a_line_without_its_numbers() {
    assert_eq!(shape("  1.28 s, 7 MiB up at 19.6 Mbit/s (0.05%)"), "N N up at N N");
    assert_eq!(shape("cwnd=71 in_flight=69 srtt=0.0ms open"), "cwnd=N in_flight=N srtt=N open");
    assert_eq!(shape("open -> loss rto=20ms recovery @x"), "open N loss rto=N CA @x");
    assert_eq!(shape("[1] clamp 30 @tcp_ack"), shape("[2] clamp 30 @tcp_set_state"));
    assert_ne!(shape("[1] ack 30 @tcp_ack"), shape("[1] ack 30 @tcp_set_state"));
    assert_eq!(shape(r#"{"b": 1, "a": {"c": 2}}"#), shape(r#"{"a": {"d": 0}, "b": 7}"#));
    assert_eq!(shape("pacing   5%  ##"), "pacing N");
    assert_eq!(shape("on connection #1036987"), shape("on connection #12"));
}

#[test]
fn a_page_that_shows_another_output_is_found_out() {
    let lines = |text: &str| -> Vec<String> { text.lines().map(str::to_owned).collect() };
    let real = lines("ready\n3 events, 5 kB\nno event was lost");
    assert_eq!(differs(&lines("ready\n12 events, 1 MB\nno event was lost"), &real), None);
    assert_eq!(differs(&lines("ready\n…"), &real), None);
    assert_eq!(differs(&lines("…\n3 events …\n…"), &real), None);
    assert!(differs(&lines("ready\n3 events, 5 kB"), &real).is_some(), "a line more");
    assert!(differs(&lines("3 events, 5 kB\nready\n…"), &real).is_some(), "another order");
    assert!(differs(&lines("…\n3 records, 5 kB"), &real).is_some(), "another word");
    let hidden = lines("ready\n3 events, 5 kB\n7 segments left unseen, unseen_send: this kernel");
    for (page, real) in [(&real, &hidden), (&hidden, &real), (&hidden, &hidden)] {
        assert_eq!(differs(page, real), None);
        assert_eq!(share_found(page, real), 1.0);
    }
    assert!(differs(&real, &lines("ready\n3 events, 5 kB")).is_some(), "a line less");
    let [seen, unseen] = [r#"{"lost":{}}"#, r#"{"lost":{"unseen_send":2}}"#].map(lines);
    assert_eq!(differs(&seen, &unseen), None, "an object is held against its keys");
    let wrapped = lines("Limited by the\n  device 96% of the time. Next: pacing");
    assert_eq!(share_found(&lines("Limited by the device 3% of the time."), &wrapped), 1.0);
    assert_eq!(share_found(&lines("Limited by the program, 3% of it."), &wrapped), 0.0);
}
