//! The help screen.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Widget};

use super::app::SORT_LETTERS;
use super::numbers::{aligned, columns};
use super::table;
use super::theme::{Theme, Tone};

/// Columns of the names, before what they mean.
const NAMES: usize = 18;

const KEYS: [(&str, &str); 9] = [
    ("Up Down j k", "move; PgUp PgDn Home End (g G) move further"),
    ("Enter", "one connection in detail; Esc goes back"),
    ("Left Right", "sort by the column before or after (also < >)"),
    ("r", "reverse the order"),
    ("/", "filter: program, pid, address, port, algorithm, state;"),
    ("", "several words must all match; Esc in the table clears it"),
    ("Space", "freeze the screen; events go on being taken"),
    ("? h", "this help; Up Down scroll it"),
    ("q Ctrl-C", "quit; Ctrl-Z suspends"),
];

const COLUMNS: [(&str, &str); 17] = [
    ("B/s", "bytes/s of the stronger direction: up = acknowledged"),
    ("", "by the other side, down = received in order; last second"),
    ("CWND SSTHRESH", "segments; - = not set"),
    ("FLIGHT", "segments in flight: out - sacked - lost + retransmitted"),
    ("SRTT MINRTT", "smoothed and smallest round-trip time"),
    ("RETR RETR/s", "segments retransmitted since first seen, in the last second"),
    ("RTO", "retransmission timeouts"),
    ("CA", "congestion state: open disorder cwr recovery loss"),
    ("LIMIT", "what held the sender back most in the last seconds:"),
    ("", "cwnd    congestion window"),
    ("", "rwnd    window of the receiver"),
    ("", "sndbuf  send buffer of this machine"),
    ("", "app     the program writes no more; pacing"),
    ("", "device  the local device or its queue refused segments"),
    ("", "closed  the connection is over and fades from the table"),
    ("SENDQ RECVQ", "bytes of memory in the socket's queues"),
    ("CWND, 1 s STEPS", "highest window of each second, newest right"),
];

pub fn draw(scroll: u16, theme: Theme, area: Rect, to: &mut Buffer) {
    let [body, foot] = Layout::vertical([Constraint::Fill(1), Constraint::Length(1)]).areas(area);
    let entry = |name: &str, text: &str| entry(name, text, body.width.into(), theme);
    let mut lines = vec![Line::styled("Keys", theme.style(Tone::Strong))];
    lines.extend(KEYS.iter().flat_map(|(key, text)| entry(key, text)));
    let letters: Vec<String> =
        SORT_LETTERS.iter().map(|(key, column)| format!("{key} {}", column.name())).collect();
    lines.extend(entry("sort at once", &letters[..5].join(", ")));
    lines.extend(entry("", &letters[5..].join(", ")));
    lines.push(Line::default());
    lines.push(Line::styled("Columns", theme.style(Tone::Strong)));
    lines.extend(COLUMNS.iter().flat_map(|(name, text)| entry(name, text)));
    let last = (lines.len() as u16).saturating_sub(body.height);
    Paragraph::new(lines).scroll((scroll.min(last), 0)).render(body, to);
    let scrolls = if last > 0 { theme.sign("↑↓", "j/k") } else { "" };
    let more = if last > 0 { "more" } else { "" };
    table::keys(&[("?", "back"), (scrolls, more), ("q", "quit")], area.width, theme)
        .render(foot, to);
}

/// A name and what it means, in as many lines of `width` columns as that takes.
fn entry(name: &str, text: &str, width: usize, theme: Theme) -> Vec<Line<'static>> {
    let mut parts = vec![String::new()];
    for word in text.split_inclusive(' ') {
        let last = parts.last_mut().expect("never empty");
        if !last.is_empty() && NAMES + columns(last) + columns(word.trim_end()) > width {
            parts.push(word.to_owned());
        } else {
            last.push_str(word);
        }
    }
    let names = std::iter::once(name).chain(std::iter::repeat(""));
    let line = |(name, part): (&str, String)| {
        let name =
            Span::styled(aligned(&format!("  {name}"), NAMES, false), theme.style(Tone::Accent));
        Line::from(vec![name, Span::raw(part)])
    };
    names.zip(parts).map(line).collect()
}
