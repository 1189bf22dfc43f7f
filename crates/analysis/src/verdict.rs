//! The sentence a colleague would say.

use serde::Serialize;
use transom_event::State;

use crate::limits::Span;
use crate::summary::median;
use crate::track::Step;
use crate::{Episode, EpisodeKind, Limit, Limits, Summary, causes};

/// The share of time from which a second limit is worth a sentence.
pub const SECOND_SHARE: f64 = 0.2;
/// Fewer bytes than this in both directions are too little to judge by.
pub const LITTLE_BYTES: u64 = 10_000;
/// This many times more received than acknowledged makes a connection a download.
pub const DOWNLOAD_RATIO: u64 = 4;

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
    pub confidence: Confidence,
    /// Why the confidence is not high.
    pub caveats: Vec<String>,
}

impl Verdict {
    /// Findings and remedy as one paragraph.
    pub fn text(&self) -> String {
        let mut text = self.findings.join(" ");
        if let Some(remedy) = &self.remedy {
            text.push(' ');
            text.push_str(remedy);
        }
        text
    }

    pub(crate) fn of(evidence: &Evidence) -> Verdict {
        let finding = causes::find(evidence);
        let (confidence, caveats) = confidence(evidence);
        Verdict {
            cause: finding.cause,
            share: finding.share,
            findings: finding.findings,
            remedy: finding.remedy,
            confidence,
            caveats,
        }
    }
}

/// All that a verdict is made from.
pub(crate) struct Evidence<'a> {
    pub summary: &'a Summary,
    pub limits: &'a Limits,
    pub episodes: &'a [Episode],
    pub steps: &'a [Step<'a>],
}

impl Evidence<'_> {
    /// Median of a number of the state while this limit held; 0 when it never did.
    pub fn median_while(&self, limit: Limit, of: impl Fn(&State) -> u32) -> u32 {
        let spans: Vec<&Span> =
            self.limits.spans.iter().filter(|span| span.limit == limit).collect();
        let mut spans = spans.into_iter().peekable();
        let mut values = Vec::new();
        for step in self.steps {
            // A wait belongs to the event that ended it.
            while spans.next_if(|span| span.end_ns < step.time_ns()).is_some() {}
            let Some(span) = spans.peek() else { break };
            if span.start_ns < step.time_ns() {
                values.push(of(step.state()));
            }
        }
        median(values)
    }

    pub fn episodes(&self, wanted: impl Fn(&EpisodeKind) -> bool) -> u64 {
        self.episodes.iter().filter(|episode| wanted(&episode.kind)).count() as u64
    }

    /// Time of all episodes of a kind, ns.
    pub fn time_in(&self, wanted: impl Fn(&EpisodeKind) -> bool) -> u64 {
        let wanted = self.episodes.iter().filter(|episode| wanted(&episode.kind));
        wanted.map(Episode::length_ns).fold(0, u64::saturating_add)
    }
}

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
    }
    if coverage.lost_events > 0 {
        let lost = coverage.lost_events;
        doubt(Confidence::Medium, format!("{lost} events of the recording were lost"));
    }
    if evidence.limits.share(Limit::Unknown) > SECOND_SHARE {
        doubt(Confidence::Low, "most of what happened in a part of its time is not known".into());
    }
    if coverage.cut {
        doubt(Confidence::Medium, "the file is cut: the end is missing".into());
    }
    if !coverage.begun {
        doubt(Confidence::High, "it was there before the recording began".into());
    }
    (confidence, caveats)
}
