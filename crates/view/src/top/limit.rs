//! What holds the sender back: one simple rule, and where the last seconds went.

use transom_event::{CaState, Chrono, State, TcpState, flags};

/// Why a sender does not send more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Limit {
    /// Nothing to say: no data is being sent.
    #[default]
    None,
    /// Congestion window.
    Cwnd,
    /// Window of the receiver.
    Rwnd,
    /// Send buffer of this machine.
    SndBuf,
    /// The program writes no more.
    App,
    /// Pacing.
    Pacing,
    /// The device or its queue on this machine refuses segments.
    Device,
}

impl Limit {
    pub const ALL: [Limit; 7] = [
        Limit::None,
        Limit::Cwnd,
        Limit::Rwnd,
        Limit::SndBuf,
        Limit::App,
        Limit::Pacing,
        Limit::Device,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Limit::None => "-",
            Limit::Cwnd => "cwnd",
            Limit::Rwnd => "rwnd",
            Limit::SndBuf => "sndbuf",
            Limit::App => "app",
            Limit::Pacing => "pacing",
            Limit::Device => "device",
        }
    }
}

/// What limits a connection in this state. `refused` = a segment of it was refused by the local
/// device within the last second.
///
/// The kernel's own verdict comes first (`tcp_sock.chrono_type`, set in `tcp_write_xmit`), then
/// the windows against what is waiting, then `app_limited` (`tcp_rate_check_app_limited`).
pub fn limit(state: &State, refused: bool) -> Limit {
    let sends = matches!(
        state.tcp(),
        Some(
            TcpState::Established
                | TcpState::CloseWait
                | TcpState::FinWait1
                | TcpState::LastAck
                | TcpState::Closing
        )
    );
    if !sends {
        return Limit::None;
    }
    if refused {
        return Limit::Device;
    }
    match state.chrono() {
        Chrono::ReceiveWindow => return Limit::Rwnd,
        Chrono::SendBuffer => return Limit::SndBuf,
        Chrono::Busy | Chrono::Idle => {}
    }
    let waiting = state.unsent > 0;
    let next = u64::from(state.outstanding()) + u64::from(state.mss.max(1));
    if waiting && next > u64::from(state.snd_wnd) {
        return Limit::Rwnd;
    }
    if state.ca() == Some(CaState::Loss) || (waiting && state.in_flight() >= state.cwnd) {
        return Limit::Cwnd;
    }
    if state.has(flags::APP_LIMITED) && !waiting {
        return Limit::App;
    }
    if state.has(flags::CWND_LIMITED) && state.packets_out > 0 {
        return Limit::Cwnd;
    }
    if waiting && state.has(flags::PACED) {
        return Limit::Pacing;
    }
    if waiting {
        return Limit::None;
    }
    Limit::App
}

const SECOND_NS: u64 = 1_000_000_000;

/// Time spent under each limit in the running second and the one before it, so that a table
/// shows what prevails and does not flicker with every ACK.
#[derive(Clone, Copy, Debug, Default)]
pub struct LimitClock {
    current: Limit,
    since_ns: u64,
    /// When the running second ends.
    edge_ns: u64,
    running: [u32; 7],
    before: [u32; 7],
}

impl LimitClock {
    pub fn set(&mut self, time_ns: u64, limit: Limit) {
        self.advance(time_ns);
        self.current = limit;
    }

    fn advance(&mut self, time_ns: u64) {
        if time_ns <= self.since_ns {
            return;
        }
        if self.since_ns == 0 {
            self.edge_ns = time_ns.saturating_add(SECOND_NS);
        } else if time_ns < self.edge_ns {
            self.spend(time_ns - self.since_ns);
        } else if time_ns - self.edge_ns < SECOND_NS {
            self.spend(self.edge_ns - self.since_ns);
            self.before = std::mem::take(&mut self.running);
            self.spend(time_ns - self.edge_ns);
            self.edge_ns = self.edge_ns.saturating_add(SECOND_NS);
        } else {
            self.running = [0; 7];
            self.before = [0; 7];
            self.spend(SECOND_NS);
            self.edge_ns = time_ns.saturating_add(SECOND_NS);
        }
        self.since_ns = time_ns;
    }

    fn spend(&mut self, ns: u64) {
        let spent = &mut self.running[self.current as usize];
        *spent = spent.saturating_add(ns.min(SECOND_NS) as u32);
    }

    /// Share of the last one to two seconds under each limit, 0 to 1, in the order of
    /// [`Limit::ALL`]. All 0 before any time has passed.
    pub fn shares(mut self, now_ns: u64) -> [f64; 7] {
        self.advance(now_ns);
        let spent: [f64; 7] =
            std::array::from_fn(|i| f64::from(self.running[i]) + f64::from(self.before[i]));
        let total: f64 = spent.iter().sum();
        spent.map(|ns| if total > 0.0 { ns / total } else { 0.0 })
    }

    /// The limit that took the most time.
    pub fn prevailing(self, now_ns: u64) -> Limit {
        let shares = self.shares(now_ns);
        let most = (0..7).max_by(|&a, &b| shares[a].total_cmp(&shares[b])).unwrap_or(0);
        if shares[most] > 0.0 { Limit::ALL[most] } else { self.current }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sending() -> State {
        State {
            cwnd: 10,
            packets_out: 5,
            mss: 1000,
            snd_wnd: 1_000_000,
            tcp_state: TcpState::Established as u8,
            unsent: 100_000,
            ..State::default()
        }
    }

    #[test]
    fn each_cause_is_told() {
        let s = sending();
        let chrono = |c: Chrono| (c as u8) << flags::CHRONO_SHIFT;
        let cases = [
            (State { packets_out: 10, ..s }, Limit::Cwnd),
            (State { flags: flags::CWND_LIMITED, ..s }, Limit::Cwnd),
            (State { ca_state: CaState::Loss as u8, packets_out: 1, ..s }, Limit::Cwnd),
            (State { flags: chrono(Chrono::ReceiveWindow), ..s }, Limit::Rwnd),
            (State { snd_wnd: 5000, snd_nxt: 5000, ..s }, Limit::Rwnd),
            (State { flags: chrono(Chrono::SendBuffer), unsent: 0, ..s }, Limit::SndBuf),
            (State { flags: flags::APP_LIMITED, unsent: 0, ..s }, Limit::App),
            (State { flags: flags::PACED, ..s }, Limit::Pacing),
            (State { tcp_state: TcpState::SynSent as u8, ..s }, Limit::None),
        ];
        for (state, expected) in cases {
            assert_eq!(limit(&state, false), expected, "{state:?}");
        }
        assert_eq!(limit(&s, true), Limit::Device);
    }

    #[test]
    fn the_limit_that_took_the_most_time_prevails() {
        let mut clock = LimitClock::default();
        let ms = 1_000_000;
        clock.set(1000 * ms, Limit::Cwnd);
        clock.set(1700 * ms, Limit::App);
        assert_eq!(clock.prevailing(1900 * ms), Limit::Cwnd);
        let shares = clock.shares(2400 * ms);
        assert!((shares[Limit::Cwnd as usize] - 0.5).abs() < 1e-9, "{shares:?}");
        assert_eq!(clock.prevailing(9000 * ms), Limit::App);
    }

    #[test]
    fn before_any_time_has_passed_the_current_limit_is_told() {
        let mut clock = LimitClock::default();
        clock.set(5, Limit::Rwnd);
        assert_eq!(clock.prevailing(5), Limit::Rwnd);
    }
}
