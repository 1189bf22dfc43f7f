//! Answers → what the page shows. Pure.

use std::collections::HashSet;

use anyhow::{Context, Result};
use serde_json::Value;
use transom_spool::Time;

use super::band::{Band, Bands};
use crate::ask::Answer;
use crate::policy::shown::Shown;

/// As many as are asked for.
pub const MOST_PREFIXES: usize = 50;

/// What is drawn of a fleet.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    pub begin: Time,
    pub end: Time,
    pub step_us: i64,
    /// One for each step of the time, also where nothing ended.
    pub steps: Vec<Bands>,
    pub services: Vec<Service>,
    pub prefixes: Vec<Prefix>,
    pub agents: Vec<Agent>,
    /// Machines that were described in this time or the day before, and whose agents said nothing.
    pub silent: Vec<String>,
    /// Of detail: that of most agents.
    pub usual_level: f64,
    pub bytes_acked: f64,
    pub hosts: f64,
    pub newest: Option<Time>,
    /// Or why they are not shown; none: nobody said whose signatures are believed.
    pub policies: Option<Result<Vec<Shown>, String>>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Service {
    pub name: String,
    pub bands: Bands,
    pub bytes_acked: f64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Prefix {
    pub prefix: String,
    pub ended: f64,
    pub hosts: f64,
    pub share: f64,
    pub low: f64,
    pub high: f64,
    pub others: f64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Agent {
    pub host: String,
    pub seen: Time,
    pub version: String,
    pub level: f64,
    pub cpu: f64,
    pub lost: f64,
    pub gaps: f64,
    pub gap_us: f64,
}

impl Agent {
    /// Silent for a quarter of an hour, without a part of the rows, or with less detail than others.
    /// Nobody configures a level below 0: new connections have no rows.
    fn has_remark(&self, end: Time, usual_level: f64) -> bool {
        let is_silent = end.0 - self.seen.0 > 15 * 60 * 1_000_000;
        let has_less = self.level < usual_level.max(0.0);
        is_silent || self.lost > 0.0 || self.gaps > 0.0 || has_less
    }
}

fn usual_level(agents: &[Agent]) -> f64 {
    let mut levels: Vec<f64> = agents.iter().map(|agent| agent.level).collect();
    levels.sort_by(f64::total_cmp);
    levels.get(levels.len() / 2).copied().unwrap_or(0.0)
}

/// A picture has 60 steps at most.
pub fn step_us(begin: Time, end: Time) -> i64 {
    const MINUTE: i64 = 60_000_000;
    let steps = [1, 5, 10, 15, 30, 60, 180, 360, 720, 1440].map(|minutes| minutes * MINUTE);
    let fits = |step: &&i64| (end.0 - begin.0) / **step <= 60;
    *steps.iter().find(fits).unwrap_or(&steps[steps.len() - 1])
}

/// A row by the names of its columns.
struct Named<'a>(&'a Answer, &'a [Value]);

impl Named<'_> {
    fn value(&self, name: &str) -> Result<&Value> {
        let at = self.0.columns.iter().position(|column| *column == name);
        at.and_then(|at| self.1.get(at)).with_context(|| format!("no column {name}"))
    }

    /// Null is none.
    fn number(&self, name: &str) -> Result<f64> {
        Ok(self.value(name)?.as_f64().unwrap_or(0.0))
    }

    fn time(&self, name: &str) -> Result<Time> {
        Ok(Time(self.value(name)?.as_i64().unwrap_or(0)))
    }

    fn text(&self, name: &str) -> Result<String> {
        Ok(self.value(name)?.as_str().unwrap_or("-").to_owned())
    }
}

fn named(answer: &Answer) -> impl Iterator<Item = Named<'_>> {
    answer.rows.iter().map(move |row| Named(answer, row))
}

impl Figures {
    pub fn of(begin: Time, end: Time) -> Figures {
        let step_us = step_us(begin, end);
        let first = begin.0 - begin.0.rem_euclid(step_us);
        let count = usize::try_from((end.0 - 1 - first) / step_us + 1).unwrap_or(0);
        Figures { begin, end, step_us, steps: vec![Bands::default(); count], ..Figures::default() }
    }

    /// When the first step begins.
    pub fn first(&self) -> i64 {
        self.begin.0 - self.begin.0.rem_euclid(self.step_us)
    }

    pub fn ended(&self) -> f64 {
        self.steps.iter().flatten().sum()
    }

    pub fn has_remark(&self, agent: &Agent) -> bool {
        agent.has_remark(self.end, self.usual_level)
    }

    pub fn add_steps(&mut self, answer: &Answer) -> Result<()> {
        for row in named(answer) {
            let at = (row.time("step_at_us")?.0 - self.first()) / self.step_us;
            let step = usize::try_from(at).ok().and_then(|at| self.steps.get_mut(at));
            let band = Band::of(&row.text("verdict")?).index();
            step.context("a step outside of the time")?[band] += row.number("ended")?;
            self.bytes_acked += row.number("bytes_acked")?;
            self.hosts = self.hosts.max(row.number("hosts")?);
            self.newest = self.newest.max(Some(row.time("newest_us")?));
        }
        Ok(())
    }

    pub fn add_services(&mut self, answer: &Answer) -> Result<()> {
        for row in named(answer) {
            let name = row.text("name")?;
            let at = self.services.iter().position(|service| service.name == name);
            let at = at.unwrap_or_else(|| {
                self.services.push(Service { name, ..Service::default() });
                self.services.len() - 1
            });
            let service = &mut self.services[at];
            service.bands[Band::of(&row.text("verdict")?).index()] += row.number("ended")?;
            service.bytes_acked += row.number("bytes_acked")?;
        }
        let ended = |service: &Service| service.bands.iter().sum::<f64>();
        self.services.sort_by(|one, other| ended(other).total_cmp(&ended(one)));
        Ok(())
    }

