//! Everything that is said about one connection, together.

use serde::Serialize;
use transom_event::{Endpoints, Kind, Names, Origin, Token};

use crate::evidence::Evidence;
use crate::families::family_order;
use crate::losses::Losses;
use crate::track::steps;
use crate::{
    Connection, Episode, Identified, Identity, Limits, Mark, Recording, Summary, Verdict, delivery,
    episodes, limits, relay,
};

/// What one connection did and why.
#[derive(Clone, Debug, Serialize)]
pub struct Analysis {
    pub cookie: u64,
    /// Empty when not known; so are the next two.
    pub program: String,
    pub tgid: u32,
    /// `address:port`.
    pub local: String,
    pub remote: String,
    /// The same two for people: [`Analysis::name_ends`].
    #[serde(skip)]
    pub local_name: String,
    #[serde(skip)]
    pub remote_name: String,
    #[serde(skip)]
    pub ends: Option<Endpoints>,
    /// Whether this side is the server; a guess by the ports where the handshake was not seen.
    #[serde(skip)]
    pub serves: bool,
    /// Where the recording began, ns of CLOCK_BOOTTIME: times are told from there.
    #[serde(skip)]
    pub origin_ns: u64,
    pub algorithm: String,
    /// The Multipath TCP connection that it is a subflow of.
    pub mptcp: Option<Token>,
    /// When it began, ns of CLOCK_BOOTTIME.
    pub start_ns: u64,
    pub summary: Summary,
    pub limits: Limits,
    pub episodes: Vec<Episode>,
    pub losses: Losses,
    pub verdict: Verdict,
}

impl Analysis {
    /// Bytes of both directions.
    pub fn bytes(&self) -> u64 {
        self.summary.acked + self.summary.received
    }

    /// From now on texts for people have these names.
    pub fn name_ends(&mut self, names: &Names) {
        if let Some(ends) = self.ends {
            self.local_name = names.end(ends.local);
            self.remote_name = names.end(ends.remote);
        }
    }
}

impl Identified for Analysis {
    fn identity(&self) -> Identity<'_> {
        Identity {
            cookie: self.cookie,
            tgid: self.tgid,
            program: &self.program,
            ends: self.ends,
            mptcp: self.mptcp,
        }
    }
}

/// Every connection of the recording, those with the most bytes first; subflows of one Multipath
/// TCP connection under one another.
pub fn analyse(recording: &Recording) -> Vec<Analysis> {
    let mut all: Vec<Analysis> =
        recording.connections.iter().map(|c| analyse_connection(c, recording)).collect();
    relay::relate(&mut all);
    family_order(&mut all, |a| a.mptcp, |a| [a.bytes(), 0], |a| a.start_ns);
    all
}

/// One connection; the recording tells which events were lost, and whether it is cut.
pub fn analyse_connection(connection: &Connection, recording: &Recording) -> Analysis {
    let steps = steps(connection);
    let summary = Summary::of(connection, &steps, recording);
    let limits = limits::partition(connection, &steps, &recording.lost);
    let episodes = episodes::find(connection, &steps);
    let algorithm = connection.algorithm();
    // Where ACKs are missing, round trips and the place of a loss would be guesses.
    let losses = match summary.coverage.sampled || summary.coverage.polled {
        true => Losses::default(),
        false => Losses::of(connection.while_acks_are_seen(&steps), algorithm.starts_with("bbr")),
    };
    let is_sack = |mark: &&Mark| mark.kind == Kind::Sack;
    let sacks: Vec<&Mark> = connection.marks.iter().filter(is_sack).collect();
    let evidence = Evidence {
        summary: &summary,
        limits: &limits,
        episodes: &episodes,
        steps: &steps,
        losses: &losses,
        algorithm: &algorithm,
        sacks: &sacks,
        delivery_share: delivery::share(&limits, &steps, summary.duration_ns),
        told_apart_ns: recording.told_apart_ns,
    };
    let verdict = Verdict::of(&evidence);
    let ends = connection.endpoints();
    let [local, remote] =
        ends.map(|ends| [ends.local, ends.remote].map(|end| end.to_string())).unwrap_or_default();
    Analysis {
        cookie: connection.cookie,
        program: connection.program(),
        tgid: connection.tgid,
        local_name: local.clone(),
        remote_name: remote.clone(),
        local,
        remote,
        ends,
        serves: match connection.origin {
            Some(Origin::Accept) => true,
            Some(Origin::Connect) => false,
            _ => ends.is_some_and(|ends| ends.local.port() < ends.remote.port()),
        },
        origin_ns: recording.start_ns,
        algorithm,
        mptcp: connection.mptcp(),
        start_ns: connection.begun_ns(),
        summary,
        limits,
        episodes,
        losses,
        verdict,
    }
}
