//! Queueing disciplines: which packets of a queue are dropped or marked, and which is sent next.

use serde::{Deserialize, Serialize};

use super::problem::{Problem, Problems};

/// Times in ms. What is not given is as in the RFC, or as in Linux where that is silent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Discipline {
    pub kind: Kind,
    /// Marks ECN-capable packets "congestion experienced" instead of dropping them; absent: as in
    /// Linux, which does for `fq-codel`, and not for `codel` and `pie`.
    pub ecn: Option<bool>,
    /// Time that packets may wait in a standing queue: 5, of `pie` 15.
    pub target_ms: Option<f64>,
    /// CoDel: within so long the least wait must be below the target once: 100.
    pub interval_ms: Option<f64>,
    /// CoDel: an ECN-capable packet that waited longer is marked at once, also without `ecn`;
    /// absent: none is.
    pub ce_threshold_ms: Option<f64>,
    /// PIE: time between two updates of its probability: 15.
    pub update_ms: Option<f64>,
    /// FQ: queues to which flows are hashed: 1024.
    pub queues: Option<u32>,
    /// FQ: bytes that a queue may send in its turn: 1514.
    pub quantum_bytes: Option<u32>,
    /// FQ: hosts share evenly, whatever the number of their flows; absent: flows do.
    pub isolate: Option<Isolate>,
    /// AQM: counted on top of each packet for the rate, as of a link behind this one: 0.
    pub overhead_bytes: Option<u32>,
    /// Drop-tail: an ECN-capable packet on whose arrival so many packets, or bytes, wait is marked
    /// (K of RFC 8257).
    pub mark_packets: Option<u32>,
    pub mark_bytes: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// What does not fit is dropped.
    #[default]
    DropTail,
    /// RFC 8289.
    Codel,
    /// RFC 8290.
    FqCodel,
    /// RFC 8033.
    Pie,
}

/// Which hosts share evenly: CAKE's `dual-srchost` and `dual-dsthost` (tc-cake(8)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Isolate {
    Source,
    Destination,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::DropTail => "drop-tail",
            Kind::Codel => "codel",
            Kind::FqCodel => "fq-codel",
            Kind::Pie => "pie",
        }
    }

    /// The keys that mean something for it.
    fn keys(self) -> &'static [&'static str] {
        match self {
            Kind::DropTail => &["mark_packets", "mark_bytes"],
            Kind::Codel => {
                &["ecn", "target_ms", "interval_ms", "ce_threshold_ms", "overhead_bytes"]
            }
            Kind::FqCodel => &[
                "ecn",
                "target_ms",
                "interval_ms",
                "ce_threshold_ms",
                "queues",
                "quantum_bytes",
                "isolate",
                "overhead_bytes",
            ],
            Kind::Pie => &["ecn", "target_ms", "update_ms", "overhead_bytes"],
        }
    }
}

impl Discipline {
    /// With nothing but its kind.
    pub fn of(kind: Kind) -> Discipline {
        Discipline {
            kind,
            ecn: None,
            target_ms: None,
            interval_ms: None,
            ce_threshold_ms: None,
            update_ms: None,
            queues: None,
            quantum_bytes: None,
            isolate: None,
            overhead_bytes: None,
            mark_packets: None,
            mark_bytes: None,
        }
    }

    pub(crate) fn marks(&self) -> bool {
        self.ecn.unwrap_or(self.kind == Kind::FqCodel)
    }

    /// What is wrong with it as the table `at`.
    pub(super) fn problems(&self, at: &str) -> Vec<Problem> {
        let mut problems = Problems::below(at);
        let given = [
            ("ecn", self.ecn.is_some()),
            ("target_ms", self.target_ms.is_some()),
            ("interval_ms", self.interval_ms.is_some()),
            ("ce_threshold_ms", self.ce_threshold_ms.is_some()),
            ("update_ms", self.update_ms.is_some()),
            ("queues", self.queues.is_some()),
            ("quantum_bytes", self.quantum_bytes.is_some()),
            ("isolate", self.isolate.is_some()),
            ("overhead_bytes", self.overhead_bytes.is_some()),
            ("mark_packets", self.mark_packets.is_some()),
            ("mark_bytes", self.mark_bytes.is_some()),
        ];
        let keys = self.kind.keys();
        for (key, _) in given.iter().filter(|(key, given)| *given && !keys.contains(key)) {
            let what = format!("means nothing for {}", self.kind.name());
            problems.add(
                key,
                what,
                format!("remove it; {} has {}", self.kind.name(), keys.join(", ")),
            );
        }
        problems.within("target_ms", self.target_ms, 0.001, 10_000.0, "ms");
        problems.within("interval_ms", self.interval_ms, 0.001, 60_000.0, "ms");
        problems.within("ce_threshold_ms", self.ce_threshold_ms, 0.0, 10_000.0, "ms");
        problems.within("update_ms", self.update_ms, 0.1, 10_000.0, "ms");
        problems.within("queues", self.queues.map(f64::from), 1.0, 65_536.0, "");
        problems.within("quantum_bytes", self.quantum_bytes.map(f64::from), 64.0, 1e6, "bytes");
        problems.within("overhead_bytes", self.overhead_bytes.map(f64::from), 0.0, 1e4, "bytes");
        problems.found
    }
}
