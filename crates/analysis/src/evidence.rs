//! All that a verdict is made from.

use std::collections::BTreeMap;
use std::ops::Range;

use transom_event::{Direction, Kind, State, TcpState, fields};

use crate::cwnd_falls::is_by_loss;
use crate::losses::Losses;
use crate::track::{Step, is_synchronized};
use crate::{Episode, EpisodeKind, Limit, Limits, Mark, Summary};

/// The share of time from which a second limit is worth a sentence.
pub const SECOND_SHARE: f64 = 0.2;
/// Fewer bytes than this in both directions are too little to judge by.
pub const LITTLE_BYTES: u64 = 10_000;
/// This many times more received than acknowledged makes a connection a download.
pub const DOWNLOAD_RATIO: u64 = 4;

/// Share of the states with one and the same pacing rate from which it is the program's.
pub const FIXED_RATE_SHARE: f64 = 0.4;
/// And the round trips that it must last: a startup has one rate, too, and BBR keeps one for six.
pub const FIXED_RATE_RTTS: u64 = 20;
/// Share of the paced time that rates which last so long must have, where the highest one does not.
pub const ALL_RATES_SHARE: f64 = 0.8;
/// So many timeouts in a row without any answer, until the end, and the other side is gone.
pub const VANISHED_TIMEOUTS: u64 = 3;

/// The other side says nothing, until the end, or until it gives up.
pub(crate) struct Silence {
    pub length_ns: u64,
    /// In a row; also those before the recording, where nothing came in all of it.
    pub timeouts: u64,
    pub is_all: bool,
    /// It closed its side, without having acknowledged what was sent: the way back was there.
    pub gave_up: bool,
}

pub(crate) struct Evidence<'a> {
    pub summary: &'a Summary,
    pub limits: &'a Limits,
    pub episodes: &'a [Episode],
    pub steps: &'a [Step<'a>],
    pub losses: &'a Losses,
    pub algorithm: &'a str,
    /// Every [`Kind::Sack`], in the order of time.
    pub sacks: &'a [&'a Mark],
    /// See [`crate::delivery::share`].
    pub delivery_share: f64,
    /// See [`Recording::told_apart_ns`](crate::Recording::told_apart_ns).
    pub told_apart_ns: u64,
}

