//! Two traces in one page: compared, or the two ends of the same connections.

use transom_analysis::Recording;
use transom_view::report::{PageMeta, Selection, Trace, page};

use crate::synthetic::{Story, other_end, recording};

fn trace(source: &str, boot_id: &str, realtime_offset_ns: i64, recording: Recording) -> Trace {
    let meta = PageMeta {
        source: source.into(),
        boot_id: boot_id.into(),
        realtime_offset_ns,
        ..PageMeta::default()
    };
    Trace::new(recording, meta)
}

fn html(traces: &[Trace], selection: &Selection) -> String {
    page(traces, selection).unwrap()
}

const SECOND: i64 = 1_000_000_000;

/// A recorder of each end; the second one's clock began two seconds later.
fn both_ends() -> [Trace; 2] {
    let story = Story { program: "upload", ..Story::upload(7, 5000) };
    [
        trace("client.parquet", "one", 100 * SECOND, recording(&[story])),
        trace("server.parquet", "two", 102 * SECOND, other_end(story, 2 * SECOND as u64)),
    ]
}

#[test]
fn two_runs_are_compared_by_program_and_peer() {
    let slow = Story { rate: 1000, ..Story::upload(7, 4000) };
    let a = recording(&[slow, Story { program: "curl", ..Story::upload(8, 500) }]);
    let b = recording(&[Story::upload(9, 4000)]);
    let traces = [trace("a.parquet", "", 0, a), trace("b.parquet", "", 0, b)];
    let html = html(&traces, &Selection::default());
    assert!(html.contains("id=\"comparison\""));
    let table = html.split("id=\"comparison\"").nth(1).unwrap();
    let table = table.split("</section>").next().unwrap();
    assert!(table.contains("All connections"));
    // Peers differ by the cookie in these stories: both iperf3 are groups of their own.
    assert!(table.contains("iperf3 to 192.0.2.8:5201") && table.contains("curl to 192.0.2.9:5201"));
    assert!(table.contains(">none</td>"), "a group that only one trace has");
    assert!(table.contains("B − A"));
    assert!(html.contains("[\"A-7\",\"iperf3\"") && html.contains("[\"B-9\",\"iperf3\""));
    assert!(!html.contains("both ends were recorded"));
}

#[test]
fn a_run_compared_with_itself_does_not_differ() {
    let story = Story::upload(7, 4000);
    let traces = [
        trace("a.parquet", "", 0, recording(&[story])),
        trace("b.parquet", "", 0, recording(&[story])),
    ];
    let html = html(&traces, &Selection::default());
    let rows: Vec<&str> = html.split("class=\"difference\"").skip(1).collect();
    assert_eq!(rows.len(), 2, "of all, and of the only group");
    for row in rows {
        let row = row.split("</tr>").next().unwrap();
        assert_eq!(row.matches("<td class=\"number\">0</td>").count(), 7, "{row}");
        assert!(row.contains("same"));
    }
}

#[test]
fn both_ends_of_a_connection_are_on_one_axis_and_the_error_is_said() {
    let traces = both_ends();
    let html = html(&traces, &Selection::default());
    assert!(html.contains("Of 1 connection both ends were recorded"), "{}", &html[..3000]);
    assert!(
        html.contains("by the wall clocks of both machines") && html.contains("bound the error: ±")
    );
    assert!(html.contains("\"other\":\"B-1007\"") && html.contains("\"other\":\"A-7\""));
    // By its own clock the other one began 2 s and half a round trip earlier: on the axis it is
    // half a round trip.
    let first_us = |key: &str| -> u64 {
        let row = html.split(&format!("[\"{key}\",")).nth(1).unwrap().split(']').next().unwrap();
        row.split(',').nth(3).unwrap().parse().unwrap()
    };
    assert_eq!((first_us("A-7"), first_us("B-1007")), (20_000, 0));
    assert!(!html.contains("id=\"comparison\""), "they are one run");
}

#[test]
fn wall_clocks_that_cannot_be_right_are_corrected_by_the_traffic_and_it_is_said() {
    let [a, mut b] = both_ends();
    b.meta.realtime_offset_ns += 700_000_000;
    let html = html(&[a, b], &Selection::default());
    assert!(html.contains("by the segments themselves"));
    let told = html.split("The wall clocks of both machines differ by ").nth(1).unwrap();
    let ms: f64 = told.split(" ms").next().unwrap().parse().unwrap();
    assert!((650.0..750.0).contains(&ms), "{ms} ms");
}

#[test]
fn both_ends_in_one_trace_are_joined_without_a_word_on_clocks() {
    let story = Story::upload(7, 3000);
    let mut one = recording(&[story]);
    let there = other_end(story, 0);
    one.connections.extend(there.connections);
    // The index of a recording is its own: build it anew.
    let whole = one.clone().between(0..=u64::MAX);
    let html = html(&[trace("lo.parquet", "x", 1, whole)], &Selection::default());
    assert!(html.contains("\"other\":\"1007\"") && html.contains("\"other\":\"7\""));
    assert!(!html.contains("both ends were recorded"));
}

/// Who reads the page of both ends has the recording that the verdict asks for.
#[test]
fn nobody_is_sent_to_record_an_end_that_is_in_the_page() {
    let [a, mut b] = both_ends();
    let away = "Record there to see what limits it.";
    b.analyses[0].verdict.remedy = Some(away.to_owned());
    let alone = html(&[b.clone()], &Selection::default());
    assert!(alone.contains(away), "of one end alone");
    let joined = html(&[a, b], &Selection::default());
    assert!(!joined.contains("ecord there"));
    assert!(joined.contains("The verdict of the other end, which was recorded as well, says what"));
}

#[test]
fn ends_are_compared_when_that_is_asked_for() {
    let selection = Selection { compare: true, ..Selection::default() };
    let html = html(&both_ends(), &selection);
    assert!(html.contains("id=\"comparison\"") && !html.contains("both ends were recorded"));
}

#[test]
fn the_same_ports_hours_apart_are_not_the_same_connection() {
    let [a, mut b] = both_ends();
    b.meta.boot_id = "one".into();
    b.recording = other_end(Story { program: "upload", ..Story::upload(7, 5000) }, 0);
    for connection in &mut b.recording.connections {
        for point in &mut connection.points {
            point.time_ns += 3_600 * SECOND as u64;
        }
        connection.first_ns += 3_600 * SECOND as u64;
        connection.last_ns += 3_600 * SECOND as u64;
    }
    let b = Trace::new(b.recording, b.meta);
    let html = html(&[a, b], &Selection::default());
    assert!(!html.contains("both ends were recorded") && html.contains("id=\"comparison\""));
}

#[test]
fn a_connection_is_looked_for_in_both_traces() {
    let wanted = |text: &str| Selection {
        connections: vec![(text.into(), text.parse().unwrap())],
        ..Selection::default()
    };
    let traces = both_ends();
    let html = html(&traces, &wanted("#7"));
    assert_eq!(html.matches("application/octet-stream").count(), 2, "it and its other end");
    let error = page(&traces, &wanted("nginx")).unwrap_err().to_string();
    assert!(error.contains("cookie 7") && error.contains("cookie 1007"), "{error}");
}
