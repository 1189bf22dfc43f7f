//! What a verdict says: one cause, in whole sentences.

use serde::Serialize;

/// What held the connection back most, or that nothing can be said. The names in JSON are stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Too few bytes, or too few round trips, to be held back by anything.
    Little,
    /// The program here had nothing to send.
    Application,
    /// The send buffer was full while the windows had room.
    SendBuffer,
    /// The window that the other side offered was full.
    ReceiverWindow,
    /// The other side's program read more slowly than data came.
    PeerReadsSlowly,
    /// The congestion window, and a queue on the path was full.
    FullPath,
    /// The congestion window, and losses at the greatest loads: a queue too short for the path.
    ShallowBuffer,
    /// The congestion window, and losses above a rate, without any queue.
    Policer,
    /// The congestion window, and losses that came at any load.
    RandomLoss,
    /// The congestion window, made small by segments that came late and were taken for lost.
    Reordering,
    /// The congestion window, and losses whose kind cannot be told.
    UnclearLoss,
    /// The congestion window at its clamp, or flat for no reason that is recorded.
    Saturated,
    /// The congestion window, still opening most of the time.
    SlowStart,
    /// The congestion window, for another reason.
    Cwnd,
    /// A pacing rate that the program set.
    Pacing,
    /// The device here or its queue.
    LocalDevice,
    /// Waiting for retransmission timers.
    Timeouts,
    /// Nothing came back for a while, then it went on.
    Outage,
    /// Nothing came back until the end.
    PeerVanished,
    /// A download, and the program here does not read as fast as data comes.
    SlowReader,
    /// A download, and the window offered here is all used.
    OwnWindow,
    /// A download held back by the other side.
    OtherSide,
    Handshake,
    Unknown,
}

impl Cause {
    /// As in JSON.
    pub fn name(self) -> String {
        let name = serde_json::to_value(self).ok();
        name.as_ref().and_then(|name| name.as_str()).unwrap_or_default().to_owned()
    }
}

/// One cause with its sentences, before its confidence is known.
pub(crate) struct Finding {
    pub cause: Cause,
    pub share: f64,
    pub findings: Vec<String>,
    pub remedy: Option<String>,
}

impl Finding {
    pub fn new(cause: Cause, share: f64, finding: String, remedy: Option<&str>) -> Finding {
        Finding { cause, share, findings: vec![finding], remedy: remedy.map(str::to_owned) }
    }
}
