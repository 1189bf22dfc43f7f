//! One direction of the path, of a cellular host's path, or of a host's own link: stages in a row.

use super::event::{At, What};
use crate::log::{DirectionLog, StageLog};
use crate::plan;
use crate::stage::Stage;

#[derive(Debug)]
pub(super) struct Pipe {
    /// As in the log.
    name: String,
    pub stages: Vec<Stage>,
    /// What happens when a packet has left the last stage.
    ends: What,
}

impl Pipe {
    /// `streams` tells the random streams of this direction from those of others. The first stage
    /// also delays by half of what the round trip has in addition.
    pub fn new(
        plan: &plan::Direction,
        half_rtt_ms: f64,
        seed: u64,
        (name, streams): (String, &str),
        ends: What,
    ) -> Pipe {
        let mut stages = vec![Stage::new(plan, half_rtt_ms, seed, streams)];
        stages.extend(plan.stages.iter().enumerate().map(|(index, further)| {
            Stage::new(further, 0.0, seed, &format!("{streams}.stage{}", index + 2))
        }));
        Pipe { name, stages, ends }
    }

    /// Where a packet goes that leaves this stage.
    pub fn after(&self, at: At) -> What {
        if at.stage as usize + 1 < self.stages.len() {
            What::Enter(At { stage: at.stage + 1, ..at })
        } else {
            self.ends
        }
    }

    /// The names of its stages, in their order.
    pub fn names(&self) -> impl Iterator<Item = String> {
        (1..=self.stages.len()).map(|number| match number {
            1 => self.name.clone(),
            more => format!("{} stage {more}", self.name),
        })
    }

    /// Of the first stage.
    pub fn log(&self) -> DirectionLog {
        self.stages[0].log()
    }

    /// Of all stages.
    pub fn logs(&self) -> impl Iterator<Item = StageLog> {
        self.names().zip(&self.stages).map(|(name, stage)| StageLog { name, log: stage.log() })
    }
}
