//! Where events come from: the probes, or polling where there are none.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use transom_event::{Kind, LossCause, Raw};

use crate::sampler::{DEFAULT_INTERVAL, Sampler};
use crate::session::{Monitor, MonitorOptions};
use crate::survey::Survey;

/// The best source this user gets on this kernel.
pub enum Source {
    Probes(Box<Monitor>),
    Polling { sampler: Box<Sampler>, because: String },
}

impl Source {
    /// Probes if the kernel and the user's privileges allow them, polling if not.
    ///
    /// # Errors
    /// When a filter names something that is not there, or needs the probes.
    pub fn start(options: &MonitorOptions) -> Result<Source> {
        options.check()?;
        let survey = Survey::take();
        let because = if survey.can_monitor {
            match Monitor::start(survey, options) {
                Ok(monitor) => return Ok(Source::Probes(Box::new(monitor))),
                Err(error) => format!("{error:#}"),
            }
        } else {
            survey.missing()
        };
        let sampler = Sampler::start(&options.filter, DEFAULT_INTERVAL)
            .with_context(|| format!("no probes here: {because}"))?;
        Ok(Source::Polling { sampler: Box::new(sampler), because })
    }

    /// See [`Monitor::poll`] and [`Sampler::poll`].
    pub fn poll(&mut self, timeout: Duration, sink: &mut dyn FnMut(&Raw)) -> Result<usize> {
        match self {
            Source::Probes(monitor) => monitor.poll(timeout, sink),
            Source::Polling { sampler, .. } => sampler.poll(timeout, sink),
        }
    }

    /// # Errors
    /// See [`Monitor::losses`].
    pub fn losses(&self) -> Result<Vec<(LossCause, u64)>> {
        match self {
            Source::Probes(monitor) => monitor.losses(),
            Source::Polling { .. } => Ok(Vec::new()),
        }
    }

    /// What the user should know about this source, if it is not the best.
    pub fn note(&self) -> Option<String> {
        match self {
            Source::Probes(monitor) => {
                let surprises = monitor.survey().surprises();
                (!surprises.is_empty()).then(|| surprises.join("; "))
            }
            Source::Polling { sampler, because } => Some(format!(
                "samples of TCP_INFO each {} ms, no events: {because} (see `transom check`)",
                sampler.interval().as_millis()
            )),
        }
    }

    /// `ack=tracepoint …`, or that it polls.
    pub fn probes(&self) -> String {
        match self {
            Source::Probes(monitor) => monitor.survey().summary(),
            Source::Polling { .. } => "sock_diag polling".to_owned(),
        }
    }

    /// Whether an event of this kind can come from it.
    pub fn yields(&self, kind: Kind) -> bool {
        match self {
            Source::Probes(monitor) => monitor.survey().yields(kind),
            Source::Polling { .. } => matches!(kind, Kind::Open | Kind::Sample | Kind::Close),
        }
    }

    /// Runs `start`, and follows the process it starts and all its children.
    ///
    /// With probes not one system call is missed: the kernel side takes over
    /// the children of a wanted process at fork, and for the time of the fork
    /// that process is this one.
    pub fn follow<T>(
        &mut self,
        start: impl FnOnce() -> Result<T>,
        pid: impl Fn(&T) -> u32,
    ) -> Result<T> {
        match self {
            Source::Probes(monitor) => {
                if monitor.survey().chosen("children").is_none() {
                    bail!(
                        "this kernel has no tracepoint for fork, so a program cannot be followed"
                    );
                }
                let own = std::process::id();
                monitor.add_process(own)?;
                let started = start();
                monitor.remove_process(own)?;
                started
            }
            Source::Polling { sampler, .. } => {
                let started = start()?;
                sampler.add_process(pid(&started));
                Ok(started)
            }
        }
    }
}
