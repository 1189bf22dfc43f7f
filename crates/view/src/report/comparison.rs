//! Two recordings side by side, as a table.

use std::fmt::Write;

use transom_analysis::{Compared, Group, compare};

use super::Trace;
use super::header::{escape, grouped};
use super::overview::cause_name;

/// Lines of the table: the groups with the most bytes.
const LINES: usize = 40;

const TITLES: [&str; 8] = [
    "Connections",
    "Bytes",
    "Goodput",
    "RTT",
    "Min RTT",
    "Retransmitted",
    "Timeouts",
    "Limited by",
];

/// The section as HTML.
pub fn section(a: &Trace, b: &Trace) -> String {
    let rows = compare(&a.analyses, &b.analyses);
    let mut html = String::from(
        "<section id=\"comparison\" aria-labelledby=\"comparison-title\">\n\
         <h2 id=\"comparison-title\">Comparison</h2>\n<div class=\"wide\"><table>\n<thead><tr><th></th>",
    );
    for (at, title) in TITLES.iter().enumerate() {
        let class = if at + 1 < TITLES.len() { " class=\"number\"" } else { "" };
        let _ = write!(html, "<th{class}>{title}</th>");
    }
    html += "</tr></thead>\n";
    let names = [&a.meta.source, &b.meta.source];
    for row in rows.iter().take(LINES) {
        html += &lines(row, names);
    }
    html += "</table></div>\n";
    if rows.len() > LINES {
        let _ =
            writeln!(html, "<p>{} more are not listed.</p>", grouped((rows.len() - LINES) as u64));
    }
    html + "<p class=\"soft\">Grouped by program and peer. Goodput is all bytes of a group over the time \
            from its first event to its last; RTTs are medians over its connections.</p>\n</section>\n"
}

fn lines(row: &Compared, names: [&String; 2]) -> String {
    let name = if row.name.is_empty() { "All connections" } else { &row.name };
    let mut html = format!(
        "<tbody><tr><th scope=\"rowgroup\" colspan=\"{}\">{}</th></tr>\n",
        TITLES.len() + 1,
        escape(name)
    );
    for (side, group) in row.groups.iter().enumerate() {
        let letter = ["A", "B"][side];
        let title =
            format!("<tr><th scope=\"row\" title=\"{}\">{letter}</th>", escape(names[side]));
        html += &title;
        match group {
            Some(group) => html += &cells(group),
            None => {
                let _ = write!(html, "<td colspan=\"{}\">none</td>", TITLES.len());
            }
        }
        html += "</tr>\n";
    }
    if let [Some(a), Some(b)] = &row.groups {
        html += &differences(a, b);
    }
    html + "</tbody>\n"
}

fn cells(group: &Group) -> String {
    let rtt = |us: Option<u32>| us.map_or(String::new(), milliseconds);
    let values = [
        grouped(group.connections as u64),
        bytes(group.bytes),
        rate(group.goodput),
        rtt(group.rtt_us),
        rtt(group.min_rtt_us),
        format!("{} ({})", grouped(group.retransmitted), percent(group.loss_share)),
        grouped(group.timeouts),
    ];
    let mut html = String::new();
    for value in values {
        let _ = write!(html, "<td class=\"number\">{value}</td>");
    }
    let cause = group.cause.map(cause_name).unwrap_or_default();
    html + &format!("<td>{}</td>", escape(&cause))
}

/// How B differs from A: relative where a ratio means something, else the difference itself.
fn differences(a: &Group, b: &Group) -> String {
    let ratio = |a: f64, b: f64| match a {
        0.0 => String::new(),
        _ => signed((b / a - 1.0) * 100.0, " %"),
    };
    let rtt = |a: Option<u32>, b: Option<u32>| match (a, b) {
        (Some(a), Some(b)) => ratio(a.into(), b.into()),
        _ => String::new(),
    };
    let number = |a: u64, b: u64| signed(b as f64 - a as f64, "");
    let values = [
        number(a.connections as u64, b.connections as u64),
        ratio(a.bytes as f64, b.bytes as f64),
        ratio(a.goodput, b.goodput),
        rtt(a.rtt_us, b.rtt_us),
        rtt(a.min_rtt_us, b.min_rtt_us),
        number(a.retransmitted, b.retransmitted),
        number(a.timeouts, b.timeouts),
        if a.cause == b.cause { "same".to_owned() } else { "differs".to_owned() },
    ];
    let mut html = String::from("<tr class=\"difference\"><th scope=\"row\">B − A</th>");
    for (at, value) in values.iter().enumerate() {
        let class = if at + 1 < values.len() { " class=\"number\"" } else { "" };
        let _ = write!(html, "<td{class}>{value}</td>");
    }
    html + "</tr>\n"
}

fn signed(value: f64, unit: &str) -> String {
    let decimals = usize::from(!unit.is_empty() && value.abs() < 10.0);
    let text = format!("{:.decimals$}", value.abs());
    if text.trim_matches(['0', '.']).is_empty() {
        return "0".to_owned();
    }
    format!("{}{text}{unit}", if value < 0.0 { "−" } else { "+" })
}

fn scaled(value: f64, units: [&str; 4]) -> String {
    let power = ((value.max(1.0).log10() / 3.0) as usize).min(3);
    let value = value / 1000f64.powi(power as i32);
    let decimals = usize::from(value < 100.0 && power > 0);
    format!("{value:.decimals$} {}", units[power])
}

fn bytes(number: u64) -> String {
    scaled(number as f64, ["B", "kB", "MB", "GB"])
}

fn rate(bits_per_second: f64) -> String {
    scaled(bits_per_second, ["bit/s", "kbit/s", "Mbit/s", "Gbit/s"])
}

fn milliseconds(us: u32) -> String {
    let ms = f64::from(us) / 1000.0;
    let decimals = if ms < 1.0 { 3 } else { usize::from(ms < 100.0) };
    format!("{ms:.decimals$} ms")
}

fn percent(share: f64) -> String {
    let decimals = if share == 0.0 {
        0
    } else if share < 0.001 {
        3
    } else {
        1
    };
    format!("{:.decimals$} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_has_its_sign_and_no_false_precision() {
        assert_eq!(signed(12.34, " %"), "+12 %");
        assert_eq!(signed(-3.21, " %"), "−3.2 %");
        assert_eq!(signed(0.01, " %"), "0");
        assert_eq!(signed(-7.0, ""), "−7");
    }

    #[test]
    fn numbers_have_the_unit_that_suits_them() {
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(28_731_392), "28.7 MB");
        assert_eq!(rate(15.3e6), "15.3 Mbit/s");
        assert_eq!(milliseconds(13), "0.013 ms");
        assert_eq!(milliseconds(35_000), "35.0 ms");
        assert_eq!(percent(0.0021), "0.2 %");
    }
}
