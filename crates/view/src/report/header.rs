//! The words above the charts: what was recorded, and what is missing from it.

use transom_analysis::Recording;
use transom_event::text::Utc;
use transom_event::{Kind, LossCause};

use super::PageMeta;

/// Text that is safe inside an element and inside a quoted attribute.
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            // XML has no place for the last two either.
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

/// A number with its thousands apart, by narrow spaces.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

fn seconds(ns: u64) -> String {
    match ns {
        0..=999_999 => format!("{} µs", ns / 1000),
        1_000_000..=999_999_999 => format!("{:.1} ms", ns as f64 / 1e6),
        1_000_000_000..=599_999_999_999 => format!("{:.1} s", ns as f64 / 1e9),
        _ => {
            let s = ns / 1_000_000_000;
            match s / 3600 {
                0 => format!("{} min {} s", s / 60, s % 60),
                hours => format!("{hours} h {} min", s / 60 % 60),
            }
        }
    }
}

pub fn plural(number: u64, word: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{} {word}{ending}", grouped(number))
}

/// The line of facts under the title, as HTML.
pub fn facts(recording: &Recording, meta: &PageMeta) -> String {
    let kernel =
        if meta.kernel.is_empty() { String::new() } else { format!("kernel {}", meta.kernel) };
    let started = meta.started_ns.map(utc).unwrap_or_default();
    let filters = if meta.sampling.is_empty() {
        String::new()
    } else {
        format!("recorded: {}", meta.sampling)
    };
    let known = [meta.host.clone(), kernel, started];
    let counted = [
        seconds(recording.duration_ns()),
        plural(recording.events, "event"),
        plural(recording.connections.len() as u64, "connection"),
        meta.recorder.clone(),
        filters,
    ];
    let shown = known.iter().chain(&counted).filter(|text| !text.is_empty());
    shown.map(|text| format!("<span>{}</span>", escape(text))).collect::<Vec<_>>().join(" ")
}

/// A time of the calendar, to the second.
fn utc(unix_ns: u64) -> String {
    Utc::from_us((unix_ns / 1000) as i64).format("%Y-%m-%d %H:%M:%S UTC")
}

/// Causes that lost something, and how much. The totals of the file are those of the whole
/// recording: where only a part of it is shown, the events of that part tell what it lost.
fn lost(recording: &Recording, meta: &PageMeta) -> Vec<(LossCause, u64)> {
    let count = |cause: LossCause| {
        let told = recording.lost.iter().filter(|lost| lost.1 == cause);
        let told: u64 = told.map(|lost| u64::from(lost.2)).sum();
        let total = meta.lost.get(&cause).filter(|_| recording.from_ns.is_none());
        (cause, told.max(total.copied().unwrap_or(0)))
    };
    LossCause::ALL.iter().map(|&cause| count(cause)).filter(|cause| cause.1 > 0).collect()
}

fn warning(text: &str) -> String {
    format!("<p class=\"notice warning\"><strong>{}</strong></p>", escape(text))
}

/// What a reader must know before believing the curves, as HTML.
pub fn notices(recording: &Recording, meta: &PageMeta) -> String {
    let mut html = String::new();
    let (unseen, lost): (Vec<_>, Vec<_>) =
        lost(recording, meta).into_iter().partition(|(cause, _)| cause.counts_segments());
    if !lost.is_empty() {
        let named = |(cause, count): &(LossCause, u64)| {
            format!("{} {}", cause.name().replace('_', " "), grouped(*count))
        };
        let causes: Vec<String> = lost.iter().map(named).collect();
        html += &warning(&format!(
            "{} could not be recorded ({}). Curves have gaps, which end at the marks of the lane \
             “events lost” or before.",
            plural(lost.iter().map(|cause| cause.1).sum(), "event"),
            causes.join(", ")
        ));
    }
    for (cause, segments) in unseen {
        html += &warning(&format!(
            "{} {}: they passed no probe on their way out.",
            grouped(segments),
            cause.told_as("events")
        ));
    }
    if meta.cut {
        html += &warning(
            "This recording was cut: the recorder ended before it could close the file. \
             Its last moments may be missing.",
        );
    }
    if let Some(from_ns) = recording.from_ns {
        let since = |ns: u64| seconds(ns.saturating_sub(recording.start_ns));
        html += &format!(
            "<p class=\"notice\">Only a part of the recording: from {} to {} after its begin.</p>",
            since(from_ns),
            since(recording.end_ns)
        );
    }
    if recording.events == 0 {
        html += &warning("This recording has no events.");
    }
    let polled = recording
        .connections
        .iter()
        .flat_map(|connection| &connection.points)
        .any(|point| point.kind == Kind::Sample);
    if polled {
        html += &warning(
            "Polled, not traced: some of this are samples of sock_diag. What happened between \
             two samples was not seen.",
        );
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_names_is_text() {
        assert_eq!(escape("<b a='\"'>&\n"), "&lt;b a=&#39;&quot;&#39;&gt;&amp;\u{fffd}");
        assert_eq!(escape("\u{fffe}\u{ffff}"), "\u{fffd}\u{fffd}");
    }

    #[test]
    fn the_calendar_has_leap_days() {
        assert_eq!(utc(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(utc(951_782_400_000_000_000), "2000-02-29 00:00:00 UTC");
        assert_eq!(utc(1_772_460_311_000_000_000), "2026-03-02 14:05:11 UTC");
    }

    #[test]
    fn a_long_recording_is_told_in_hours() {
        assert_eq!(seconds(59_900_000_000), "59.9 s");
        assert_eq!(seconds(3_599_000_000_000), "59 min 59 s");
        assert_eq!(seconds(23_403_000_000_000), "6 h 30 min");
    }

    #[test]
    fn thousands_stand_apart() {
        assert_eq!(grouped(1234567), "1\u{202f}234\u{202f}567");
        assert_eq!(grouped(999), "999");
    }
}
