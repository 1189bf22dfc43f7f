//! The connection that a question is about.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use transom_analysis::{Analysis, Connection, Recording, analyse, are_both_ends, select};
use transom_control::policy::Match;
use transom_output::note;
use transom_predict::{For, Measured, Model, fit, of_connection};

use crate::chosen::ChosenArgs;
use crate::load::{Loaded, load};

/// A connection that was chosen, with all that was found in its trace.
pub struct Chosen {
    pub recording: Recording,
    pub analysis: Analysis,
    pub file: PathBuf,
}

impl Chosen {
    pub fn read(file: &Path, chosen: &ChosenArgs) -> Result<Chosen> {
        let Loaded { recording, .. } = load(file)?;
        let analyses = analyse(&recording);
        let name = || file.display().to_string();
        let selected = select(&analyses, &chosen.selectors()).with_context(name)?;
        let first = *selected.first().with_context(|| format!("{}: no connection", name()))?;
        let analysis = senders_end(first, &selected);
        if selected.len() > 1 {
            let (local, remote) = (&analysis.local, &analysis.remote);
            note!("transom: {local} > {remote}, the one with the most bytes of {}", selected.len());
        }
        let analysis = analysis.clone();
        Ok(Chosen { recording, analysis, file: file.to_owned() })
    }

    pub fn connection(&self) -> Result<&Connection> {
        self.recording.connection(self.analysis.cookie).context("the recording has it")
    }

    pub fn fit(&self) -> Result<Vec<Model>> {
        let file = self.file.display();
        fit(self.connection()?, &self.analysis, &self.recording)
            .with_context(|| format!("{file}: no path can be fitted to this connection"))
    }

    /// What a policy is written for.
    pub fn service<'a>(
        &'a self,
        trace: &'a str,
        command: &'a str,
        policy: &'a str,
    ) -> Result<For<'a>> {
        let analysis = &self.analysis;
        Ok(For {
            program: &analysis.program,
            ends: analysis.ends.context("the trace does not say which addresses it has")?,
            serves: analysis.serves,
            trace,
            command,
            policy,
        })
    }

    /// Whether a rule may be for it, as far as the trace tells.
    pub fn may_match(&self, matching: &Match) -> bool {
        let of = &self.analysis;
        of.ends.is_none_or(|ends| {
            let rtt_us = of.summary.rtt.as_ref().map(|rtt| rtt.min_us);
            matching.may_hold(&of.program, &ends, rtt_us)
        })
    }

    pub fn measured(&self) -> Result<Measured> {
        Ok(whole(self.connection()?, &self.analysis))
    }
}

/// A machine that has both ends, as with containers or over loopback, records both: the same bytes,
/// and only one of them has sent them.
fn senders_end<'a>(one: &'a Analysis, selected: &[&'a Analysis]) -> &'a Analysis {
    let has_sent_more = |other: &&&Analysis| other.summary.sent > one.summary.sent;
    let other_end = selected.iter().filter(|other| are_both_ends(one, other)).find(has_sent_more);
    other_end.map_or(one, |other| other)
}

/// What was recorded of it from its first event to its last.
pub fn whole(connection: &Connection, analysis: &Analysis) -> Measured {
    let length = connection.last_ns.saturating_sub(connection.first_ns);
    let seconds = length as f64 / 1e9;
    of_connection(connection, analysis, seconds, seconds)
}
