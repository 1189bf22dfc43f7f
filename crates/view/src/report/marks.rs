//! The error events of a connection, by kind, and the changes that deserve a label.

use std::ops::Range;

use transom_analysis::{Connection, Mark, is_timeout};
use transom_event::{Action, CaState, Direction, Kind, RetransmitReason, fields};

use super::crowd::Band;

/// Written names of the kinds of mark, the gravest first; a kind is its index.
pub const NAMES: [&str; 16] = [
    "reset sent",
    "reset received",
    "RTO",
    "local congestion",
    "loss without RTO",
    "zero window sent",
    "zero window received",
    "SYN retransmit",
    "RTO retransmit",
    "slow-start retransmit",
    "fast retransmit",
    "tail loss probe",
    "retransmit",
    "duplicate ACK",
    "SACK",
    "D-SACK",
];

/// Which of [`NAMES`] an event is; none if it is no error event.
pub fn kind(mark: &Mark) -> Option<u8> {
    let sent = fields::direction(mark.aux) == Some(Direction::Sent);
    Some(match mark.kind {
        Kind::Reset => 1 - u8::from(sent),
        Kind::Rto if is_timeout(mark.aux) => 2,
        Kind::LocalCongestion => 3,
        Kind::Rto => 4,
        Kind::ZeroWindow => 6 - u8::from(sent),
        Kind::Retransmit => match fields::retransmit(mark.aux).0 {
            Some(RetransmitReason::Syn) => 7,
            Some(RetransmitReason::Rto) => 8,
            Some(RetransmitReason::SlowStart) => 9,
            Some(RetransmitReason::Fast) => 10,
            Some(RetransmitReason::Tlp) => 11,
            None => 12,
        },
        Kind::DupAck => 13,
        Kind::Sack if fields::is_d_sack(mark.aux) => 15,
        Kind::Sack => 14,
        _ => return None,
    })
}

/// The time of marks and bands, µs since `start_ns`.
pub fn range(connection: &Connection, start_ns: u64) -> Range<u64> {
    let micros = |ns: u64| ns.saturating_sub(start_ns) / 1000;
    micros(connection.begun_ns())..micros(connection.last_ns)
}

/// Every error event: µs since `start_ns`, kind.
pub fn errors(connection: &Connection, start_ns: u64) -> Vec<(u64, u8)> {
    let time = |mark: &Mark| mark.time_ns.saturating_sub(start_ns) / 1000;
    connection.marks.iter().filter_map(|mark| Some((time(mark), kind(mark)?))).collect()
}

/// The stretches in a congestion state other than Open, µs since `start_ns`.
pub fn bands(connection: &Connection, start_ns: u64) -> Vec<Band> {
    let mut bands: Vec<Band> = Vec::new();
    let mut now = CaState::Open as u8;
    for point in &connection.points {
        let time = point.time_ns.saturating_sub(start_ns) / 1000;
        if now != CaState::Open as u8
            && let Some(last) = bands.last_mut()
        {
            last.to = time;
        }
        if point.state.ca_state != now {
            now = point.state.ca_state;
            if now != CaState::Open as u8 && point.state.ca().is_some() {
                bands.push(Band { from: time, to: time, state: now });
            }
        }
    }
    bands
}

/// The kernel side tells an action and its effects at one event.
const AT_ONCE_NS: u64 = 1_000_000;

/// The share of a connection's time after which the end of its ACKs is worth a line.
const TAIL: u64 = 50;

