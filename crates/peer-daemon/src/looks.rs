//! This terminal's own connections, by polling `sock_diag`: cheap, and without privilege.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::Result;
use transom_event::{Body, Chrono, Endpoints, Event, Kind, State, UNSET, flags};
use transom_monitor::{Filter, Sampler};
use transom_peers::estimate::{Look, Stability, Track};
use transom_peers::{Flow, FlowId, MOST_FLOWS, Treatment};

/// Between two looks.
pub const EACH: Duration = Duration::from_millis(250);

/// Connections that we follow at most; more are left alone.
const MOST_TRACKED: usize = 4096;

/// One connection on which this terminal may send.
pub struct Tracked {
    pub cookie: u64,
    pub ends: Endpoints,
    track: Track,
}

/// Connections by their cookies.
#[derive(Default)]
pub struct Changes {
    pub come: Vec<u64>,
    pub gone: Vec<u64>,
}

pub struct Looks {
    sampler: Sampler,
    /// Connections of other interfaces do not use this air.
    local: Vec<IpAddr>,
    /// Our own way to a router is no matter of the group.
    own: Vec<SocketAddr>,
    tracked: BTreeMap<FlowId, Tracked>,
}

/// Cookies are numbered one after the other, so 32 bits distinguish those of a terminal.
fn flow_id(cookie: u64) -> FlowId {
    cookie as FlowId
}

/// RFC 9293's established state, as the kernel numbers it.
const ESTABLISHED: u8 = 1;

fn look(state: &State) -> Option<Look> {
    if state.tcp_state != ESTABLISHED || state.srtt_us == 0 || state.min_rtt_us == UNSET {
        return None;
    }
    let has_more = state.unsent > 0 || state.has(flags::CWND_LIMITED);
    Some(Look {
        cwnd: state.cwnd,
        ssthresh: state.ssthresh_set(),
        srtt_us: state.srtt_us,
        min_rtt_us: state.min_rtt_us.max(1),
        mss: state.mss,
        acked: state.snd_una,
        gives_way: state.ca_state >= 2,
        wants: has_more && state.chrono() != Chrono::Idle && !waits_for_reader(state),
    })
}

/// Whether the receiver's window is full just now. The kernel's clock alone would count a flow that
/// met it for a moment between two looks.
fn waits_for_reader(state: &State) -> bool {
    match state.snd_wnd {
        // Reported since Linux 6.2.
        0 => state.chrono() == Chrono::ReceiveWindow,
        window => u64::from(state.packets_out + 1) * u64::from(state.mss) >= u64::from(window),
    }
}

impl Looks {
    pub fn start(local: Vec<IpAddr>, own: Vec<SocketAddr>) -> Result<Looks> {
        // The daemon's loop keeps the time.
        let sampler = Sampler::start(&Filter::default(), Duration::ZERO)?;
        Ok(Looks { sampler, local, own, tracked: BTreeMap::new() })
    }

    /// The interface may have got other addresses.
    pub fn set_local(&mut self, local: Vec<IpAddr>) {
        self.local = local;
    }

    /// Looks at all connections now, and returns the cookies of those that opened and closed.
    pub fn look(&mut self, now: Duration, stability: &Stability) -> Result<Changes> {
        let mut events = Vec::new();
        self.sampler.poll(EACH, &mut |raw| events.extend(Event::try_from(raw)))?;
        let mut changes = Changes::default();
        for event in events {
            let id = flow_id(event.cookie);
            match event.body {
                Body::Open(open) => {
                    let ends = open.endpoints();
                    let ours = self.local.contains(&ends.local.ip().to_canonical());
                    if ours
                        && !self.own.contains(&ends.remote)
                        && self.tracked.len() < MOST_TRACKED
                        && !self.tracked.contains_key(&id)
                    {
                        let track = Track::new(id, now);
                        let tracked = Tracked { cookie: event.cookie, ends, track };
                        self.tracked.insert(id, tracked);
                        changes.come.push(event.cookie);
                    }
                }
                Body::State(state) => {
                    let Some(tracked) =
                        self.tracked.get_mut(&id).filter(|it| it.cookie == event.cookie)
                    else {
                        continue;
                    };
                    if event.kind == Kind::Close {
                        self.tracked.remove(&id);
                        changes.gone.push(event.cookie);
                    } else if let Some(look) = look(&state) {
                        tracked.track.look(now, look, stability);
                    }
                }
                _ => {}
            }
        }
        Ok(changes)
    }

    pub fn get(&self, id: FlowId) -> Option<&Tracked> {
        self.tracked.get(&id)
    }

    pub fn by_cookie(&self, cookie: u64) -> Option<(FlowId, &Tracked)> {
        let tracked = self.get(flow_id(cookie)).filter(|it| it.cookie == cookie)?;
        Some((flow_id(cookie), tracked))
    }

    /// What is reported: the fastest, in the order of their numbers. A treated one is reported as
    /// long as it lives.
    pub fn flows(&self, now: Duration, treated: impl Fn(u64) -> Treatment) -> Vec<Flow> {
        let mut flows: Vec<Flow> = self
            .tracked
            .values()
            .filter_map(|it| {
                let treatment = treated(it.cookie);
                let worth = it.track.is_active(now) || !treatment.is_none();
                worth.then(|| it.track.flow(treatment))?
            })
            .collect();
        flows.sort_by_key(|flow| {
            (flow.treatment.is_none(), std::cmp::Reverse((flow.hungry, flow.goodput_kbit)))
        });
        flows.truncate(MOST_FLOWS);
        flows.sort_by_key(|flow| flow.id);
        flows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> State {
        State {
            cwnd: 10,
            ssthresh: i32::MAX as u32,
            srtt_us: 2000,
            min_rtt_us: 0,
            mss: 1448,
            tcp_state: ESTABLISHED,
            unsent: 5000,
            packets_out: 10,
            snd_wnd: 1 << 20,
            flags: 1 << flags::CHRONO_SHIFT,
            ..State::default()
        }
    }

    #[test]
    fn a_bulk_sender_wants_more_and_one_that_waits_for_its_reader_does_not() {
        let bulk = look(&state()).unwrap();
        assert!(bulk.wants && bulk.ssthresh.is_none() && bulk.min_rtt_us == 1);
        let met_it = State { flags: 2 << flags::CHRONO_SHIFT, ..state() };
        assert!(look(&met_it).unwrap().wants);
        assert!(!look(&State { snd_wnd: 0, ..met_it }).unwrap().wants);
        assert!(!look(&State { packets_out: 10, snd_wnd: 15_000, ..met_it }).unwrap().wants);
        let idle = State { unsent: 0, flags: 0, ..state() };
        assert!(!look(&idle).unwrap().wants);
    }

    #[test]
    fn a_connection_without_a_round_trip_time_is_not_looked_at() {
        assert_eq!(look(&State { srtt_us: 0, ..state() }), None);
        assert_eq!(look(&State { min_rtt_us: UNSET, ..state() }), None);
        assert_eq!(look(&State { tcp_state: 6, ..state() }), None);
    }
}
