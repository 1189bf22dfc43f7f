//! The analysis as text for a terminal: pure, the command line only prints it.

use std::collections::HashMap;
use std::fmt::Write;

use crate::evidence::LITTLE_BYTES;
use crate::units::{bytes, count, percent, rate, time};
use crate::{Analysis, Cause, Confidence, Limit, Multipath, Summary, families, story};

/// Shares of time under this are left out of the list of limits.
pub const SHOWN_SHARE: f64 = 0.005;

/// Columns of a bar that stands for the whole time, and the column where it begins.
const BAR: usize = 40;
const BAR_FROM: usize = 28;

/// What stands before a subflow.
const INDENT: &str = "  ";

/// Columns of a line of the verdict, where there are so many.
const WIDTH: usize = 96;

/// Fewer columns than this are not worth keeping to.
const LEAST_WIDTH: usize = 40;

/// No line but those of the verdict is broken, as in a file.
pub const ANY_WIDTH: usize = usize::MAX;

/// Where more paragraphs than this would follow one another, only so many of each cause do.
const MANY: usize = 30;
const OF_EACH_CAUSE: usize = 5;

/// All connections, as [`crate::analyse`] sorts them; those with few bytes in one line at the end, and
/// those that are like many others in another, unless `all`. No line is longer than `columns`, if that
/// can be.
pub fn explain(analyses: &[Analysis], all: bool, columns: usize) -> String {
    let columns = columns.max(LEAST_WIDTH);
    if analyses.is_empty() {
        return "No connection in this recording.\n".to_owned();
    }
    let (mut shown, rest): (Vec<&[Analysis]>, Vec<&[Analysis]>) = families(analyses, |a| a.mptcp)
        .partition(|family| all || family.iter().any(is_worth_a_paragraph));
    let alike = if all { Vec::new() } else { take_alike(&mut shown) };
    let mut text = String::new();
    for (i, family) in shown.iter().enumerate() {
        if i > 0 {
            text.push('\n');
        }
        match family {
            [analysis] => text.push_str(&connection(analysis, columns)),
            subflows => text.push_str(&multipath(subflows, columns)),
        }
    }
    let rest: Vec<&Analysis> = rest.into_iter().flatten().collect();
    let lines = [
        (!alike.is_empty()).then(|| more_alike(&alike)),
        (!rest.is_empty()).then(|| others(&rest)),
    ];
    if !shown.is_empty() && lines.iter().any(Option::is_some) {
        text.push('\n');
    }
    for line in lines.into_iter().flatten() {
        text.push_str(&broken("", &line, columns));
    }
    text
}

/// Takes out, where there are many, all but those of each cause that come first.
fn take_alike<'a>(shown: &mut Vec<&'a [Analysis]>) -> Vec<&'a [Analysis]> {
    if shown.len() <= MANY {
        return Vec::new();
    }
    let mut of_each: HashMap<Cause, usize> = HashMap::new();
    let mut is_alike = |family: &&[Analysis]| {
        let so_far = of_each.entry(cause_of(family)).or_default();
        *so_far += 1;
        *so_far > OF_EACH_CAUSE
    };
    let (alike, first) = shown.iter().partition(|family| is_alike(family));
    *shown = first;
    alike
}

/// That of its subflow with the most bytes.
fn cause_of(family: &[Analysis]) -> Cause {
    let most = family.iter().max_by_key(|analysis| analysis.bytes());
    most.map_or(Cause::Unknown, |analysis| analysis.verdict.cause)
}

/// Small connections that failed or stalled are worth it too.
fn is_worth_a_paragraph(analysis: &Analysis) -> bool {
    let uneventful =
        matches!(analysis.verdict.cause, Cause::Little | Cause::Unknown | Cause::Application);
    analysis.bytes() >= LITTLE_BYTES || !uneventful
}

/// One connection, a paragraph of several lines.
pub fn connection(analysis: &Analysis, columns: usize) -> String {
    let mut line = owner(&analysis.program, analysis.tgid) + &ends(analysis);
    if let Some(token) = analysis.mptcp {
        let _ = write!(line, ", subflow of MPTCP {token}");
    }
    broken("", &line, columns) + &details(analysis, columns)
}

/// The subflows of one connection, each a paragraph under the sum of them all.
fn multipath(subflows: &[Analysis], columns: usize) -> String {
    let Some(sum) = Multipath::of(subflows) else { return String::new() };
    let owner = owner(&sum.program, sum.tgid);
    let head = format!("{owner}MPTCP {}, {} subflows", sum.token, sum.subflows);
    let mut text = broken("", &head, columns);
    let mut parts = vec![time(sum.duration_ns)];
    parts.extend(amounts([(sum.acked, sum.goodput_up), (sum.received, sum.goodput_down)]));
    if sum.retransmitted > 0 {
        parts.push(retransmitted(sum.retransmitted));
    }
    text.push_str(&wrapped(&parts.join(", "), "  ", columns.min(WIDTH)));
    for subflow in subflows {
        let share = subflow.bytes() as f64 / sum.bytes().max(1) as f64;
        let head = format!("{}, {} of the bytes", ends(subflow), percent(share));
        let inner = columns - INDENT.len();
        let paragraph = broken("", &head, inner) + &details(subflow, inner);
        text.push('\n');
        for line in paragraph.lines() {
            let _ = writeln!(text, "{INDENT}{line}");
        }
    }
    text
}

