//! The sentence a colleague would say.

use serde::Serialize;

use crate::evidence::{Evidence, SECOND_SHARE};
use crate::units::count;
use crate::{Cause, Limit, causes};

/// How far the verdict can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    Low,
    Medium,
    High,
}

/// One to three sentences about one connection.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    pub cause: Cause,
    /// Share of the connection's time that the cause held, 0 to 1.
    pub share: f64,
    /// What was seen, in whole sentences.
    pub findings: Vec<String>,
    /// What to do about it, where there is something.
    pub remedy: Option<String>,
    /// What other settings would have done, if a replay was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lever: Option<String>,
    pub confidence: Confidence,
    /// Why the confidence is not high.
    pub caveats: Vec<String>,
}

pub(crate) const LIMIT_THERE: &str = "Record there to see what limits it.";
pub(crate) const EITHER_THERE: &str = "Record there to see which.";
pub(crate) const PROGRAM_THERE: &str = "Look at the program on the other side, which takes that long to ask or to answer: record there.";

/// Remedies that are a recording of the other end, and what they become where there is one.
const OTHER_END: [(&str, &str); 3] = [
    (LIMIT_THERE, "The verdict of the other end, which was recorded as well, says what limits it."),
    (EITHER_THERE, "The verdict of the other end, which was recorded as well, says which."),
    (
        PROGRAM_THERE,
        "Look at the program on the other side, which takes that long to ask or to answer: that end was recorded as well.",
    ),
];

impl Verdict {
    /// Findings, remedy and lever as one paragraph.
    pub fn text(&self) -> String {
        let mut sentences = self.findings.clone();
        sentences.extend(self.remedy.clone());
        sentences.extend(self.lever.clone());
        sentences.join(" ")
    }

    /// Where the other end was recorded as well: nobody is sent there to record it.
    #[must_use]
    pub fn beside_other_end(mut self) -> Verdict {
        let known = |(there, here): &(&str, &str)| {
            (self.remedy.as_deref() == Some(*there)).then(|| (*here).to_owned())
        };
        if let Some(here) = OTHER_END.iter().find_map(known) {
            self.remedy = Some(here);
        }
        self
    }

    pub(crate) fn of(evidence: &Evidence) -> Verdict {
        let finding = causes::find(evidence);
        let (confidence, caveats) = confidence(evidence);
        Verdict {
            cause: finding.cause,
            share: finding.share,
            findings: finding.findings,
            remedy: finding.remedy,
            lever: None,
            confidence,
            caveats,
        }
    }
}

/// One segment without an event in more than so many events leaves a verdict as it is: its bytes
/// are known from the sequence numbers.
const FEW_UNSEEN: u64 = 50;

fn confidence(evidence: &Evidence) -> (Confidence, Vec<String>) {
    let coverage = &evidence.summary.coverage;
    let mut confidence = Confidence::High;
    let mut caveats = Vec::new();
    let mut doubt = |at_most: Confidence, caveat: String| {
        confidence = confidence.min(at_most);
        caveats.push(caveat);
    };
    if coverage.polled {
        doubt(Confidence::Low, "only polled states, no events: short causes are missed".into());
    } else if coverage.sampled {
        doubt(Confidence::Medium, "many ACKs were not recorded: times are estimates".into());
    } else if coverage.closed_early {
        let caveat = "one side closed long before the end: no probe sees ACKs from then on";
        doubt(Confidence::Medium, caveat.into());
    }
    if coverage.lost_events > 0 {
        let lost = coverage.lost_events;
        doubt(Confidence::Medium, format!("{lost} events of the recording were lost"));
    }
    if coverage.unseen_segments > 0 {
        let unseen = coverage.unseen_segments;
        let few = unseen * FEW_UNSEEN < coverage.recorded_events;
        let at_most = if few { Confidence::High } else { Confidence::Medium };
        let segments = count(unseen, "segment", "segments");
        let were = if unseen == 1 { "was" } else { "were" };
        doubt(at_most, format!("{segments} of the recording {were} sent without an event"));
    }
    if evidence.limits.share(Limit::Unknown) > SECOND_SHARE {
        doubt(Confidence::Low, "for a part of the time most events are missing".into());
    }
    if coverage.uncounted_bytes {
        let caveat = "more than 2 GiB passed between two events: the byte counts are a lower bound";
        doubt(Confidence::Medium, caveat.into());
    }
    if coverage.cut {
        doubt(Confidence::Medium, "the file is cut: the end is missing".into());
    }
    // Polling finds each connection some time after its beginning.
    if !coverage.begun && !coverage.polled {
        doubt(Confidence::High, "the connection existed before the recording began".into());
    }
    (confidence, caveats)
}
