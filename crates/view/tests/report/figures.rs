//! Pictures for papers.

use transom_analysis::analyse;
use transom_event::{Body, CaState, Event, Kind, Origin, Place, State, TcpState};
use transom_view::report::{
    FigureOptions, Output, PageMeta, Selection, Trace, figure, file_stem, png, write,
};

use crate::synthetic::{Story, flat_and_closed, recording};

#[test]
fn a_figure_has_its_legend_units_and_events() {
    let recording = recording(&[Story::upload(7, 30_000)]);
    let row = &analyse(&recording)[0];
    let svg = figure(&recording, row, FigureOptions { rtt: true });
    for word in [
        "cwnd",
        "ssthresh",
        "in flight",
        "clamp",
        "window (segments)",
        "throughput (Mbit/s)",
        "RTT (ms)",
    ] {
        assert!(svg.contains(word), "{word}");
    }
    for kind in ["RTO 3", "local congestion 4", "zero window received 1"] {
        assert!(svg.contains(kind), "{kind}");
    }
    assert!(svg.len() < 400_000, "{} bytes", svg.len());
    let dir = env!("CARGO_TARGET_TMPDIR");
    std::fs::write(format!("{dir}/figure.svg"), &svg).unwrap();
    std::fs::write(format!("{dir}/figure.png"), png(&svg, 1440).unwrap()).unwrap();
}

/// As in grey print.
#[test]
fn states_of_a_figure_have_their_own_lines() {
    let recording = recording(&[Story::upload(7, 30_000)]);
    let svg = figure(&recording, &analyse(&recording)[0], FigureOptions::default());
    let mut lines: Vec<&str> = svg.split("<pattern ").skip(1).collect();
    for tile in &mut lines {
        *tile = tile.split("<path d=\"").nth(1).unwrap().split('"').next().unwrap();
    }
    assert_eq!(lines.len(), 4, "one for each state that is seen: {lines:?}");
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), 4, "{lines:?}");
    for state in ["disorder", "cwr", "recovery", "loss"] {
        let uses = svg.matches(&format!("fill=\"url(#{state})\"")).count();
        assert!(uses >= 2, "in the panel and below it: {state}");
    }
}

/// The number that an attribute of an SVG element has.
fn number(element: &str, name: &str) -> f64 {
    let (_, value) = element.split_once(&format!(" {name}=\"")).unwrap();
    value.split('"').next().unwrap().parse().unwrap()
}

#[test]
fn a_long_title_is_folded_and_nothing_of_it_is_cut_off() {
    let recording = recording(&[Story { program: "a-long-program-", ..Story::upload(7, 300) }]);
    let mut row = analyse(&recording).remove(0);
    row.local_name = "[2001:db8:1234:5678:9abc:def0:1234:5678]:40007".to_owned();
    row.remote_name = format!("{}.example:https", "a-host-".repeat(20));
    row.mptcp = Some(transom_event::Token(0xbeef));
    let svg = figure(&recording, &row, FigureOptions::default());
    let (title, _) = svg.split_once("window (segments)").unwrap();
    let rows: Vec<&str> = title.lines().filter(|line| line.contains("fill=\"#555\">")).collect();
    let words = |row: &str| row.split('>').nth(1).unwrap().split('<').next().unwrap().to_owned();
    let mut whole = String::new();
    for row in rows.into_iter().take_while(|row| row.contains(" x=\"7.0\"")) {
        let words = words(row).replace("&gt;", ">");
        let width = words.chars().count() as f64 * 7.4 * 0.54;
        assert!(7.0 + width <= 293.0, "{words}: {width}");
        whole += &words;
    }
    let told =
        format!("{}, {} > {}, cubic, MPTCP 0000beef", row.program, row.local_name, row.remote_name);
    assert_eq!(whole.replace(' ', ""), told.replace(' ', ""));
    let dir = env!("CARGO_TARGET_TMPDIR");
    std::fs::write(format!("{dir}/title.png"), png(&svg, 1440).unwrap()).unwrap();
}

#[test]
fn the_background_late_in_a_recording_is_as_fine_as_at_its_begin() {
    let event = |cookie: u64, ms: u64, old: CaState, new: CaState| {
        let state = State { ca_state: new as u8, tcp_state: 1, ..State::default() };
        let (kind, place) = (Kind::CaState, Place::SetCaState);
        let aux = [old as u32, new as u32];
        let (time_ns, body) = (ms * 1_000_000, Body::State(state));
        Event { time_ns, cookie, tgid: 1, cpu: 0, kind, place, aux, body }
    };
    let mut events = vec![event(1, 0, CaState::Open, CaState::Open)];
    // An hour later: each second of a minute ten recoveries of 1 ms, within 50 ms.
    for burst in 0..600 {
        let ms = 3_600_000 + burst / 10 * 1000 + burst % 10 * 5;
        events.push(event(2, ms, CaState::Open, CaState::Recovery));
        events.push(event(2, ms + 1, CaState::Recovery, CaState::Open));
    }
    let recording: transom_analysis::Recording = events.iter().collect();
    let late = analyse(&recording).into_iter().find(|row| row.cookie == 2).unwrap();
    let svg = figure(&recording, &late, FigureOptions::default());
    let bands = svg.lines().filter(|line| line.contains(" height=\"120\" fill"));
    let covered: f64 = bands.map(|band| number(band, "width")).sum();
    assert!((5.0..60.0).contains(&covered), "{covered} of 220");
}

