//! A host whose connections have `steady` under the guard of a policy (docs/policy.md).

use serde::{Deserialize, Serialize};
use transom_guard::{GuardSettings, Hurt};

/// What `transom tune` watches over there: connections on `steady` that the host sends with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Guarded {
    pub settings: GuardSettings,
    /// What they have while `steady` is withdrawn.
    pub instead: String,
    /// Their window was chosen: the policy names a target.
    pub chosen: bool,
}

/// What the guard of a host did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GuardOutcome {
    /// At each look at which something had been sent.
    pub looks: Vec<GuardLook>,
    pub actions: Vec<GuardAction>,
}

/// Segments of the host's connections with data, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GuardLook {
    pub at_s: f64,
    pub sent: u64,
    pub retransmitted: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct GuardAction {
    pub at_s: f64,
    /// Why `steady` was withdrawn; none: it was given back.
    pub withdrawn: Option<Hurt>,
    /// The smoothed round trip then, µs.
    pub srtt_us: u32,
}
