//! A large recording is still a small page.

use std::time::Instant;

use transom_view::report::{PAGE_LIMIT, PageMeta, Selection, Trace, page};

use crate::synthetic::{Story, recording};

fn measure(name: &str, stories: &[Story]) {
    measure_selected(name, stories, &Selection::default());
}

fn measure_selected(name: &str, stories: &[Story], selection: &Selection) -> String {
    let recording = recording(stories);
    let start = Instant::now();
    let trace = Trace::new(recording, PageMeta::default());
    let html = page(std::slice::from_ref(&trace), selection).unwrap();
    println!(
        "{name}: {} events, {} connections: {:.2} s, {:.2} MB",
        trace.recording.events,
        trace.recording.connections.len(),
        start.elapsed().as_secs_f64(),
        html.len() as f64 / 1e6
    );
    assert!(html.len() < PAGE_LIMIT);
    html
}

#[test]
fn a_million_events_of_one_connection() {
    measure("one", &[Story::upload(1, 1_000_000)]);
}

#[test]
fn a_million_events_of_thirty_connections() {
    let stories: Vec<Story> = (1..=30).map(|n| Story::upload(n, 33_334)).collect();
    measure("thirty", &stories);
}

#[test]
fn a_million_events_with_losses_all_the_time() {
    let stormy = Story { queue: 1, rate: 300, rtt_us: 20_000, ..Story::upload(1, 1_000_000) };
    measure("stormy", &[stormy]);
}

#[test]
fn twenty_thousand_connections() {
    let stories: Vec<Story> = (1..=20_000).map(|n| Story::upload(n, 20)).collect();
    measure("many", &stories);
}

#[test]
fn fifty_thousand_names() {
    let stories: Vec<Story> = (1..=50_000).map(|n| Story::upload(n, 3)).collect();
    let mut trace = Trace::new(recording(&stories), PageMeta::default());
    for analysis in &mut trace.analyses {
        let name = format!("host-{}.a-long-name-of-a-network.example", analysis.cookie);
        analysis.remote_name = format!("{name}:5201");
    }
    let html = page(&[trace], &Selection::default()).unwrap();
    assert!(html.len() < PAGE_LIMIT, "{} bytes", html.len());
}

#[test]
fn so_many_chosen_connections_that_not_all_of_their_curves_fit() {
    let stories: Vec<Story> = (1..=4000).map(|n| Story::upload(n, 400)).collect();
    let html = measure_selected("chosen", &stories, &Selection { top: 4000, ..Default::default() });
    let drawn = html.matches("<script type=\"application/octet-stream\"").count();
    assert!((400..4000).contains(&drawn), "curves of {drawn}");
}
