//! What the page shows of policies: the generation that is, and the one that it took back.

use anyhow::Result;
use transom_rollout::{Gate, Generation, Judged, Undone};

use super::place::{Place, State};
use super::{status, words};

/// One generation.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    pub generation: u64,
    pub state: Stage,
    /// In words: how far it is, or why it was taken back.
    pub told: String,
    pub gates: Vec<ShownGate>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    RollingOut,
    OnAll,
    /// By this gate, or by hand.
    Undone(Option<String>),
    LeaseOver,
}

/// What was measured, beside what was expected.
#[derive(Clone, Debug, PartialEq)]
pub struct ShownGate {
    pub gate: String,
    /// Hosts that have it or had it, and hosts without it.
    pub hosts: Option<(usize, usize)>,
    /// Low, mean, high, as shares.
    pub measured: Option<(f64, f64, f64)>,
    pub expected: Option<(f64, f64)>,
}

impl Place {
    /// The newest first; nothing where nothing has been published.
    ///
    /// # Errors
    /// It cannot be read, or no trusted key signed it.
    pub fn shown(&self, now_s: u64) -> Result<Vec<Shown>> {
        let Some(state) = self.state()? else { return Ok(vec![]) };
        let mut shown = vec![current(&state, now_s)];
        // It may have been removed since, or be signed with a key that was.
        if let Some(undone) = &state.current.progress.undone
            && let Ok(Some(generation)) = self.generation_if_any(undone.generation)
        {
            shown.push(taken_back(&state, &generation, undone));
        }
        Ok(shown)
    }
}

fn current(state: &State, now_s: u64) -> Shown {
    let State { current, generation, .. } = state;
    let is_over = now_s >= current.ends_s();
    let stage = match current.progress.is_done {
        _ if is_over => Stage::LeaseOver,
        true => Stage::OnAll,
        false => Stage::RollingOut,
    };
    let told = if is_over {
        format!("hosts went back by themselves at {}", words::utc(current.ends_s()))
    } else {
        status::stage(state)
    };
    let none = if generation.policy.is_none() { "no policy: " } else { "" };
    Shown {
        generation: generation.number,
        state: stage,
        told: format!("{none}{told}"),
        gates: gates(generation, &current.progress.judged),
    }
}

fn taken_back(state: &State, generation: &Generation, undone: &Undone) -> Shown {
    let progress = &state.current.progress;
    let share = generation.waves.shares.get(undone.wave).copied().unwrap_or(1.0);
    let waves = generation.waves.shares.len();
    Shown {
        generation: generation.number,
        state: Stage::Undone(undone.gate.clone()),
        told: format!(
            "in wave {} of {waves} ({}), at {}: {}",
            undone.wave + 1,
            words::wave(share),
            words::utc(state.current.began_s),
            progress.because
        ),
        gates: gates(generation, &progress.judged),
    }
}

fn gates(generation: &Generation, judged: &[Judged]) -> Vec<ShownGate> {
    let shown = |gate: &Gate| {
        let judged = judged.iter().find(|judged| judged.gate == gate.name);
        let expected = generation.expected.iter().find(|(name, ..)| *name == gate.name);
        ShownGate {
            gate: gate.to_string(),
            hosts: judged.map(|judged| (judged.treated, judged.outside)),
            measured: judged.and_then(|judged| judged.change),
            expected: expected.map(|(_, low, high)| (*low, *high)),
        }
    };
    generation.gates.iter().map(shown).collect()
}
