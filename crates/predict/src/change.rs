//! Another setting of the sender.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::model::{Model, Program};

/// A limit that is not TCP's: what would be without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Lift {
    Application,
    SendBuffer,
    ReceiverWindow,
    Reader,
    Pacing,
    Device,
}

impl Lift {
    pub fn label(self) -> &'static str {
        match self {
            Lift::Application => "a program that never waits",
            Lift::SendBuffer => "a send buffer that grows",
            Lift::ReceiverWindow => "a receiver's window that grows",
            Lift::Reader => "a receiver that reads at once",
            Lift::Pacing => "no SO_MAX_PACING_RATE",
            Lift::Device => "a device as fast as the path",
        }
    }

    /// Those that this model has.
    pub fn of(model: &Model) -> Vec<Lift> {
        let (sender, receiver) = (&model.sender, &model.receiver);
        let waits = matches!(model.program, Program::Writes { .. } | Program::Requests { .. });
        let all = [
            (waits, Lift::Application),
            (sender.send_buffer.is_some(), Lift::SendBuffer),
            (receiver.window.is_some(), Lift::ReceiverWindow),
            (receiver.reads.is_some(), Lift::Reader),
            (sender.pacing.is_some(), Lift::Pacing),
            (sender.device.is_some(), Lift::Device),
        ];
        all.into_iter().filter_map(|(is, lift)| is.then_some(lift)).collect()
    }

    fn apply(self, model: &mut Model) {
        let (sender, receiver) = (&mut model.sender, &mut model.receiver);
        match self {
            Lift::Application => model.program = Program::Endless,
            Lift::SendBuffer => sender.send_buffer = None,
            Lift::ReceiverWindow => receiver.window = None,
            Lift::Reader => (receiver.reads, receiver.window) = (None, None),
            Lift::Pacing => sender.pacing = None,
            Lift::Device => sender.device = None,
        }
    }
}

/// What is set differently; nothing: as it was recorded.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Change {
    /// Congestion control algorithm.
    pub algorithm: Option<String>,
    /// Segments.
    pub initial_window: Option<u32>,
    /// Upper limit of cwnd, segments.
    pub cap: Option<u32>,
    /// Without the leading `net.`.
    pub sysctl: BTreeMap<String, String>,
    /// No setting of TCP.
    pub lift: Option<Lift>,
}

impl Change {
    pub fn is_none(&self) -> bool {
        *self == Change::default()
    }

    pub fn of_lift(lift: Lift) -> Change {
        Change { lift: Some(lift), ..Change::default() }
    }

    /// The model without the limit that is lifted.
    pub fn lifted(&self, model: &Model) -> Model {
        let mut lifted = model.clone();
        if let Some(lift) = self.lift {
            lift.apply(&mut lifted);
        }
        lifted
    }

    /// `bbr, initial window 30`.
    pub fn label(&self) -> String {
        let mut parts: Vec<String> = self.algorithm.iter().cloned().collect();
        parts.extend(self.initial_window.map(|it| format!("initial window {it}")));
        parts.extend(self.cap.map(|it| format!("cap {it}")));
        parts.extend(self.sysctl.iter().map(|(key, value)| format!("{key}={value}")));
        parts.extend(self.lift.map(|lift| lift.label().to_owned()));
        if parts.is_empty() { "as recorded".to_owned() } else { parts.join(", ") }
    }

    /// Whether a policy of `tune` can make it.
    pub fn is_policy(&self) -> bool {
        !self.is_none() && self.sysctl.is_empty() && self.lift.is_none()
    }
}

/// Algorithms that every kernel of Transom's library has.
const ALGORITHMS: [&str; 3] = ["cubic", "bbr", "reno"];
/// Initial windows that are in use (RFC 6928 and large content networks), segments.
const INITIAL_WINDOWS: [u32; 2] = [20, 40];

/// What one would usually try on such a model: other algorithms, other initial windows where the
/// transfer is over soon, a cap at what the path holds, and each limit that is not TCP's lifted.
pub fn usual(model: &Model) -> Vec<Change> {
    let others = ALGORITHMS.iter().filter(|name| **name != model.sender.algorithm);
    let mut all: Vec<Change> = others
        .map(|name| Change { algorithm: Some((*name).to_owned()), ..Change::default() })
        .collect();
    all.extend(
        INITIAL_WINDOWS.map(|window| Change { initial_window: Some(window), ..Change::default() }),
    );
    let holds = model.path.rate.value * model.path.rtt_s.value / model.packet;
    if model.path.policer.is_none() && model.path.rate.high.is_some() {
        let cap = Some((holds * FULL).ceil().max(4.0) as u32);
        all.push(Change { cap, ..Change::default() });
    }
    all.extend(Lift::of(model).into_iter().map(Change::of_lift));
    all
}

/// A window of so many times what the path holds fills it and leaves little in its queue.
const FULL: f64 = 1.2;
