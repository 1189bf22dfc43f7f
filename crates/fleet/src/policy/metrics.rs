//! What is told to Prometheus of a roll-out: by whoever takes its steps, and by the hosts that follow.

use std::path::PathBuf;
use std::sync::atomic::AtomicU64;

use anyhow::Result;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use transom_metrics::rollout as define;
use transom_rollout::{Current, Generation, Unverified};

use crate::text_collector::{self, now_s};

type Real = Gauge<f64, AtomicU64>;
type OfGate = Family<[(&'static str, String); 2], Real>;

/// Of the controller.
pub struct OfSteps {
    path: PathBuf,
    registry: Registry,
    generation: Gauge,
    wave: Gauge,
    hosts: Real,
    lease_end: Real,
    change: OfGate,
    chance: OfGate,
    taken_back: Gauge,
    last_step: Real,
}

impl OfSteps {
    /// # Errors
    /// The file could not be written.
    pub fn at(path: PathBuf) -> Result<OfSteps> {
        let mut registry = Registry::default();
        let (generation, wave, hosts) = (Gauge::default(), Gauge::default(), Real::default());
        let (change, chance) = (OfGate::default(), OfGate::default());
        let (taken_back, [lease_end, last_step]) = (Gauge::default(), <[Real; 2]>::default());
        define::GENERATION.register(&mut registry, generation.clone());
        define::WAVE.register(&mut registry, wave.clone());
        define::HOSTS.register(&mut registry, hosts.clone());
        define::LEASE_END.register(&mut registry, lease_end.clone());
        define::CHANGE.register(&mut registry, change.clone());
        define::CHANCE.register(&mut registry, chance.clone());
        define::TAKEN_BACK.register(&mut registry, taken_back.clone());
        define::LAST_STEP.register(&mut registry, last_step.clone());
        text_collector::try_out(&path)?;
        Ok(OfSteps {
            path,
            registry,
            generation,
            wave,
            hosts,
            lease_end,
            change,
            chance,
            taken_back,
            last_step,
        })
    }

    /// After a step that went well.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn show(&self, current: &Current, generation: &Generation) -> Result<()> {
        let shares = &generation.waves.shares;
        let progress = &current.progress;
        let of_wave = shares.get(current.wave).copied().unwrap_or(1.0);
        let done = if progress.is_done { shares.len() } else { current.wave };
        self.generation.set(number(current.generation));
        self.wave.set(number(done as u64 + 1));
        self.hosts.set(if progress.is_done { 1.0 } else { of_wave });
        self.lease_end.set(current.ends_s() as f64);
        let by_gate = progress.undone.as_ref().filter(|undone| undone.gate.is_some());
        self.taken_back.set(by_gate.map_or(0, |undone| number(undone.generation)));
        self.change.clear();
        self.chance.clear();
        for judged in &progress.judged {
            let label = |of: &str| [("gate", judged.gate.clone()), ("of", of.to_owned())];
            if let Some((low, mean, high)) = judged.change {
                for (of, value) in [("low", low), ("mean", mean), ("high", high)] {
                    self.change.get_or_create(&label(of)).set(value);
                }
            }
            for (of, value) in [("mean", judged.chance_of_mean), ("hosts", judged.chance_of_hosts)]
            {
                self.chance.get_or_create(&label(of)).set(value);
            }
        }
        self.last_step.set(now_s());
        text_collector::write(&self.path, &self.registry)
    }
}

/// Of a host that copies policies.
pub struct OfCopies {
    path: PathBuf,
    registry: Registry,
    generation: Gauge,
    wave: Gauge,
    lease_end: Real,
    last_look: Real,
}

impl OfCopies {
    /// # Errors
    /// The file could not be written.
    pub fn at(path: PathBuf) -> Result<OfCopies> {
        let mut registry = Registry::default();
        let ([generation, wave], [lease_end, last_look]) =
            (<[Gauge; 2]>::default(), <[Real; 2]>::default());
        define::COPIED.register(&mut registry, generation.clone());
        define::COPIED_WAVE.register(&mut registry, wave.clone());
        define::COPIED_LEASE_END.register(&mut registry, lease_end.clone());
        define::LAST_COPY.register(&mut registry, last_look.clone());
        text_collector::try_out(&path)?;
        Ok(OfCopies { path, registry, generation, wave, lease_end, last_look })
    }

    /// After a look that went well: what was copied, if it was another one than before.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn show(&self, copied: Option<&Unverified>) -> Result<()> {
        if let Some(copied) = copied {
            self.generation.set(number(copied.generation));
            self.wave.set(number(copied.wave as u64 + 1));
            self.lease_end.set(copied.written_s.saturating_add(copied.lease_s) as f64);
        }
        self.last_look.set(now_s());
        text_collector::write(&self.path, &self.registry)
    }
}

fn number(of: u64) -> i64 {
    i64::try_from(of).unwrap_or(i64::MAX)
}
