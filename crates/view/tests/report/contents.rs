//! What stands in the page, and that nothing from outside is markup in it.

use transom_analysis::analyse;
use transom_event::{Body, Event, Kind, LossCause, Names, Open, Place};
use transom_view::report::{PageMeta, Selection, Trace, page};

use crate::synthetic::{Story, lost, recording};

fn one() -> transom_analysis::Recording {
    recording(&[Story::upload(7, 3000)])
}

fn render(recording: &transom_analysis::Recording, meta: &PageMeta) -> String {
    page(&[Trace::new(recording.clone(), meta.clone())], &Selection::default()).unwrap()
}

#[test]
fn names_from_outside_are_never_markup() {
    let evil = "</script><b>";
    let mut recording = recording(&[Story { program: evil, ..Story::upload(7, 500) }]);
    let mut open = Open { family: 2, ..Open::default() };
    open.comm[..evil.len()].copy_from_slice(evil.as_bytes());
    recording.push(&Event {
        time_ns: 5_000_000_000,
        cookie: 8,
        tgid: 1,
        cpu: 0,
        kind: Kind::Open,
        place: Place::SetState,
        aux: [1, 0],
        body: Body::Open(open),
    });
    let text = "<img src=x onerror=alert(1)>".to_string();
    let meta = PageMeta {
        source: text.clone(),
        host: text.clone(),
        kernel: text.clone(),
        recorder: text.clone(),
        sampling: text.clone(),
        cut: true,
        ..PageMeta::default()
    };
    let html = render(&recording, &meta);
    assert!(!html.contains("<img"), "markup of the header");
    assert!(!html.contains("</script><b>"), "markup of a program name");
    assert_eq!(html.matches("<script").count(), html.matches("</script>").count());
}

#[test]
fn the_table_has_names_and_its_filter_the_numbers() {
    let recording = one();
    let mut trace = Trace::new(recording, PageMeta::default());
    let ends = trace.analyses[0].ends.unwrap();
    let evil = "</script><b>".to_owned();
    let services = [(ends.remote.port(), "https".to_owned())];
    let names = Names::new(services.into(), [(ends.remote.ip(), evil)].into());
    trace.analyses[0].name_ends(&names);
    let html = page(&[trace], &Selection::default()).unwrap();
    let (host, port) = (ends.remote.ip(), ends.remote.port());
    assert!(html.contains("\\u003c/script>\\u003cb>:https"), "the name, and not as markup");
    assert!(html.contains(&format!(",\"{} > {host}:{port}\"]", ends.local)), "{host} {port}");
}

#[test]
fn nothing_is_fetched() {
    let html = render(&one(), &PageMeta::default());
    assert!(html.contains("default-src 'none'"));
    for word in [" src=", "@import", "url(", "fetch(", "XMLHttpRequest"] {
        assert!(!html.contains(word), "the page has {word}");
    }
}

#[test]
fn lost_events_and_a_cut_file_are_said_first() {
    let mut recording = one();
    recording.push(&lost(recording.start_ns + 1000, 1234));
    let html = render(&recording, &PageMeta { cut: true, ..PageMeta::default() });
    let words = html.find("1\u{202f}234 events could not be recorded (ring full 1\u{202f}234)");
    assert!(words.unwrap() < html.find("<main>").unwrap());
    assert!(html.contains("This recording was cut"));
}

#[test]
fn losses_that_only_the_end_of_the_file_tells_are_said_too() {
    let lost = [(LossCause::Recursion, 5)].into();
    let html = render(&one(), &PageMeta { lost, ..PageMeta::default() });
    assert!(html.contains("5 events could not be recorded (probe recursion 5)"));
    assert!(html.contains("which end at the marks of the lane “events lost” or before"));
}