/// All but the first line.
fn details(analysis: &Analysis, columns: usize) -> String {
    let width = columns.min(WIDTH);
    let mut text = wrapped(&numbers(&analysis.summary), "  ", width);
    let bar_columns = (columns - BAR_FROM).min(BAR) as f64;
    for limit in Limit::ALL {
        let share = analysis.limits.share(limit);
        if share >= SHOWN_SHARE {
            let bar = "#".repeat((share * bar_columns).round() as usize);
            let line = format!("  {:<18} {:>5}  {bar}", limit.label(), percent(share));
            let _ = writeln!(text, "{}", line.trim_end());
        }
    }
    for (at, what) in story::lines(&analysis.episodes, analysis.origin_ns) {
        text.push_str(&broken(&format!("  {at:>15}  "), &what, columns));
    }
    text.push_str(&wrapped(&analysis.verdict.text(), "  > ", width));
    let verdict = &analysis.verdict;
    if !verdict.caveats.is_empty() {
        let caveats = verdict.caveats.join("; ");
        let word = match verdict.confidence {
            Confidence::High => "Note",
            Confidence::Medium => "With care",
            Confidence::Low => "A guess",
        };
        text.push_str(&wrapped(&format!("{word}: {caveats}."), "    ", width));
    }
    text
}

/// Program and process, as far as they are known, with a space behind each.
fn owner(program: &str, tgid: u32) -> String {
    let mut line = String::new();
    if !program.is_empty() {
        let _ = write!(line, "{program} ");
    }
    if tgid != 0 {
        let _ = write!(line, "[{tgid}] ");
    }
    line
}

fn ends(analysis: &Analysis) -> String {
    let mut line = if analysis.local_name.is_empty() {
        format!("connection #{}", analysis.cookie)
    } else {
        format!("{} > {}", analysis.local_name, analysis.remote_name)
    };
    if !analysis.algorithm.is_empty() {
        let _ = write!(line, " {}", analysis.algorithm);
    }
    line
}

/// Bytes and goodput, up and down; a way that carried nothing is left out.
fn amounts(ways: [(u64, f64); 2]) -> impl Iterator<Item = String> {
    ways.into_iter()
        .zip(["up", "down"])
        .filter(|((amount, _), _)| *amount > 0)
        .map(|((amount, goodput), way)| format!("{} {way} at {}", bytes(amount), rate(goodput)))
}

fn retransmitted(segments: u64) -> String {
    format!("{} retransmitted", count(segments, "segment", "segments"))
}

fn numbers(summary: &Summary) -> String {
    let mut parts = vec![time(summary.duration_ns)];
    parts.extend(amounts([
        (summary.acked, summary.goodput_up),
        (summary.received, summary.goodput_down),
    ]));
    if let Some(rtt) = summary.rtt {
        let ns = |us: u32| time(u64::from(us) * 1000);
        let (median, least, p95) = (ns(rtt.median_us), ns(rtt.min_us), ns(rtt.p95_us));
        parts.push(format!("RTT {median} (min {least}, p95 {p95})"));
    }
    if summary.retransmitted.data() > 0 {
        let again = retransmitted(summary.retransmitted.data());
        parts.push(format!("{again} ({})", percent(summary.loss_share())));
    }
    parts.join(", ")
}

/// How many of each cause, the most first.
fn more_alike(alike: &[&[Analysis]]) -> String {
    let mut of_each: HashMap<Cause, u64> = HashMap::new();
    alike.iter().for_each(|family| *of_each.entry(cause_of(family)).or_default() += 1);
    let mut of_each: Vec<(u64, String)> =
        of_each.into_iter().map(|(cause, n)| (n, cause.name())).collect();
    of_each.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let of_each: Vec<String> = of_each.iter().map(|(n, cause)| format!("{n} {cause}")).collect();
    format!(
        "{}, {} in all: {} (--all shows them)",
        count(alike.len() as u64, "more connection", "more connections"),
        bytes(alike.iter().flat_map(|family| family.iter()).map(Analysis::bytes).sum()),
        of_each.join(", "),
    )
}

fn others(rest: &[&Analysis]) -> String {
    let total: u64 = rest.iter().map(|analysis| analysis.bytes()).sum();
    let reset = rest.iter().filter(|analysis| analysis.summary.resets > 0).count() as u64;
    let mut line = format!(
        "{} with less than {LITTLE_BYTES} bytes each, {} in all",
        count(rest.len() as u64, "connection", "connections"),
        bytes(total),
    );
    if reset > 0 {
        let _ = write!(line, ", {reset} of them reset");
    }
    line + " (--all shows them)"
}

/// A line as it is, or in several where it has more columns than there are.
fn broken(lead: &str, line: &str, columns: usize) -> String {
    match lead.len() + line.chars().count() <= columns {
        true => format!("{lead}{line}\n"),
        false => wrapped(line, lead, columns),
    }
}

/// Words in lines of at most `width` columns, the first behind `lead`, the others below it.
fn wrapped(text: &str, lead: &str, width: usize) -> String {
    let mut out = String::from(lead);
    let mut column = lead.len();
    for (i, word) in text.split_whitespace().enumerate() {
        let length = word.chars().count();
        if i > 0 && column + 1 + length > width {
            let _ = write!(out, "\n{:1$}", "", lead.len());
            column = lead.len();
        } else if i > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
    out.push('\n');
    out
}
