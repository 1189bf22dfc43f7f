//! Verdicts as Markdown.

use std::fmt::Write;

use super::draw::{Half, Point};
use super::judge::{AtOne, Criterion, Group, Judgement, Verdict, Wanted};
use super::results::Results;

/// Points that are listed as the worst by goodput, by a competitor's share, and by the queue.
const WORST: usize = 12;

/// The document of one grid.
pub fn markdown(results: &Results, judgement: &Judgement) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{}\n", told(results, judgement));
    text.push_str("| | measured | 95 % | points | wanted | |\n|---|---|---|---|---|---|\n");
    judgement.criteria.iter().for_each(|it| text.push_str(&criterion(it)));
    let judge = &results.grid.judge;
    let _ = write!(
        text,
        "\n| | | points | goodput ≥ {} | median | competing {} ≥ {} | queue ÷ {}'s | retransmitted \
         |\n|---|---|---|---|---|---|---|---|\n",
        judge.goodput, judge.fair, judge.competitor, judge.beside
    );
    judgement.groups.iter().for_each(|it| text.push_str(&group(it)));
    text.push_str(&worst(results, judgement));
    text
}

/// Which points they are.
pub(super) fn half(results: &Results) -> &'static str {
    match results.half {
        Some(Half::Train) => "the training half",
        Some(Half::Report) => "the reported half",
        None => "both halves",
    }
}

fn told(results: &Results, judgement: &Judgement) -> String {
    let half = half(results);
    let subject = &results.grid.judge.subject;
    let settings = &results.grid.algorithms[subject];
    let mut action: Vec<String> =
        settings.action.iter().map(|(key, value)| format!("{key} = {value}")).collect();
    action.extend(settings.sysctl.iter().map(|(key, value)| format!("{key} = {value}")));
    let settings = if action.is_empty() { "its defaults".to_owned() } else { action.join(", ") };
    let mut text = format!(
        "{}: {} points of {half}, {} repeats of each algorithm; `{subject}` is {} with {settings}; \
         Linux {} in virtual time.",
        results.grid.title,
        judgement.at.len(),
        results.grid.repeats,
        results.grid.algorithms[subject].algorithm,
        results.kernels.join(", "),
    );
    let left_out = results.points.len() - judgement.at.len();
    if left_out > 0 {
        let _ = write!(text, " {left_out} points are left out, since a run failed or is missing.");
    }
    text
}

fn criterion(it: &Criterion) -> String {
    let number = |value: f64| match it.text.starts_with("median") || it.wanted.is_none() {
        _ if value.is_nan() => "—".to_owned(),
        _ => format!("{value:.3}"),
    };
    let interval = it.interval.map(|(low, high)| format!("{} to {}", number(low), number(high)));
    let wanted = match it.wanted {
        Some(Wanted::AtLeast(bound)) => format!("≥ {bound}"),
        Some(Wanted::AtMost(bound)) => format!("≤ {bound}"),
        None => String::new(),
    };
    let verdict = match it.verdict() {
        Some(Verdict::Met) => "met",
        Some(Verdict::NotMet) => "not met",
        Some(Verdict::Undecided) => "undecided",
        None => "",
    };
    let interval = interval.unwrap_or_default();
    let (text, value, points) = (&it.text, number(it.number), it.points);
    format!("| {text} | {value} | {interval} | {points} | {wanted} | {verdict} |\n")
}

fn group(it: &Group) -> String {
    let competitor = match it.competitor_met {
        (_, 0) => String::new(),
        (met, all) => format!("{met} of {all}"),
    };
    format!(
        "| {} | {} | {} | {} | {:.2} | {competitor} | {:.2} | {:.2} % |\n",
        it.dimension,
        it.value,
        it.points,
        it.goodput_met,
        it.goodput,
        it.queue,
        100.0 * it.retransmitted
    )
}

/// The least is the worst.
type Key<'a> = &'a dyn Fn(&AtOne) -> f64;

fn worst(results: &Results, judgement: &Judgement) -> String {
    let mut text = String::new();
    let competitor = |at: &AtOne| at.competitor.unwrap_or(f64::INFINITY);
    let lists: [(&str, Key<'_>); 3] = [
        ("Least goodput", &|at| at.goodput),
        ("Least left to a competitor", &competitor),
        ("Longest queue beside the other's", &|at| -at.queue()),
    ];
    for (title, key) in lists {
        let mut sorted: Vec<&AtOne> =
            judgement.at.iter().filter(|at| key(at).is_finite()).collect();
        sorted.sort_by(|a, b| key(a).total_cmp(&key(b)));
        let _ = write!(
            text,
            "\n{title}:\n\n| point | goodput ÷ best | | competitor | queue, ms (other's) | retransmitted \
             (other's) | |\n|---|---|---|---|---|---|---|\n"
        );
        for at in sorted.iter().take(WORST) {
            if let Some(found) = results.points.iter().find(|it| it.point.number == at.number) {
                text.push_str(&line(at, &found.point));
            }
        }
    }
    text
}

fn line(at: &AtOne, point: &Point) -> String {
    let competitor = at.competitor.map(|it| format!("{it:.2}")).unwrap_or_default();
    format!(
        "| {} | {:.2} | {} | {competitor} | {:.1} ({:.1}) | {:.2} % ({:.2} %) | {} |\n",
        at.number,
        at.goodput,
        at.best,
        at.queue_ms,
        at.queue_beside_ms,
        100.0 * at.retransmitted,
        100.0 * at.retransmitted_beside,
        point.describe()
    )
}

/// Every run of every point, as for one that is looked at closely.
pub fn runs(results: &Results) -> String {
    let mut text = String::new();
    for at in &results.points {
        let _ = writeln!(text, "point {}: {}", at.point.number, at.point.describe());
        let _ = writeln!(
            text,
            "  {:<20} {:>9} {:>11} {:>10} {:>10} {:>8} {:>6} {:>6}",
            "", "Mbit/s", "competitor", "queue p50", "p95, ms", "retrans", "Jain", "CPU s"
        );
        for (name, runs) in &at.runs {
            for run in runs.iter().flatten() {
                let competitor = run.competitor_mbit.map(|it| format!("{it:.3}"));
                let _ = writeln!(
                    text,
                    "  {name:<20} {:>9.3} {:>11} {:>10.2} {:>10.2} {:>6.2} % {:>6.3} {:>6.2}",
                    run.goodput_mbit,
                    competitor.unwrap_or_default(),
                    run.queue_p50_ms,
                    run.queue_p95_ms,
                    100.0 * run.retransmitted,
                    run.jain,
                    run.cpu_s
                );
            }
        }
    }
    text
}
