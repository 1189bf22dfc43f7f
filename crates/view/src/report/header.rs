//! The words above the charts: what was recorded, and what is missing from it.

use transom_analysis::Recording;
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
            c if c.is_control() => safe.push('\u{fffd}'),
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
        0..1_000_000 => format!("{} µs", ns / 1000),
        0..1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        0..600_000_000_000 => format!("{:.1} s", ns as f64 / 1e9),
        _ => format!("{} min {} s", ns / 60_000_000_000, ns / 1_000_000_000 % 60),
    }
}

fn plural(number: u64, word: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{} {word}{ending}", grouped(number))
}

/// The line of facts under the title, as HTML.
pub fn facts(recording: &Recording, meta: &PageMeta) -> String {
    let kernel =
        if meta.kernel.is_empty() { String::new() } else { format!("kernel {}", meta.kernel) };
    let known = [meta.host.clone(), kernel, meta.started.clone()];
    let counted = [
        seconds(recording.end_ns.saturating_sub(recording.start_ns)),
        plural(recording.events, "event"),
        plural(recording.connections.len() as u64, "connection"),
        meta.recorder.clone(),
    ];
    let shown = known.iter().chain(&counted).filter(|text| !text.is_empty());
    shown.map(|text| format!("<span>{}</span>", escape(text))).collect::<Vec<_>>().join(" ")
}

fn warning(text: &str) -> String {
    format!("<p class=\"notice warning\"><strong>{}</strong></p>", escape(text))
}

/// What a reader must know before believing the curves, as HTML.
pub fn notices(recording: &Recording, meta: &PageMeta) -> String {
    let mut html = String::new();
    if recording.lost_events() > 0 {
        let causes: Vec<String> = LossCause::ALL
            .iter()
            .map(|&cause| {
                let of_cause = recording.lost.iter().filter(|lost| lost.1 == cause);
                (cause, of_cause.map(|lost| u64::from(lost.2)).sum::<u64>())
            })
            .filter(|&(_, count)| count > 0)
            .map(|(cause, count)| format!("{} {}", cause.name().replace('_', " "), grouped(count)))
            .collect();
        html += &warning(&format!(
            "{} could not be recorded ({}). Curves have gaps there: see the lane “events lost”.",
            plural(recording.lost_events(), "event"),
            causes.join(", ")
        ));
    }
    if meta.cut {
        html += &warning(
            "This recording was cut: the recorder ended before it could close the file. \
             Its last moments may be missing.",
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
    if !meta.sampling.is_empty() {
        html += &format!("<p class=\"notice\">Recorded: {}.</p>", escape(&meta.sampling));
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_names_is_text() {
        assert_eq!(escape("<b a='\"'>&\n"), "&lt;b a=&#39;&quot;&#39;&gt;&amp;\u{fffd}");
    }

    #[test]
    fn thousands_stand_apart() {
        assert_eq!(grouped(1234567), "1\u{202f}234\u{202f}567");
        assert_eq!(grouped(999), "999");
    }
}
