//! The real programs meet the verifier. What this kernel refuses is served by the next way, or not
//! at all, and the survey says so: the rest still works.

use anyhow::Result;
use libbpf_rs::{Object, OpenObject};
use transom_machine::load_sharing;

use crate::MonitorOptions;
use crate::journal;
use crate::session::{keep_programs, prepared};
use crate::survey::{Fact, Survey};

/// Programs that are loaded in a way that every kernel refuses (`TRANSOM_SPOIL=fentry_ack,tp_rto`), so
/// that what follows can be tried on a kernel that takes them all.
const SPOIL: &str = "TRANSOM_SPOIL";

const REFUSED: &str = "the verifier refused it: ";
/// Without it there are no connections.
const ESSENTIAL: &str = "state";

/// Loads what the survey chose, without these purposes, from an object that `prepare` has made
/// ready. The survey has what is left.
///
/// # Errors
/// The kernel refuses all of it, or something else than a program.
pub(crate) fn load(
    survey: &mut Survey,
    without: &[&str],
    more: &[&'static str],
    prepare: impl Fn(&Survey) -> Result<OpenObject>,
) -> Result<Object> {
    loop {
        let mut programs = survey.programs_but(without);
        programs.extend(more);
        let error = match try_load(prepare(survey)?, &programs) {
            Ok(object) => return Ok(object),
            Err(error) => error,
        };
        let served = survey.served(without);
        let mut refused = Vec::new();
        let halves = served.split_at(served.len() / 2);
        for half in [halves.0, halves.1] {
            find_refused(half, &mut refused, &|programs| try_load(prepare(survey)?, programs));
        }
        if refused.is_empty() || refused.len() == served.len() {
            return Err(error);
        }
        for (purpose, why) in refused {
            survey.demote(purpose, format!("{REFUSED}{why}"));
        }
        if survey.chosen(ESSENTIAL).is_none() {
            return Err(error);
        }
    }
}

/// Those of these purposes whose programs are refused, and why: by halves, since each load takes
/// its time.
fn find_refused(
    purposes: &[(&'static str, Vec<&'static str>)],
    refused: &mut Vec<(&'static str, String)>,
    try_load: &impl Fn(&[&str]) -> Result<Object>,
) {
    let programs: Vec<&str> = purposes.iter().flat_map(|(_, programs)| programs.clone()).collect();
    let Err(why) = try_load(&programs) else { return };
    match purposes {
        [] => {}
        [(purpose, _)] => refused.push((purpose, format!("{:#}", why.root_cause()))),
        several => {
            let (first, second) = several.split_at(several.len() / 2);
            find_refused(first, refused, try_load);
            find_refused(second, refused, try_load);
        }
    }
}

fn try_load(mut open: OpenObject, programs: &[&str]) -> Result<Object> {
    keep_programs(&mut open, programs);
    let spoiled = std::env::var(SPOIL).unwrap_or_default();
    for mut program in open.progs_mut() {
        let name = program.name().to_string_lossy().into_owned();
        if spoiled.split(',').any(|spoiled| spoiled == name) {
            program.set_prog_type(libbpf_rs::ProgramType::CgroupSkb);
        }
    }
    load_sharing(open)
}

impl Survey {
    /// What the verifier refused, and what serves instead, in a sentence each.
    pub fn surprises(&self) -> Vec<String> {
        let mut told = Vec::new();
        for choice in &self.choices {
            let instead = choice.chosen.map_or("nothing", |candidate| candidate.tier.name());
            for (candidate, why) in &choice.refused {
                if let Some(why) = why.strip_prefix(REFUSED) {
                    let (purpose, tier) = (choice.purpose.name, candidate.tier);
                    told.push(format!("{purpose}: {instead} instead of {tier}, refused: {why}"));
                }
            }
        }
        told
    }

    /// Has this kernel's verifier look at the programs, as every recording and the journal do.
    pub fn fit(&mut self) {
        let options = MonitorOptions::default();
        if let Err(error) = load(self, &[], &[], |survey| prepared(survey, &options, None)) {
            self.can_monitor = false;
            self.facts.push(Fact {
                name: "probes",
                ok: false,
                found: format!("refused: {error:#}"),
                remedy: "TRANSOM_DEBUG=1 transom check shows what the verifier says".into(),
            });
        } else if let Err(error) = journal::load(self, &options, 1) {
            self.facts.push(Fact {
                name: "journal",
                ok: false,
                found: format!("{error:#}"),
                remedy: "all else works; transom log prints the same lines while it runs".into(),
            });
        }
    }
}