#[test]
fn the_png_has_text_without_any_font_installed() {
    let with = r#"<svg xmlns="http://www.w3.org/2000/svg" width="90" height="30" font-family="Helvetica, sans-serif"><text x="2" y="20">segments</text></svg>"#;
    let without = with.replace("segments", "");
    assert_ne!(png(with, 90).unwrap(), png(&without, 90).unwrap());
}

#[test]
fn one_page_and_a_picture_of_each_kind_per_connection_are_written() {
    let recording = recording(&[Story::upload(7, 300), Story::upload(8, 400)]);
    let dir = tempfile::tempdir().unwrap();
    let output = Output {
        page: dir.path().join("r.html"),
        svg: Some(dir.path().join("deep/svg")),
        png: Some(dir.path().join("png")),
        png_width: 300,
        ..Output::default()
    };
    let trace = Trace::new(recording, PageMeta::default());
    let written = write(&[trace], &Selection::default(), &output).unwrap();
    assert_eq!(written.len(), 5);
    assert!(written.iter().all(|path| path.metadata().unwrap().len() > 1000));
    assert!(dir.path().join("deep/svg/001-iperf3-8.svg").is_file());
}

#[test]
fn names_from_outside_are_never_markup() {
    let recording = recording(&[Story { program: "<g>&", ..Story::upload(7, 300) }]);
    let row = &analyse(&recording)[0];
    let svg = figure(&recording, row, FigureOptions::default());
    assert!(svg.contains("&lt;g&gt;&amp;") && !svg.contains("<g>"));
    assert_eq!(file_stem(1, row), "001-g-7");
    png(&svg, 360).unwrap();
    let recording =
        crate::synthetic::recording(&[Story { program: "\u{ffff}", ..Story::upload(7, 300) }]);
    let svg = figure(&recording, &analyse(&recording)[0], FigureOptions::default());
    png(&svg, 360).expect("a character that XML does not have");
}

#[test]
fn the_number_of_a_change_lies_over_no_curve() {
    let recording = flat_and_closed();
    let svg = figure(&recording, &analyse(&recording)[0], FigureOptions::default());
    let of_one = svg.lines().find(|line| line.contains("paint-order") && line.contains(">1<"));
    let below = number(of_one.expect("the number of the change"), "y");
    let is_cwnd = |line: &&str| line.contains("stroke-width=\"1.2\"") && line.contains('H');
    let cwnd = svg.lines().find(is_cwnd).expect("a curve");
    let (_, rest) = cwnd.split_once("d=\"M").unwrap();
    let height: f64 = rest.split([' ', 'H']).nth(1).unwrap().parse().unwrap();
    assert!(height > below + 1.0, "cwnd at {height}, the number down to {below}");
}

/// Nothing is recorded of a SYN that is lost before its timer expires, a second later.
#[test]
fn a_figure_begins_with_the_handshake_though_its_first_syn_was_lost() {
    let mut events = crate::synthetic::events(Story::upload(7, 300));
    let (open, next) = (events[0], events[1]);
    let tcp_state = TcpState::SynSent as u8;
    let body = Body::State(State { tcp_state, rto_us: 1_000_000, ..*next.state().unwrap() });
    let kind = Kind::Rto;
    events[0].aux[0] = Origin::Connect as u32;
    events.insert(1, Event { time_ns: open.time_ns, kind, aux: [1, 0], body, ..next });
    let recording: transom_analysis::Recording = events.iter().collect();
    let svg = figure(&recording, &analyse(&recording)[0], FigureOptions::default());
    // The axis of time begins where the panels do.
    let is_zero = |line: &&str| line.ends_with(">0</text>") || line.ends_with(">0.0</text>");
    let zeros: Vec<&str> = svg.lines().filter(is_zero).collect();
    let is_at_begin = |line: &str| line.contains(" x=\"73.0\"") && line.contains("middle");
    assert!(zeros.iter().any(|line| is_at_begin(line)), "{zeros:?}");
}

#[test]
fn a_connection_without_any_state_has_a_figure() {
    let mut recording = transom_analysis::Recording::default();
    recording.push(&crate::synthetic::events(Story::upload(7, 10))[0]);
    let svg = figure(&recording, &analyse(&recording)[0], FigureOptions { rtt: true });
    png(&svg, 360).unwrap();
}
