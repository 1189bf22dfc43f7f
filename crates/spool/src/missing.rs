//! What is not in the rows of a time, as the agent says itself: so that nobody takes a time that
//! was not watched for one in which nothing happened.

use crate::column::Time;
use crate::{AgentEvent, AgentRow, Question};

/// Longest time that a file is open by default: its counts may come so much later.
const FILE_US: i64 = 300_000_000;
/// An agent that runs says something each second.
const SILENT_US: i64 = 10_000_000;

/// What an agent that ran later tells of this time, oldest first.
pub fn missing(question: &Question, agent: &[AgentRow]) -> Vec<(Time, String)> {
    let mut missing = Vec::new();
    let (mut before, mut earlier_agent): (Option<&AgentRow>, Option<&AgentRow>) = (None, None);
    for row in in_order(agent) {
        if row.event == AgentEvent::Gap {
            let gap_us = row.gap_us.unwrap_or(0).try_into().unwrap_or(i64::MAX);
            let from = Time(row.time.0.saturating_sub(gap_us));
            if from <= question.to && row.time >= question.from {
                let rebooted = earlier_agent.is_some_and(|earlier| earlier.boot != row.boot);
                missing.push((from, gap(gap_us, row.lost_rows, rebooted)));
            }
            continue;
        }
        if row.event == AgentEvent::Start {
            earlier_agent = before;
        }
        let inside = row.time >= question.from && row.time <= Time(question.to.0 + FILE_US);
        // The counts are of the time since the row before.
        let is_of_it = inside && before.is_none_or(|before| before.time <= question.to);
        // Counts begin anew with each agent.
        let last = before.filter(|_| row.event != AgentEvent::Start);
        let lost = row.lost_rows.saturating_sub(last.map_or(0, |last| last.lost_rows));
        let untracked = row.untracked.saturating_sub(last.map_or(0, |last| last.untracked));
        if is_of_it && lost > 0 {
            let rows = if lost == 1 { "row" } else { "rows" };
            missing.push((row.time, format!("{lost} {rows} lost")));
        }
        if is_of_it && untracked > 0 {
            missing.push((row.time, format!("{untracked} connections without a row")));
        }
        before = Some(row);
    }
    missing
}

fn gap(us: i64, connections: u64, rebooted: bool) -> String {
    let seconds = us as f64 / 1e6;
    let why = if rebooted { ", in which the machine was started again" } else { "" };
    // The kernel counts by network namespace, and the agent has the counts of its own.
    format!(
        "{seconds:.1} s without an agent{why}: about {connections} connections of its network namespace \
         without a row"
    )
}

/// That no agent runs now, as far as its rows can tell. `newest` says whether those of the last
/// seconds are among them.
pub fn silence(question: &Question, agent: &[AgentRow], newest: bool) -> Option<(Time, String)> {
    let last = *in_order(agent).last()?;
    if last.event == AgentEvent::Stop && last.time < question.to {
        let said = "the agent was stopped, and none has written since: `systemctl start \
                    transom-agent` starts it";
        return Some((last.time, said.into()));
    }
    let is_silent = newest && question.to.0.saturating_sub(last.time.0) > SILENT_US;
    is_silent.then(|| {
        let said = "the agent has written nothing since: `systemctl status transom-agent` says \
                    whether it runs";
        (last.time, said.into())
    })
}

/// A stop and the start after it may have one time.
fn in_order(agent: &[AgentRow]) -> Vec<&AgentRow> {
    // Files of recorded events say nothing of rows.
    let is_of_rows = |row: &&AgentRow| row.event != AgentEvent::Trace;
    let mut rows: Vec<&AgentRow> = agent.iter().filter(is_of_rows).collect();
    rows.sort_by_key(|row| row.time);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: i64 = 1_800_014_400_000_000;

    fn question() -> Question {
        Question { from: Time(NOON), to: Time(NOON + 300_000_000), ..Question::default() }
    }

    fn at(seconds: i64, event: AgentEvent, lost_rows: u64) -> AgentRow {
        AgentRow {
            time: Time(NOON + seconds * 1_000_000),
            event,
            lost_rows,
            boot: Some("one".into()),
            ..AgentRow::default()
        }
    }

    fn gap(seconds: i64, us: u64, lost_rows: u64) -> AgentRow {
        AgentRow { gap_us: Some(us), ..at(seconds, AgentEvent::Gap, lost_rows) }
    }

    fn said(rows: &[AgentRow]) -> Vec<String> {
        missing(&question(), rows).into_iter().map(|(_, what)| what).collect()
    }

    #[test]
    fn what_the_agent_lost_in_that_time_is_said() {
        let rows = [
            at(-540, AgentEvent::Period, 7),
            at(60, AgentEvent::Period, 9),
            at(120, AgentEvent::Start, 0),
            gap(120, 4_000_000, 3),
            at(3600, AgentEvent::Period, 900),
        ];
        let gap =
            "4.0 s without an agent: about 3 connections of its network namespace without a row";
        assert_eq!(said(&rows), ["2 rows lost", gap]);
    }

    #[test]
    fn a_gap_is_missing_in_all_times_that_it_touches_and_in_no_other() {
        let touches = |end: i64, seconds: u64| {
            let rows = [at(end, AgentEvent::Start, 0), gap(end, seconds * 1_000_000, 1)];
            !said(&rows).is_empty()
        };
        assert!(touches(3600, 7200), "the question is about a part of it");
        assert!(touches(1, 60) && touches(310, 60), "one end of it");
        assert!(!touches(-1, 60), "it was over");
        assert!(!touches(400, 60), "it came later");
    }

    #[test]
    fn losses_of_a_file_that_was_begun_later_are_not_of_this_time() {
        let later = [at(301, AgentEvent::Period, 0), at(302, AgentEvent::Period, 5)];
        assert!(said(&later).is_empty());
        let of_it = [at(299, AgentEvent::Period, 0), at(302, AgentEvent::Period, 5)];
        assert_eq!(said(&of_it), ["5 rows lost"]);
    }

    #[test]
    fn a_restart_of_the_machine_is_told_from_one_of_the_agent() {
        let of_boot = |boot: &str| {
            let of = |row: AgentRow| AgentRow { boot: Some(boot.into()), ..row };
            let rows = [
                at(-1, AgentEvent::Period, 0),
                of(at(60, AgentEvent::Start, 0)),
                of(gap(60, 1_000_000, 0)),
            ];
            said(&rows)[0].contains("the machine was started again")
        };
        assert!(of_boot("two") && !of_boot("one"));
    }

    #[test]
    fn an_agent_that_is_silent_is_not_taken_for_a_quiet_machine() {
        let silence = |row: AgentRow, newest| silence(&question(), &[row], newest);
        let said = |found: Option<(Time, String)>| found.map_or(String::new(), |(_, said)| said);
        assert!(said(silence(at(100, AgentEvent::Stop, 0), false)).contains("was stopped"));
        let killed = at(100, AgentEvent::Period, 0);
        assert!(said(silence(killed.clone(), true)).contains("written nothing since"));
        // Its newest rows may be where we cannot read them, or it goes on.
        assert_eq!(silence(killed, false), None);
        assert_eq!(silence(at(299, AgentEvent::Period, 0), true), None);
        assert_eq!(silence(at(301, AgentEvent::Stop, 0), true), None);
    }
}
