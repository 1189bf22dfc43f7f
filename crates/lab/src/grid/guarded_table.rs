//! What the guard did, as Markdown.

use std::fmt::Write;

use super::file::Under;
use super::guarded::{Caught, Effect, Guarded, Row};
use super::harm::{Bound, ROUND_TRIPS, floor_s};
use super::results::Results;
use super::table::half;

/// The document of a grid with guards.
pub fn markdown(results: &Results, guarded: &Guarded) -> String {
    let Some(guard) = &results.grid.guard else { return String::new() };
    let bounds = guard.bounds().unwrap_or_default();
    let mut text = format!(
        "{}: {} points of {}, {} repeats; Linux {} in virtual time. Before the policies the \
         terminals had {}, and have it again while a policy is withdrawn.\n\n",
        results.grid.title,
        results.points.len(),
        half(results),
        results.grid.repeats,
        results.kernels.join(", "),
        guard.before,
    );
    let _ = write!(
        text,
        "In time: within {ROUND_TRIPS} round trips, or {:.1} s for a queue and {:.1} s for \
         losses where that is longer. Numbers are of terminals; those of one point share its \
         bottleneck.\n\n",
        floor_s(Bound::Queue, &bounds),
        floor_s(Bound::Loss, &bounds)
    );
    text.push_str(
        "| policy | bound | broken by | withdrawn | in time | round trips: median, 95 % | s: \
         median, 95 % |\n|---|---|---|---|---|---|---|\n",
    );
    let is_control = |row: &&Row| row.policy == Under::WideBounds.of(&guard.control);
    for row in guarded.rows.iter().filter(|row| !is_control(row)) {
        for (bound, of) in [
            ("standing queue", &row.queue),
            ("losses", &row.loss),
            ("competitor's share only", &row.share),
        ] {
            text.push_str(&caught(row, bound, of));
        }
    }
    text.push_str(
        "\n| policy | terminals | within all bounds | of these withdrawn: false alarms | share | \
         95 % |\n|---|---|---|---|---|---|\n",
    );
    guarded.rows.iter().for_each(|row| text.push_str(&alarms(row)));
    let _ = write!(
        text,
        "\n| policy | | points | without the guard | with it | {} instead |\n\
         |---|---|---|---|---|---|\n",
        guard.before
    );
    guarded.effects.iter().for_each(|one| text.push_str(&effect(one)));
    text
}

fn caught(row: &Row, bound: &str, of: &Caught) -> String {
    let two = |numbers: Option<(f64, f64)>| {
        numbers.map_or_else(String::new, |(middle, most)| format!("{middle:.1}, {most:.1}"))
    };
    format!(
        "| {} | {bound} | {} | {} | {} | {} | {} |\n",
        row.policy,
        of.harmful,
        of.withdrawn,
        of.in_time,
        two(of.round_trips),
        two(of.seconds)
    )
}

fn alarms(row: &Row) -> String {
    let share = row.alarms as f64 / row.inside.max(1) as f64;
    let interval =
        row.alarms_interval.map(|(low, high)| format!("{low:.3} to {high:.3}")).unwrap_or_default();
    let share = if row.inside == 0 { String::new() } else { format!("{share:.3}") };
    format!(
        "| {} | {} | {} | {} | {share} | {interval} |\n",
        row.policy, row.terminals, row.inside, row.alarms
    )
}

fn effect(one: &Effect) -> String {
    let number = |it: f64, digits: usize| {
        if it.is_nan() { "—".to_owned() } else { format!("{it:.digits$}") }
    };
    let line = |what: &str, (points, values): (usize, [f64; 3]), digits: usize| {
        let [without, with, before] = values.map(|it| number(it, digits));
        format!("| {} | {what} | {points} | {without} | {with} | {before} |\n", one.policy)
    };
    line("competitor ÷ its fair share, where it is left too little (median)", one.shares, 2)
        + &line("standing queue, where it is too long, ms (median)", one.queues, 1)
        + &line("retransmitted, where that is too much, % (median)", one.losses, 1)
}