/// Changes of algorithm, of the clamp and by Transom itself, and the place from which ACKs are not
/// seen: µs since `start_ns`, label.
pub fn changes(connection: &Connection, start_ns: u64) -> Vec<(u64, String)> {
    let last_algorithm = connection.marks.iter().rposition(|mark| mark.kind == Kind::Algorithm);
    let segments = |n: u32| if n < i32::MAX as u32 { n.to_string() } else { "unset".to_string() };
    // An action says itself what became of the algorithm and the clamp.
    let by_action = |time_ns: u64| {
        let mut marks = connection.marks.iter();
        marks.any(|mark| mark.kind == Kind::Action && mark.time_ns.abs_diff(time_ns) < AT_ONCE_NS)
    };
    let label = |(at, mark): (usize, &Mark)| {
        if matches!(mark.kind, Kind::Algorithm | Kind::Clamp) && by_action(mark.time_ns) {
            return None;
        }
        let [old, new] = fields::clamps(mark.aux);
        let text = match mark.kind {
            Kind::Algorithm if Some(at) == last_algorithm => {
                format!("algorithm: {}", connection.algorithm())
            }
            Kind::Algorithm => "algorithm changed".to_string(),
            Kind::Clamp => format!("clamp {} → {}", segments(old), segments(new)),
            Kind::Action => Action::from_aux(mark.aux).to_string(),
            _ => return None,
        };
        Some((mark.time_ns.saturating_sub(start_ns) / 1000, text))
    };
    let mut changes: Vec<(u64, String)> =
        connection.marks.iter().enumerate().filter_map(label).collect();
    let left = |end_ns: u64| connection.last_ns.saturating_sub(end_ns);
    let span = connection.last_ns.saturating_sub(connection.begun_ns());
    if let Some(end_ns) = connection.acks_end_ns().filter(|&end_ns| left(end_ns) * TAIL > span) {
        let time = end_ns.saturating_sub(start_ns) / 1000;
        changes.push((time, "closed: ACKs are not seen from here on".to_owned()));
        changes.sort_by_key(|(time, _)| *time);
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use transom_analysis::Recording;
    use transom_event::{Algorithm, Event, Open, Place, Reason, RtoCause, State, TcpState};

    fn event(time_ns: u64, kind: Kind, aux: [u32; 2]) -> Event {
        let body = match kind {
            Kind::Open | Kind::Algorithm => transom_event::Body::Open(Open::default()),
            _ => transom_event::Body::State(State::default()),
        };
        Event { time_ns, cookie: 1, tgid: 0, cpu: 0, kind, place: Place::Ack, aux, body }
    }

    #[test]
    fn what_is_sent_again_without_a_timer_is_no_rto() {
        let mut recording = Recording::default();
        for cause in RtoCause::ALL {
            recording.push(&event(1000, Kind::Rto, [1, *cause as u32]));
        }
        let errors = errors(recording.connection(1).expect("it has events"), 0);
        let names: Vec<&str> = errors.iter().map(|&(_, kind)| NAMES[usize::from(kind)]).collect();
        assert_eq!(names, ["RTO", "loss without RTO", "loss without RTO"]);
    }

    #[test]
    fn where_acks_end_is_labelled_if_the_connection_goes_on() {
        let close = |last_ns: u64| {
            let left = [TcpState::Established as u32, TcpState::FinWait1 as u32];
            let ended = [TcpState::FinWait1 as u32, TcpState::Close as u32];
            let events = [
                event(0, Kind::Open, [1, 0]),
                event(900_000_000, Kind::State, left),
                event(last_ns, Kind::State, ended),
            ];
            let mut recording = Recording::default();
            events.iter().for_each(|event| recording.push(event));
            changes(recording.connection(1).expect("it was opened"), 0)
        };
        assert_eq!(close(901_000_000), []);
        let label = "closed: ACKs are not seen from here on".to_owned();
        assert_eq!(close(1_200_000_000), [(900_000, label)]);
    }

    #[test]
    fn an_action_is_labelled_once_with_its_reason_and_other_changes_keep_their_own() {
        let action = Action {
            algorithm: Algorithm::Steady,
            cap: 55,
            initial_window: 0,
            rule: 2,
            reason: Some(Reason::Unstable),
        };
        let events = [
            event(0, Kind::Open, [1, 0]),
            event(5_000_000, Kind::Algorithm, [0, 0]),
            event(5_000_001, Kind::Clamp, [u32::MAX, 55]),
            event(5_000_002, Kind::Action, action.aux()),
            event(90_000_000, Kind::Clamp, [55, 20]),
        ];
        let mut recording = Recording::default();
        events.iter().for_each(|event| recording.push(event));
        let told = changes(recording.connection(1).expect("it was opened"), 0);
        assert_eq!(
            told,
            [
                (5000, "steady, cap 55, because it is unstable (rule 2)".to_owned()),
                (90_000, "clamp 55 → 20".to_owned()),
            ]
        );
    }
}