#[test]
fn of_a_part_of_a_recording_only_its_own_losses_are_said() {
    let mut recording = one();
    let start_ns = recording.start_ns;
    recording.push(&lost(start_ns + 1000, 1234));
    recording.push(&lost(start_ns + 2_000_000_000, 5));
    let lost = [(LossCause::Ring, 1239)].into();
    let meta = PageMeta { lost, ..PageMeta::default() };
    assert!(render(&recording, &meta).contains("1\u{202f}239 events could not be recorded"));
    let later = recording.clone().between(start_ns + 1_000_000_000..=u64::MAX);
    assert!(render(&later, &meta).contains("5 events could not be recorded (ring full 5)"));
    let last = recording.between(start_ns + 2_500_000_000..=u64::MAX);
    assert!(!render(&last, &meta).contains("could not be recorded"));
}

#[test]
fn segments_that_left_unseen_are_no_lost_events() {
    let mut recording = one();
    recording.push(&Event::lost(LossCause::UnseenSend, 21, recording.start_ns + 1000));
    let html = render(&recording, &PageMeta::default());
    assert!(html.contains("21 segments left unseen") && !html.contains("could not be recorded"));
    assert!(html.contains("\"lost\":[[]]"), "the lane of lost events leaves them out");
}

#[test]
fn a_whole_recording_has_no_warnings() {
    let html = render(&one(), &PageMeta::default());
    assert!(!html.contains("could not be recorded") && !html.contains("was cut"));
}

#[test]
fn an_empty_recording_is_a_page_too() {
    let html = render(&transom_analysis::Recording::default(), &PageMeta::default());
    assert!(html.contains("This recording has no events"));
}

#[test]
fn a_wanted_connection_that_is_not_there_is_named() {
    let wanted = vec![("nginx".to_owned(), "nginx".parse().unwrap())];
    let selection = Selection { connections: wanted, ..Selection::default() };
    let trace = Trace::new(one(), PageMeta::default());
    let error = page(std::slice::from_ref(&trace), &selection).unwrap_err().to_string();
    assert!(error.contains("\"nginx\"") && error.contains("iperf3 10.0.0.2:"), "{error}");
}

#[test]
fn only_the_top_ones_get_curves_and_all_are_in_the_table() {
    let stories: Vec<Story> = (1..=30).map(|n| Story::upload(n, 200 + 50 * n as usize)).collect();
    let selection = Selection { top: 3, ..Selection::default() };
    let html = page(&[Trace::new(recording(&stories), PageMeta::default())], &selection).unwrap();
    assert_eq!(html.matches("application/octet-stream").count(), 3);
    for cookie in 1..=30 {
        assert!(html.contains(&format!("[\"{cookie}\",\"iperf3\"")), "row of {cookie}");
    }
    assert!(html.contains("id=\"c30\"") && !html.contains("id=\"c1\""));
}

#[test]
fn what_was_retransmitted_most_is_to_be_looked_at_first() {
    let all = recording(&[Story::upload(7, 300), Story::upload(207, 30_000)]);
    let rows = analyse(&all);
    let of = |cookie: u64| &rows.iter().find(|row| row.cookie == cookie).unwrap().summary;
    let [short, long] = [of(7), of(207)];
    assert!(short.loss_share() > long.loss_share(), "of its few segments it lost a larger share");
    assert!(short.retransmitted.total() < long.retransmitted.total());
    let html = render(&all, &PageMeta::default());
    let (_, list) = html.split_once("<h3>Look at these first</h3>").expect("they are listed");
    let first = list.split("<a href=\"").nth(1).unwrap().split('"').next().unwrap();
    assert_eq!(first, "#207");
}

#[test]
fn conspicuous_connections_to_one_server_are_told_apart_by_their_own_ports() {
    let listed = |stories: &[Story]| {
        let html = render(&recording(stories), &PageMeta::default());
        let (_, rest) = html.split_once("<h3>Look at these first</h3>").expect("they are listed");
        rest.split("</ol>").next().unwrap().to_owned()
    };
    let [one, other] = [7, 207].map(|cookie| Story::upload(cookie, 3000));
    let alike = listed(&[one, other]);
    assert!(alike.contains(" from :40007</a>") && alike.contains(" from :40207</a>"), "{alike}");
    let unlike = listed(&[one, Story { program: "curl", ..other }]);
    assert!(!unlike.contains(" from :"), "their programs tell them apart: {unlike}");
}