impl Evidence<'_> {
    /// Each step that ended a wait in which this limit held, with the length of the wait, ns.
    pub fn while_limited(&self, limit: Limit, mut each: impl FnMut(&Step, u64)) {
        let mut spans = self.limits.spans.iter().filter(|span| span.limit == limit).peekable();
        for pair in self.steps.windows(2) {
            let (from, to) = (pair[0].time_ns(), pair[1].time_ns());
            // A wait belongs to the event that ended it.
            while spans.next_if(|span| span.end_ns < to).is_some() {}
            let Some(span) = spans.peek() else { break };
            if span.start_ns < to {
                each(&pair[1], to - from.max(span.start_ns));
            }
        }
    }

    /// Median of a number of the state over the time in which this limit held, however many events a
    /// part of it has; 0 when it never did.
    pub fn median_while(&self, limit: Limit, of: impl Fn(&State) -> u32) -> u32 {
        self.median_of_some_while(limit, |state| Some(of(state)))
    }

    /// The same over the part of that time in which there is such a number.
    pub fn median_of_some_while(&self, limit: Limit, of: impl Fn(&State) -> Option<u32>) -> u32 {
        let mut values = Vec::new();
        self.while_limited(limit, |step, ns| {
            values.extend(of(step.state()).map(|value| (value, ns)));
        });
        values.sort_unstable();
        let half = values.iter().fold(0_u64, |sum, (_, ns)| sum.saturating_add(*ns)) / 2;
        let mut before = 0_u64;
        let is_middle = |(_, ns): &&(u32, u64)| {
            before = before.saturating_add(*ns);
            before > half
        };
        values.iter().find(is_middle).or(values.last()).map_or(0, |(value, _)| *value)
    }

    /// A number of the state when this limit first held; 0 when it never did.
    pub fn first_while(&self, limit: Limit, of: impl Fn(&State) -> u32) -> u32 {
        let mut first = None;
        self.while_limited(limit, |step, _| first = first.or_else(|| Some(of(step.state()))));
        first.unwrap_or(0)
    }

    /// Whether the handshake ever ended.
    pub fn was_established(&self) -> bool {
        self.steps.iter().any(|step| is_synchronized(step.state()))
    }

    /// When the handshake ended, if this side began it and its end was seen.
    pub fn opened_here_ns(&self) -> Option<u64> {
        let opened = [Some(TcpState::SynSent), Some(TcpState::Established)];
        let is_end = |step: &&Step| {
            step.kind() == Kind::State && fields::tcp_states(step.point.aux) == opened
        };
        self.steps.iter().find(is_end).map(Step::time_ns)
    }

    pub fn end_ns(&self) -> u64 {
        self.steps.last().map_or(0, Step::time_ns)
    }

    /// Whether the pacing rate is the program's: one rate most of the time, and never a higher one; or
    /// a few, one after the other.
    pub fn is_rate_fixed(&self) -> bool {
        let rates = || self.steps.iter().filter_map(|step| step.state().pacing());
        let Some(most) = rates().max() else { return false };
        let same = rates().filter(|&rate| rate == most).count();
        // BBR that has found a policer keeps its estimate as long (`bbr_lt_bw_sampling`).
        let lasting = || self.lasting_rates().iter().map(|(_, ns)| ns).sum::<u64>();
        let paced_ns = self.limits.time_ns(Limit::Pacing) as f64;
        self.summary.duration_ns >= self.fixed_rate_ns()
            && (same as f64 >= FIXED_RATE_SHARE * rates().count() as f64
                || is_by_loss(self.algorithm) && lasting() as f64 > ALL_RATES_SHARE * paced_ns)
    }

    /// The pacing rates that lasted longer than an algorithm's estimate does, and for how long each was
    /// the limit, the longest first: bytes/s, ns.
    pub fn lasting_rates(&self) -> Vec<(u64, u64)> {
        let mut runs: Vec<(u64, Range<u64>)> = Vec::new();
        for step in self.steps {
            let Some(rate) = step.state().pacing() else { continue };
            if let Some((last, run)) = runs.last_mut() {
                run.end = step.time_ns();
                if *last == rate {
                    continue;
                }
            }
            runs.push((rate, step.time_ns()..step.time_ns()));
        }
        runs.retain(|(_, run)| run.end - run.start >= self.fixed_rate_ns());
        // Both follow one another: each is looked at once, however many rates there are.
        let paced = self.limits.spans.iter().filter(|span| span.limit == Limit::Pacing);
        let mut paced = paced.peekable();
        let mut lasting: BTreeMap<u64, u64> = BTreeMap::new();
        for (rate, run) in runs {
            while paced.next_if(|span| span.end_ns <= run.start).is_some() {}
            for span in paced.clone().take_while(|span| span.start_ns < run.end) {
                let ns = span.end_ns.min(run.end) - span.start_ns.max(run.start);
                *lasting.entry(rate).or_default() += ns;
            }
        }
        let mut rates: Vec<(u64, u64)> = lasting.into_iter().collect();
        rates.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
        rates
    }

    fn fixed_rate_ns(&self) -> u64 {
        FIXED_RATE_RTTS * self.summary.rtt.map_or(0, |rtt| u64::from(rtt.min_us) * 1000)
    }

    /// Since when nothing has come back though the timer has expired again and again, until the other
    /// side gave up, or until the end. One that closed before has asked for all, and waits for the answer.
    pub fn silence(&self) -> Option<Silence> {
        let gave_up = self.gave_up().and_then(|at| self.silence_until(Some(at)));
        gave_up.or_else(|| self.silence_until(None))
    }

    fn silence_until(&self, gave_up: Option<usize>) -> Option<Silence> {
        let steps = &self.steps[..gave_up.unwrap_or(self.steps.len())];
        let told = |at: usize| {
            matches!(steps[at].kind(), Kind::Ack | Kind::DupAck)
                || steps[at].is_zero_window(Direction::Received)
        };
        let shown = |at: usize| at > 0 && has_moved(&steps[at - 1], &steps[at]);
        let came = (0..steps.len()).rfind(|&at| told(at) || shown(at));
        let last = came.unwrap_or(0);
        let expired = || steps[last..].iter().filter(|step| step.is_timeout());
        let in_a_row = expired().map(|step| fields::in_a_row(step.point.aux)).max();
        let timeouts = u64::from(in_a_row.unwrap_or(0)).max(expired().count() as u64);
        if timeouts < VANISHED_TIMEOUTS {
            return None;
        }
        // The event before may be the arrival whose effect this one shows.
        let since = if last > 0 && !told(last) && told(last - 1) { last - 1 } else { last };
        // Where all had been answered, there was nothing to come back until more left.
        let waits = |step: &&Step| step.settled().outstanding() > 0;
        let since = steps[since..].iter().find(waits).unwrap_or(&steps[since]);
        let end = gave_up.map_or(steps.last(), |at| self.steps.get(at))?;
        let length_ns = end.time_ns() - since.time_ns();
        Some(Silence { length_ns, timeouts, is_all: came.is_none(), gave_up: gave_up.is_some() })
    }

    /// Where the other side closed, if it acknowledged nothing by that and later, and something waited.
    fn gave_up(&self) -> Option<usize> {
        let (steps, last) = (self.steps, self.steps.last()?);
        let is_close = |step: &Step| {
            step.kind() == Kind::State
                && fields::tcp_states(step.point.aux)[1] == Some(TcpState::CloseWait)
        };
        let closed = steps.iter().position(is_close)?;
        let is_arrival = |step: &Step| matches!(step.kind(), Kind::Ack | Kind::DupAck);
        let arrived =
            if closed > 0 && is_arrival(&steps[closed - 1]) { closed - 1 } else { closed };
        let waits = steps[arrived].state().outstanding() > 0;
        (arrived > 0 && waits && last.acked == steps[arrived - 1].acked).then_some(arrived)
    }

    /// Share of the time in which one of these limits held that also lies in episodes of a kind.
    pub fn share_within(&self, limits: &[Limit], wanted: impl Fn(&EpisodeKind) -> bool) -> f64 {
        // Episodes of one kind follow one another.
        let episodes = self.episodes.iter().filter(|episode| wanted(&episode.kind));
        let times = episodes.map(|episode| episode.start_ns..episode.end_ns);
        let all: u64 = limits.iter().map(|limit| self.limits.time_ns(*limit)).sum();
        self.limits.common_ns(limits, times) as f64 / all.max(1) as f64
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

/// Whether a segment of the other side came between these two: after a FIN, of either side, what
/// arrives has no event of its own.
fn has_moved(from: &Step, to: &Step) -> bool {
    let (before, now) = (from.settled(), to.state());
    let ahead = |of: fn(&State) -> u32| (of(now).wrapping_sub(of(&before)) as i32) > 0;
    is_synchronized(&before)
        && is_synchronized(now)
        && (ahead(|state| state.snd_una) || ahead(|state| state.rcv_nxt))
}
