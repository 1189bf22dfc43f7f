//! What a verdict says: one cause, in whole sentences.

use serde::Serialize;

/// What held the connection back most, or that nothing can be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Too few bytes to be held back by anything.
    Little,
    /// The program here had nothing to send.
    Application,
    /// The congestion window, and it was losses that kept it small.
    Loss,
    /// The congestion window, and a queue on the path was filled by it.
    FullPath,
    /// The congestion window at its clamp, or flat for no reason to be seen.
    Saturated,
    /// The congestion window, still opening most of the time.
    SlowStart,
    /// The congestion window, for another reason.
    Cwnd,
    ReceiverWindow,
    SendBuffer,
    Pacing,
    LocalDevice,
    /// Waiting for retransmission timers.
    Timeouts,
    /// A download, and the program here does not read as fast as data comes.
    SlowReader,
    /// A download, and the window offered here is all used.
    OwnWindow,
    /// A download held back by the other side.
    OtherSide,
    Handshake,
    Unknown,
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
