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

/// Parameters of `steady` (docs/policy.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Steady {
    /// Segments; 0: slow start.
    pub target: u32,
    /// Segments; 0: none.
    pub cap: u32,
    /// Share of the window that congestion costs, 1024ths.
    pub backoff: u32,
    /// Segments per round trip, 1024ths.
    pub gain: u32,
}

impl Steady {
    pub const NAME: &str = "steady";
    /// What shares and gains are counted in.
    pub const ONE: u32 = 1024;

    /// The sysctls of the simulated kernel.
    pub(crate) fn sysctls(self) -> [(String, String); 4] {
        let Steady { target, cap, backoff, gain } = self;
        let all = [("target", target), ("cap", cap), ("backoff", backoff), ("gain", gain)];
        all.map(|(name, value)| (format!("ipv4.tcp_steady_{name}"), value.to_string()))
    }

    /// Those that differ from the defaults, as keys of a policy's action.
    pub(crate) fn keys(self) -> Vec<(&'static str, String)> {
        let Steady { target, cap, backoff, gain } = self;
        let share = |value: u32| (f64::from(value) / f64::from(Steady::ONE)).to_string();
        [
            ("target", target.to_string(), target > 0),
            ("cap", cap.to_string(), cap > 0),
            ("backoff", share(backoff), backoff != Steady::ONE / 8),
            ("gain", share(gain), gain != Steady::ONE),
        ]
        .into_iter()
        .filter_map(|(key, value, is)| is.then_some((key, value)))
        .collect()
    }
}

/// What is set differently; nothing: as it was recorded.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Change {
    /// Congestion control algorithm.
    pub algorithm: Option<String>,
    /// With the algorithm `steady`; none: its defaults.
    pub steady: Option<Steady>,
    /// Segments.
    pub initial_window: Option<u32>,
    /// Upper limit of cwnd, segments.
    pub cap: Option<u32>,
    /// Without the leading `net.`.
    pub sysctl: BTreeMap<String, String>,
    /// No setting of TCP.
    pub lift: Option<Lift>,
    /// Another program than the recorded one, and for how long, s.
    #[serde(skip)]
    pub program: Option<(Program, f64)>,
}

impl Change {
    pub fn is_none(&self) -> bool {
        *self == Change::default()
    }

    pub fn of_lift(lift: Lift) -> Change {
        Change { lift: Some(lift), ..Change::default() }
    }

    /// The model without the limit that is lifted, and with the other program.
    pub fn lifted(&self, model: &Model) -> Model {
        let mut lifted = model.clone();
        if let Some(lift) = self.lift {
            lift.apply(&mut lifted);
        }
        if let Some((program, seconds)) = &self.program {
            (lifted.program, lifted.seconds) = (program.clone(), *seconds);
        }
        lifted
    }

    /// `bbr, initial window 30`.
    pub fn label(&self) -> String {
        let mut parts: Vec<String> = self.algorithm.iter().cloned().collect();
        let steady = self.steady.map_or(Vec::new(), Steady::keys);
        parts.extend(steady.iter().map(|(key, value)| format!("{key} {value}")));
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
    let cap = full(model).map(|(_, full)| full);
    all.extend(cap.map(|cap| Change { cap: Some(cap), ..Change::default() }));
    all.extend(Lift::of(model).into_iter().map(Change::of_lift));
    all
}

/// The same, `steady` as it is and with what the path holds as its target, and sysctls.
pub fn levers(model: &Model) -> Vec<Change> {
    let mut all = usual(model);
    let steady = |steady| {
        let algorithm = Some(Steady::NAME.to_owned());
        Change { algorithm, steady, ..Change::default() }
    };
    if model.sender.algorithm != Steady::NAME {
        all.push(steady(None));
    }
    let parameters =
        full(model).map(|(target, cap)| Steady { target, cap, backoff: 0, gain: Steady::ONE });
    all.extend(parameters.map(|parameters| steady(Some(parameters))));
    if matches!(model.program, Program::Writes { .. } | Program::Requests { .. }) {
        let sysctl = BTreeMap::from([(AFTER_IDLE.to_owned(), "0".to_owned())]);
        all.push(Change { sysctl, ..Change::default() });
    }
    all
}

/// Where a program pauses, its window survives the pause.
const AFTER_IDLE: &str = "ipv4.tcp_slow_start_after_idle";

/// Windows that the path holds, and that fill it with little in its queue; segments.
fn full(model: &Model) -> Option<(u32, u32)> {
    let holds = model.path.rate.value * model.path.rtt_s.value / model.packet;
    let segments = |window: f64| window.ceil().max(4.0) as u32;
    let is_known = model.path.policer.is_none() && model.path.rate.high.is_some();
    is_known.then(|| (segments(holds), segments(holds * FULL)))
}

/// A window of so many times what the path holds fills it and leaves little in its queue.
const FULL: f64 = 1.2;
