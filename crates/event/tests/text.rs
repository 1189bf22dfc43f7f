//! Records and their text forms, for whatever the kernel may send.

use proptest::prelude::*;
use transom_event::text::{Context, LogPosition, human, json, paper};
use transom_event::{Body, Event, Kind, Open, Origin, Place, RAW_LEN, Raw, State};

fn raw() -> impl Strategy<Value = Raw> {
    let bytes = prop::collection::vec(any::<u8>(), RAW_LEN);
    let kinds = prop::sample::select(Kind::ALL);
    let places = prop::sample::select(Place::ALL);
    (bytes, kinds, places).prop_map(|(bytes, kind, place)| {
        let mut raw = Raw::from_bytes(&bytes).unwrap();
        raw.head.kind = kind as u8;
        raw.head.place = place as u8;
        raw
    })
}

proptest! {
    #[test]
    fn a_record_survives_decoding_and_encoding(raw in raw()) {
        let event = Event::try_from(&raw).unwrap();
        let again = Raw::from(&event);
        prop_assert_eq!(Event::try_from(&again).unwrap(), event);
        if event.kind != Kind::Lost {
            prop_assert_eq!(again.as_bytes(), raw.as_bytes());
        }
    }

    #[test]
    fn bytes_of_another_length_or_kind_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        match Raw::from_bytes(&bytes) {
            Ok(_) => prop_assert_eq!(bytes.len(), RAW_LEN),
            Err(error) => prop_assert!(error.to_string().contains(&bytes.len().to_string())),
        }
    }

    #[test]
    fn every_text_form_is_one_line(raw in raw()) {
        let event = Event::try_from(&raw).unwrap();
        let line = human(&event, event.open().map(|open| open.endpoints().to_string()).as_deref(), 0);
        prop_assert!(!line.contains(char::is_control));
        prop_assert!(line.contains(event.kind.name()));
        let value: serde_json::Value = serde_json::from_str(&json(&event, Context::default())).unwrap();
        prop_assert_eq!(value["kind"].as_str().unwrap(), event.kind.name());
        prop_assert_eq!(value["time_ns"].as_u64().unwrap(), event.time_ns);
    }
}

#[test]
fn the_paper_line_is_figure_4_field_for_field() {
    let state = State {
        cwnd: 7,
        ssthresh: 2_147_483_647,
        rcv_nxt: 1_151_792_919,
        snd_nxt: 1_923_790_852,
        snd_una: 1_923_783_612,
        rto_us: 300_000,
        ..State::default()
    };
    let event = Event {
        time_ns: 12_845_023_367_193,
        cookie: 1,
        tgid: 102,
        cpu: 0,
        kind: Kind::Close,
        place: Place::SetState,
        aux: [0, 0],
        body: Body::State(state),
    };
    assert_eq!(
        paper(&event, LogPosition::of(50_020, 50_000)).unwrap(),
        "12845023367193 000020 parm,Type=2 ,PID=102 ,cwnd=7 ,send_ssthresh=2147483647 ,\
         rcv_nxt= 1151792919 ,snd_nxt= 1923790852 ,snd_una= 1923783612 ,ca_state= 0 , rto=30 \
         [log 20/49999/50020]"
    );
}

#[test]
fn an_unknown_kind_or_place_is_named() {
    let mut raw = Raw::from_bytes(&[0; RAW_LEN]).unwrap();
    raw.head.kind = 200;
    assert!(Event::try_from(&raw).unwrap_err().to_string().contains("200"));
    raw.head.kind = 4;
    raw.head.place = 99;
    assert!(Event::try_from(&raw).unwrap_err().to_string().contains("99"));
}

#[test]
fn in_flight_is_the_pipe_of_rfc_6675_and_never_negative() {
    let state =
        State { packets_out: 10, sacked_out: 3, lost_out: 2, retrans_out: 1, ..State::default() };
    assert_eq!(state.in_flight(), 6);
    assert_eq!(State { sacked_out: 9, lost_out: 9, ..state }.in_flight(), 1);
}

#[test]
fn an_open_event_has_a_word_for_each_field_also_where_no_process_holds_the_socket() {
    let mut open = Open { algorithm: *b"cubic\0\0\0\0\0\0\0\0\0\0\0", ..Open::default() };
    let line = |open| {
        let (kind, place) = (Kind::Open, Place::Iterator);
        let aux = [Origin::Existing as u32, 0];
        let body = Body::Open(open);
        let event = Event { time_ns: 0, cookie: 1, tgid: 0, cpu: 0, kind, place, aux, body };
        human(&event, None, 0)
    };
    assert!(line(open).ends_with("#1 open existing ? cubic @iter/tcp"), "{}", line(open));
    open.comm[..4].copy_from_slice(b"curl");
    assert!(line(open).ends_with("#1 open existing curl cubic @iter/tcp"), "{}", line(open));
}
