//! One line an event, for people who read along.

use std::fmt::Write;

use crate::{
    Body, CaState, Direction, Event, Kind, LossCause, Open, Origin, Place, RtoCause, State,
    TcpState, fields,
};

/// Seconds with microseconds since `start_ns`.
pub fn timestamp(time_ns: u64, start_ns: u64) -> String {
    let us = time_ns.saturating_sub(start_ns) / 1000;
    format!("{}.{:06}", us / 1_000_000, us % 1_000_000)
}

fn named<T: std::fmt::Display>(known: Option<T>, number: u32) -> String {
    known.map_or_else(|| number.to_string(), |name| name.to_string())
}

/// What the `aux` numbers of this kind say.
fn detail(event: &Event) -> String {
    let [a, b] = event.aux;
    match event.kind {
        Kind::Open => open(event.open(), &named(Origin::from_number(a), a)),
        Kind::Owner | Kind::Algorithm => open(event.open(), ""),
        Kind::Close if a == 0 => String::new(),
        Kind::Close => format!("error {a}"),
        Kind::State => format!(
            "{} -> {}",
            named(TcpState::from_number(a), a),
            named(TcpState::from_number(b), b)
        ),
        Kind::Ack if a == 0 => String::new(),
        Kind::Ack => format!("+{a} B"),
        Kind::Send => format!("{a} B in {b} segments"),
        Kind::Retransmit => {
            let (reason, segments) = event.retransmit();
            format!("{} seq {b}, {segments} segments", named(reason, a & 0xff))
        }
        Kind::DupAck => format!("#{a}{}", if b == 1 { " with SACK" } else { "" }),
        Kind::Sack => String::new(),
        Kind::Rto => format!("#{a} {}", named(RtoCause::from_number(b), b)),
        Kind::LocalCongestion => match event.place {
            Place::EnterCwr if a == 0 => String::from("refused by the device"),
            Place::EnterCwr => format!("refused by the device, which returned {a}"),
            _ => format!("drop reason {a}, {b} B refused"),
        },
        Kind::CaState => format!(
            "{} -> {}",
            named(CaState::from_number(a), a),
            named(CaState::from_number(b), b)
        ),
        Kind::Reset => format!("{}, reason {b}", named(Direction::from_number(a), a)),
        Kind::ZeroWindow => named(Direction::from_number(a), a),
        Kind::Clamp => format!("{a} -> {b}"),
        Kind::Action => event.action().to_string(),
        Kind::Lost => {
            let cause = LossCause::from_number(a);
            let what = cause.map_or("events", |cause| cause.told_as("events"));
            format!("{b} {what}: {}", named(cause, a))
        }
        Kind::Sample => String::new(),
    }
}

fn open(open: Option<&Open>, origin: &str) -> String {
    let Some(open) = open else { return String::new() };
    let mut line = String::from(origin);
    // As of a socket that no process holds any more.
    let or_unknown = |name: String| if name.is_empty() { "?".to_owned() } else { name };
    let (program, algorithm) = (or_unknown(open.program()), or_unknown(open.algorithm()));
    let _ = write!(line, " {program} {algorithm}");
    if let Some(token) = open.mptcp() {
        let _ = write!(line, " mptcp {token}");
    }
    line.trim_start().to_owned()
}

fn state(line: &mut String, s: &State) {
    let _ = write!(line, " cwnd={}", s.cwnd);
    if let Some(ssthresh) = s.ssthresh_set() {
        let _ = write!(line, " ssthresh={ssthresh}");
    }
    let _ = write!(
        line,
        " in_flight={} una={} nxt={} rcv_nxt={} snd_wnd={} srtt={} rto={} {}",
        s.in_flight(),
        s.snd_una,
        s.snd_nxt,
        s.rcv_nxt,
        s.snd_wnd,
        milliseconds(s.srtt_us),
        milliseconds(s.rto_us),
        named(s.ca(), s.ca_state.into()),
    );
}

fn milliseconds(us: u32) -> String {
    format!("{:.1}ms", f64::from(us) / 1000.0)
}

/// One line, without its newline. `who`: what the connection's ends are called, when it is known.
pub fn human(event: &Event, who: Option<&str>, start_ns: u64) -> String {
    let mut line = timestamp(event.time_ns, start_ns);
    match who {
        Some(ends) => {
            let _ = write!(line, " {ends}");
        }
        None if event.cookie != 0 => {
            let _ = write!(line, " #{}", event.cookie);
        }
        None => {}
    }
    if event.tgid != 0 {
        let _ = write!(line, " [{}]", event.tgid);
    }
    let _ = write!(line, " {}", event.kind);
    let detail = detail(event);
    if !detail.is_empty() {
        let _ = write!(line, " {detail}");
    }
    match &event.body {
        Body::State(s) => state(&mut line, s),
        Body::Sack(s) => {
            for block in s.blocks.iter().take(fields::sack_blocks(event.aux)) {
                let _ = write!(line, " {}-{}", block[0], block[1]);
            }
            if fields::is_d_sack(event.aux) {
                line.push_str(" D-SACK");
            }
            let _ = write!(line, " cwnd={} sacked={} lost={}", s.cwnd, s.sacked_out, s.lost_out);
        }
        Body::Open(_) | Body::None => {}
    }
    let _ = write!(line, " @{}", event.place);
    line
}
