//! Whether the controls of an experiment, and the claims that name them, say something.

use super::check::Found;
use super::problem::instead;
use super::{Claim, Control, Experiment, Pick};
use crate::sweep::{safe, same};

impl Found {
    pub(super) fn controls(&mut self, experiment: &Experiment) {
        for (n, control) in experiment.controls.iter().enumerate() {
            let at = format!("controls.{n}");
            self.control(experiment, &at, control);
            let before = &experiment.controls[..n];
            if before.iter().any(|other| safe(&other.name) == safe(&control.name)) {
                let what = format!("\"{}\" has the folder of an earlier control", control.name);
                self.add(format!("{at}.name"), what, "give each control a name of its own");
            }
        }
        for (n, claim) in experiment.claims.iter().enumerate() {
            self.names_controls(experiment, &format!("claims.{n}.fails_under"), claim);
        }
    }

    fn control(&mut self, experiment: &Experiment, at: &str, control: &Control) {
        if !control.name.chars().any(char::is_alphanumeric) {
            let remedy = "say what it does, such as \"CUBIC in the place of steady\"";
            self.add(format!("{at}.name"), "a control without a name", remedy);
        }
        if control.set.is_empty() && control.unset.is_empty() {
            let remedy = "give `set` or `unset`: what the claims are about is replaced or removed";
            self.add(at, "a control that changes nothing", remedy);
        }
        if let Some(repeats) = control.repeats {
            self.within(format!("{at}.repeats"), repeats.into(), (1.0, 1000.0), "");
        }
        self.place(experiment, &format!("{at}.where"), &control.at);
        let named = |claim: &Claim| claim.fails_under.contains(&control.name);
        if !experiment.claims.iter().any(named) {
            let remedy = format!("add `fails_under = [\"{}\"]` to a claim", control.name);
            self.add(at, "no claim must fail under it", remedy);
        }
    }

    fn names_controls(&mut self, experiment: &Experiment, at: &str, claim: &Claim) {
        for name in &claim.fails_under {
            let known = || experiment.controls.iter().map(|control| control.name.as_str());
            match experiment.controls.iter().find(|control| control.name == *name) {
                None => {
                    let what = format!("there is no control \"{name}\"");
                    self.add(at, what, instead(name, known()));
                }
                Some(control) if !claim.picks().iter().any(|pick| meet(pick, control)) => {
                    let what = format!("\"{name}\" changes no run that the claim looks at");
                    self.add(at, what, "change its `where`, or that of the claim");
                }
                Some(_) => {}
            }
        }
    }
}

/// Whether a point may be both picked and changed.
fn meet(pick: &Pick, control: &Control) -> bool {
    let agree = |key: &str, value| pick.at.get(key).is_none_or(|at| same(at, value));
    control.at.iter().all(|(key, value)| agree(key, value))
}
