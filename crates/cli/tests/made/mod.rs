//! Traces that are made up, for tests of what is said of them.

use std::path::PathBuf;

use transom_event::{Body, Event, Kind, Open, Origin, Place, Raw, State, TcpState};
use transom_trace::{Footer, Meta, Writer, WriterOptions};

const SECOND: u64 = 1_000_000_000;
const START: u64 = 50 * SECOND;
/// 2026-03-02 14:05:11 UTC.
const BEGAN: u64 = 1_772_460_311 * SECOND;

/// Ten seconds of a connection that carries 100,000 bytes each second.
pub fn upload(cookie: u64, program: &str, remote: [u8; 4], remote_port: u16) -> Vec<Event> {
    let mut open =
        Open { family: 2, local_port: 40_000 + cookie as u16, remote_port, ..Open::default() };
    open.local_addr[..4].copy_from_slice(&[10, 0, 0, 1]);
    open.remote_addr[..4].copy_from_slice(&remote);
    open.comm[..program.len()].copy_from_slice(program.as_bytes());
    let event = |time_ns, kind, body| Event {
        time_ns,
        cookie,
        tgid: 1000 + cookie as u32,
        cpu: 0,
        kind,
        place: Place::SetState,
        aux: [Origin::Connect as u32, 0],
        body,
    };
    let state = |bytes: u32| State {
        snd_una: bytes,
        snd_nxt: bytes,
        mss: 1000,
        cwnd: 10,
        snd_wnd: 1 << 20,
        tcp_state: TcpState::Established as u8,
        ..State::default()
    };
    let steps = (0..=1000).map(|n: u32| {
        let time_ns = START + u64::from(n) * SECOND / 100;
        event(time_ns, Kind::Sample, Body::State(state(n * 1000)))
    });
    std::iter::once(event(START, Kind::Open, Body::Open(open))).chain(steps).collect()
}

/// A trace of these events.
pub fn write(path: PathBuf, mut events: Vec<Event>) -> PathBuf {
    events.sort_by_key(|event| event.time_ns);
    let meta = Meta { realtime_offset_ns: (BEGAN - START) as i64, ..Meta::of_this_machine() };
    let mut writer = Writer::create(&path, &meta, WriterOptions::default()).unwrap();
    events.iter().for_each(|event| writer.push(&Raw::from(event)).unwrap());
    writer.finish(Footer::default()).unwrap();
    path
}