    pub fn add_prefixes(&mut self, answer: &Answer) -> Result<()> {
        for row in named(answer) {
            self.prefixes.push(Prefix {
                prefix: row.text("prefix")?,
                ended: row.number("ended")?,
                hosts: row.number("hosts")?,
                share: row.number("share")?,
                low: row.number("low")?,
                high: row.number("high")?,
                others: row.number("others")?,
            });
        }
        Ok(())
    }

    pub fn add_agents(&mut self, answer: &Answer) -> Result<()> {
        for row in named(answer) {
            self.agents.push(Agent {
                host: row.text("host")?,
                seen: row.time("seen_us")?,
                version: row.text("agent_version")?,
                level: row.number("last_level")?,
                cpu: row.number("largest_cpu")?,
                lost: row.number("rows_lost")? + row.number("not_tracked")?,
                gaps: row.number("gaps")?,
                gap_us: row.number("total_gap_us")?,
            });
        }
        self.usual_level = usual_level(&self.agents);
        let (end, usual) = (self.end, self.usual_level);
        self.agents.sort_by(|one, other| {
            let remark = |agent: &Agent| agent.has_remark(end, usual);
            let by_cpu = other.cpu.total_cmp(&one.cpu);
            remark(other).cmp(&remark(one)).then(by_cpu).then(one.host.cmp(&other.host))
        });
        Ok(())
    }

    /// The machines that there are; their agents before.
    pub fn add_hosts(&mut self, answer: &Answer) -> Result<()> {
        let spoke: HashSet<&str> = self.agents.iter().map(|agent| &*agent.host).collect();
        for row in named(answer) {
            let host = row.text("host")?;
            if !spoke.contains(&*host) {
                self.silent.push(host);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn machines_whose_agents_said_nothing_are_silent_and_the_others_are_not() {
        let mut figures = Figures::of(Time(0), Time(60 * MINUTE));
        let agent = |host: &str| Agent { host: host.into(), ..Agent::default() };
        figures.agents = vec![agent("b"), agent("new")];
        let rows = ["a", "b", "c"].map(|host| vec![json!(host)]).to_vec();
        figures.add_hosts(&Answer { columns: vec!["host"], rows }).unwrap();
        assert_eq!(figures.silent, ["a", "c"]);
    }

    const MINUTE: i64 = 60_000_000;

    #[test]
    fn steps_are_round_and_at_most_sixty() {
        for (minutes, step) in [(10, 1), (60, 1), (180, 5), (24 * 60, 30), (31 * 24 * 60, 1440)] {
            assert_eq!(step_us(Time(0), Time(minutes * MINUTE)), step * MINUTE, "{minutes}");
        }
    }

    #[test]
    fn an_agent_with_less_detail_than_most_or_that_fell_silent_has_a_remark() {
        let columns = vec![
            "host",
            "seen_us",
            "agent_version",
            "last_level",
            "largest_cpu",
            "rows_lost",
            "not_tracked",
            "gaps",
            "total_gap_us",
        ];
        let row = |host: &str, minute: i64, level: i64| {
            let mut row = vec![json!(host), json!(minute * MINUTE), json!("1"), json!(level)];
            row.extend([json!(0.001), json!(0), json!(0), json!(0), json!(null)]);
            row
        };
        let remarks = |rows: Vec<Vec<Value>>| {
            let mut figures = Figures::of(Time(0), Time(60 * MINUTE));
            figures.add_agents(&Answer { columns: columns.clone(), rows }).unwrap();
            let with = figures.agents.iter().filter(|agent| figures.has_remark(agent));
            with.map(|agent| agent.host.clone()).collect::<Vec<_>>()
        };
        let rows = vec![row("a", 59, 1), row("b", 59, 0), row("c", 40, 1), row("d", 50, 1)];
        assert_eq!(remarks(rows), ["b", "c"]);
        assert!(remarks(vec![row("a", 59, 0), row("b", 59, 0)]).is_empty(), "as all are set");
        let rows = vec![row("a", 59, -1), row("b", 59, 1), row("c", 59, -1)];
        assert_eq!(remarks(rows), ["a", "c"], "nobody sets that");
    }

    #[test]
    fn a_step_in_which_nothing_ended_is_there_and_empty() {
        let columns = vec!["step_at_us", "verdict", "ended", "bytes_acked", "hosts", "newest_us"];
        let rows = [
            vec![json!(0), json!("cwnd"), json!(3), json!(10), json!(2), json!(5)],
            vec![json!(2 * MINUTE), json!("timeouts"), json!(1), json!(null), json!(1), json!(9)],
        ];
        let mut figures = Figures::of(Time(7), Time(3 * MINUTE));
        figures.add_steps(&Answer { columns: columns.clone(), rows: rows.to_vec() }).unwrap();
        let of =
            |band: Band| figures.steps.iter().map(|step| step[band.index()]).collect::<Vec<_>>();
        assert_eq!(of(Band::Window), [3.0, 0.0, 0.0]);
        assert_eq!(of(Band::Network), [0.0, 0.0, 1.0]);
        assert_eq!((figures.ended(), figures.hosts, figures.newest), (4.0, 2.0, Some(Time(9))));
        let late =
            vec![vec![json!(9 * MINUTE), json!("cwnd"), json!(1), json!(1), json!(1), json!(1)]];
        assert!(figures.add_steps(&Answer { columns, rows: late }).is_err(), "of another time");
    }
}
