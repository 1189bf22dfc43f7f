//! The page in a real browser: everything drawn, nothing complained about.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use transom_event::Names;
use transom_testbed::{chromium, has};
use transom_view::report::{Before, PageMeta, Selection, Trace, page};

use crate::synthetic::{Story, flat_and_closed, lost, other_end, recording};

/// The browser; without one the test is noted as skipped.
fn browser() -> Option<PathBuf> {
    has("chromium").then(chromium)?
}

fn open(chromium: &Path, file: &Path, flags: &[&str]) -> Output {
    let profile = tempfile::tempdir().unwrap();
    Command::new(chromium)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--enable-logging=stderr", "--virtual-time-budget=4000"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .args(flags)
        .arg(format!("file://{}", file.display()))
        .output()
        .unwrap()
}

fn attribute(dom: &str, name: &str) -> Option<u64> {
    let (_, rest) = dom.split_once(&format!(" data-{name}=\""))?;
    rest.split('"').next()?.parse().ok()
}

fn write(name: &str, html: &str) -> PathBuf {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&file, html).unwrap();
    file
}

/// Opens the page; says how many charts and points were drawn, and the document.
fn draw(chromium: &Path, file: &Path) -> (u64, u64, String) {
    let output = open(chromium, file, &["--dump-dom"]);
    let dom = String::from_utf8_lossy(&output.stdout).into_owned();
    let log = String::from_utf8_lossy(&output.stderr);
    let complaints: Vec<&str> = log.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert!(complaints.is_empty(), "{complaints:#?}");
    let drawn = attribute(&dom, "drawn").unwrap_or(0);
    (drawn, attribute(&dom, "points").unwrap_or(0), dom)
}

fn meta() -> PageMeta {
    PageMeta {
        source: "upload.tr".into(),
        host: "phone-3".into(),
        kernel: "6.12.48".into(),
        started_ns: Some(1_772_460_311_000_000_000),
        recorder: "transom 0.1.0".into(),
        ..PageMeta::default()
    }
}

#[test]
fn every_chart_of_one_connection_is_drawn() {
    let Some(chromium) = browser() else { return };
    let recording = recording(&[Story::upload(1, 60_000)]);
    let html = page(&[Trace::new(recording, meta())], &Selection::default()).unwrap();
    let file = write("one.html", &html);
    let (drawn, points, dom) = draw(&chromium, &file);
    assert_eq!(drawn, 5, "charts");
    assert!(points > 10_000, "{points} points");
    assert!(dom.contains("Limited by"));

    let picture = file.with_extension("png");
    let shot = format!("--screenshot={}", picture.display());
    open(&chromium, &file, &[&shot, "--window-size=1280,1600", "--hide-scrollbars"]);
    assert!(std::fs::metadata(&picture).unwrap().len() > 50_000, "a picture with something in it");
}

#[test]
fn what_led_to_the_recording_stands_with_its_connection_alone() {
    let Some(chromium) = browser() else { return };
    let recording = recording(&[Story::upload(1, 3000), Story::upload(2, 3000)]);
    let step = |n: u32| format!("−0.{n:03} s: <b>recovery</b> → open, cwnd {n}");
    let heading = "Before it was chosen at 14:02:00 UTC (timeouts), seen by level 1:".to_owned();
    let before = Before { heading: heading.clone(), steps: (0..16).map(step).collect() };
    let trace = Trace { before: [(2, before)].into(), ..Trace::new(recording, meta()) };
    let html = page(&[trace], &Selection::default()).unwrap();
    let file = write("before.html", &html);
    let part = |cookie: u32| {
        let (_, _, dom) = draw(&chromium, Path::new(&format!("{}#{cookie}", file.display())));
        let (_, part) = dom.split_once("<div id=\"before\"").unwrap();
        part.split_once("</div>").unwrap().0.to_owned()
    };
    let (of_other, of_chosen) = (part(1), part(2));
    assert!(of_other.starts_with(" hidden") && !of_other.contains("<li>"), "{of_other}");
    assert!(!of_chosen.starts_with(" hidden") && of_chosen.contains(&heading), "{of_chosen}");
    assert_eq!(of_chosen.matches("<li>").count(), 16);
    assert!(of_chosen.contains("&lt;b&gt;recovery&lt;/b&gt; → open"), "no markup: {of_chosen}");
}

#[test]
fn thirty_connections_with_lost_events() {
    let Some(chromium) = browser() else { return };
    let programs = ["curl", "sshd", "nginx", "iperf3", "chrome"];
    let stories: Vec<Story> = (1..=30)
        .map(|n| Story {
            program: programs[n as usize % 5],
            rate: 500 * n,
            rtt_us: 3000 * n,
            ..Story::upload(n, 400 * n as usize)
        })
        .collect();
    let mut recording = recording(&stories);
    for n in 0..5 {
        recording.push(&lost(recording.start_ns + 2_000_000_000 + n * 40_000_000, 321));
    }
    let selection = Selection { top: 20, ..Selection::default() };
    let trace = Trace::new(recording, PageMeta { cut: true, ..meta() });
    let html = page(std::slice::from_ref(&trace), &selection).unwrap();
    let (drawn, _, dom) = draw(&chromium, &write("thirty.html", &html));
    assert_eq!(drawn, 5);
    assert!(dom.contains("curves of 20 are in this page"));
}

#[test]
fn subflows_stand_under_their_sum_in_any_order() {
    let Some(chromium) = browser() else { return };
    let stories = [(1, 3000), (2, 3000), (3, 5000)].map(|(n, events)| Story::upload(n, events));
    let mut recording = recording(&stories);
    for subflow in &mut recording.connections[..2] {
        subflow.open.as_mut().unwrap().mptcp = 0xbeef;
    }
    let html = page(&[Trace::new(recording, meta())], &Selection::default()).unwrap();
    let by_program = "document.querySelector('#head button').click();";
    let sorted = html.replace("</body>", &format!("<script>{by_program}</script></body>"));
    for (name, html) in [("subflows.html", html), ("sorted.html", sorted)] {
        let (drawn, _, dom) = draw(&chromium, &write(name, &html));
        assert_eq!(drawn, 5, "charts of a subflow: a sum has none");
        let rows = dom.split("<tbody").nth(1).unwrap().split("</tbody>").next().unwrap();
        let classes: Vec<&str> = rows
            .split("<tr ")
            .filter(|row| row.contains("data-at"))
            .map(|row| ["family", "subflow"].into_iter().find(|c| row.contains(c)).unwrap_or("-"))
            .collect();
        let at = classes.iter().position(|class| *class == "family").unwrap();
        assert_eq!(classes[at..at + 3], ["family", "subflow", "subflow"], "{name}: {classes:?}");
        assert_eq!(classes.len(), 4);
        assert!(rows.contains("MPTCP 0000beef, 2 subflows"));
        assert!(dom.contains("subflow of MPTCP 0000beef"), "said of the chosen one");
    }
}

#[test]
fn the_filter_finds_a_connection_by_its_name_and_by_its_numbers() {
    let Some(chromium) = browser() else { return };
    let recording = recording(&[Story::upload(1, 500), Story::upload(2, 500)]);
    let mut trace = Trace::new(recording, meta());
    let ends = trace.analyses[0].ends.unwrap();
    let services = [(ends.remote.port(), "https".to_owned())];
    trace.analyses[0].name_ends(&Names::new(services.into(), [].into()));
    let port = ends.remote.port();
    let html = page(&[trace], &Selection::default()).unwrap();
    for (word, rows) in [(":https".to_owned(), 1), (format!(":{port}"), 2), (":65000".into(), 0)] {
        let typed = format!(
            "<script>const f = document.getElementById('filter'); f.value = '{word}'; \
             f.dispatchEvent(new Event('input'));</script></body>"
        );
        let html = html.replace("</body>", &typed);
        let (_, _, dom) = draw(&chromium, &write("filter.html", &html));
        let found = dom.split("<tbody").nth(1).unwrap().split("</tbody>").next().unwrap();
        assert_eq!(found.matches("data-at").count(), rows, "{word}");
    }
}

#[test]
fn a_million_events_are_drawn() {
    let Some(chromium) = browser() else { return };
    let recording = recording(&[Story::upload(1, 1_000_000)]);
    let html = page(&[Trace::new(recording, meta())], &Selection::default()).unwrap();
    let (drawn, points, dom) = draw(&chromium, &write("million.html", &html));
    assert_eq!(drawn, 5);
    assert!(points > 20_000, "{points} points");
    assert!(dom.contains("Curves are drawn through"), "the page says that it is thinned");
}

/// What a script in the page found: the number that it wrote into the document.
fn measured(chromium: &Path, name: &str, html: &str, size: &str, script: &str) -> u64 {
    let script = format!("<script>document.body.dataset.measured = {script};</script></body>");
    let file = write(name, &html.replace("</body>", &script));
    let output = open(chromium, &file, &["--dump-dom", &format!("--window-size={size}")]);
    attribute(&String::from_utf8_lossy(&output.stdout), "measured").expect("it was measured")
}

#[test]
fn a_number_has_three_digits_and_none_of_them_gets_lost() {
    let Some(chromium) = browser() else { return };
    let html =
        page(&[Trace::new(recording(&[Story::upload(1, 50)]), meta())], &Selection::default())
            .unwrap();
    let written = "0 5e-8 0.0005 1 9.5 20 99.9 100 100 123";
    let numbers = "[0, 5e-8, 0.0005, 1, 9.5, 20, 99.94, 99.97, 100, 123.4]";
    let script = format!("Number({numbers}.map(short).join(' ') === '{written}')");
    assert_eq!(measured(&chromium, "short.html", &html, "1280,800", &script), 1);
}

#[test]
fn a_label_of_time_is_exactly_where_it_stands() {
    let Some(chromium) = browser() else { return };
    let html =
        page(&[Trace::new(recording(&[Story::upload(1, 50)]), meta())], &Selection::default())
            .unwrap();
    let written = "0.0225 s 2.5 s 5.0 s 0.3 s 20 s; 50 ms 100 s";
    let labels = "[[0.0225, 0.0025], [2.5, 2.5], [5, 2.5], [0.3, 0.1], [20, 10]]";
    let script = format!(
        "Number({labels}.map((one) => seconds10(...one)).join(' ') + \
         '; ' + [0.05, 100].map(bin).join(' ') === '{written}')"
    );
    assert_eq!(measured(&chromium, "labels.html", &html, "1280,800", &script), 1);
}

/// Retransmissions are counted in segments, and throughput in Mbit/s: one axis for both is wrong.
#[test]
fn a_curve_is_drawn_on_the_scale_that_it_names() {
    let Some(chromium) = browser() else { return };
    let html =
        page(&[Trace::new(recording(&[Story::upload(1, 50)]), meta())], &Selection::default())
            .unwrap();
    // The segments' scale ends at 90, so 30 of them are a third of the 90 pixels.
    let script = "(() => { const kept = Path2D; \
         Path2D = class { ys = []; moveTo(x, y) { this.ys.push(y); } lineTo(x, y) { this.ys.push(y); } }; \
         const u = { data: [[0, 1], [30, 30]], bbox: { left: 0, top: 0, width: 100, height: 90 }, \
           series: [{}, { scale: 'n' }], \
           scales: { x: { min: 0, max: 1 }, y: { min: 0, max: 10 }, n: { min: 0, max: 90 } } }; \
         const { ys } = steps(u, 1, 0, 1).stroke; Path2D = kept; \
         return Number(ys.length > 1 && ys.every((y) => y === 60)); })()";
    assert_eq!(measured(&chromium, "scale.html", &html, "1280,800", script), 1);
}

/// Each label is above every curve that is drawn below it.
#[test]
fn a_label_lies_over_no_curve() {
    let Some(chromium) = browser() else { return };
    let html = page(&[Trace::new(flat_and_closed(), meta())], &Selection::default()).unwrap();
    assert!(html.contains("ACKs are not seen"));
    // What is read of the picture is where a value stands, and where words do, in pixels from the top.
    let script = "0; setTimeout(() => { \
         const u = charts.plots[0], words = []; \
         u.ctx.fillText = (label, x, y) => label.startsWith('closed') && words.push((y - u.bbox.top) / devicePixelRatio); \
         u.redraw(false); setTimeout(() => { \
         const cwnd = u.data.slice(1).map((values) => Math.max(...values.filter((v) => v <= 10))); \
         const highest = u.valToPos(Math.max(...cwnd), 'y'); \
         document.body.dataset.measured = Number(words.length === 1 && words[0] > 8 && highest > words[0] + 3); \
         }, 200); }, 200)";
    assert_eq!(measured(&chromium, "over.html", &html, "1280,800", script), 1);
}

fn pages() -> Vec<(&'static str, String)> {
    let many = |count: u64| -> Vec<Story> {
        (1..=count).map(|n| Story::upload(n, 20_000 / count as usize + 30)).collect()
    };
    [("1", 1), ("50", 50), ("2000", 2000)]
        .map(|(name, count)| {
            let trace = Trace::new(recording(&many(count)), meta());
            (name, page(&[trace], &Selection::default()).unwrap())
        })
        .to_vec()
}

#[test]
fn the_window_is_above_the_fold_and_no_page_is_wider_than_a_phone() {
    let Some(chromium) = browser() else { return };
    let bottom =
        "Math.ceil(document.querySelector('#charts .plot').getBoundingClientRect().bottom)";
    let width = "document.documentElement.scrollWidth";
    for (count, html) in pages() {
        let name = |what| format!("{what}-{count}.html");
        let bottom = measured(&chromium, &name("fold"), &html, "1280,800", bottom);
        assert!(bottom <= 800, "{count} connections: the first chart ends at {bottom}");
        let width = measured(&chromium, &name("phone"), &html, "500,900", width);
        assert!(width <= 500, "{count} connections: {width} pixels");
        assert_eq!(html.contains("id=\"overview\""), count != "1");
    }
}

#[test]
fn the_other_end_is_drawn_on_the_same_axis() {
    let Some(chromium) = browser() else { return };
    let story = Story::upload(7, 5000);
    let there = PageMeta { source: "server.tr".into(), ..meta() };
    let traces = [Trace::new(recording(&[story]), meta()), Trace::new(other_end(story, 0), there)];
    let html = page(&traces, &Selection::default()).unwrap();
    let (drawn, _, dom) = draw(&chromium, &write("joined.html", &html));
    assert_eq!(drawn, 5);
    for words in
        ["received at the other end", "smoothed RTT at the other end", "The other end (B, "]
    {
        assert!(dom.contains(words), "{words}");
    }
}

#[test]
fn two_runs_are_drawn_together() {
    let Some(chromium) = browser() else { return };
    let there = PageMeta { source: "second.tr".into(), ..meta() };
    let second = recording(&[Story { rate: 900, ..Story::upload(9, 4000) }]);
    let traces =
        [Trace::new(recording(&[Story::upload(7, 5000)]), meta()), Trace::new(second, there)];
    let html = page(&traces, &Selection::default()).unwrap();
    let (drawn, _, dom) = draw(&chromium, &write("compared.html", &html));
    assert_eq!(drawn, 5);
    assert!(dom.contains("A sent") && dom.contains("B sent"), "curves of the overview");
    assert!(dom.contains("Mbit/s, means of ") && dom.contains(" ms (A) and "), "bins of each");
}

/// In grey print, and for people who see colours otherwise: dashes, areas and lines on the background
/// alone tell what is what.
#[test]
fn curves_and_states_are_told_apart_without_colour() {
    let Some(chromium) = browser() else { return };
    let story = Story::upload(7, 5000);
    let there = |source: &str| PageMeta { source: source.into(), ..meta() };
    let one = || Trace::new(recording(&[story]), meta());
    let second = recording(&[Story { rate: 900, ..Story::upload(9, 4000) }]);
    let several = Trace::new(recording(&[story, Story::upload(8, 2000)]), meta());
    let pages = [
        ("joined", vec![one(), Trace::new(other_end(story, 0), there("server.tr"))]),
        ("compared", vec![one(), Trace::new(second, there("second.tr"))]),
        ("several", vec![several]),
    ];
    // Of each legend: how many different marks it has, of how many.
    let script = "(() => { \
         const form = (svg) => [...svg.querySelectorAll('path')].map((path) => \
           path.getAttribute('stroke-dasharray') + ' ' + path.getAttribute('fill-opacity')).join(); \
         const legends = [...document.querySelectorAll('figcaption, .keys-of-total')].map((legend) => \
           [...legend.querySelectorAll('.key:not(.state) svg')].map(form)); \
         const states = [...document.querySelectorAll('.key.state svg')].map((svg) => svg.querySelector('[stroke]').getAttribute('d')); \
         const alike = [...legends, states].some((forms) => new Set(forms).size < forms.length); \
         return Number(!alike && states.length === 4 && legends.flat().length > 8); })()";
    for (name, traces) in pages {
        let html = page(&traces, &Selection::default()).unwrap();
        let file = format!("grey-{name}.html");
        assert_eq!(measured(&chromium, &file, &html, "1280,800", script), 1, "{name}");
    }
}

#[test]
fn of_two_runs_the_slow_one_has_its_curve_too() {
    let Some(chromium) = browser() else { return };
    let slow = recording(&[Story { rate: 20, ..Story::upload(9, 400) }]);
    let there = PageMeta { source: "slow.tr".into(), ..meta() };
    let fast = recording(&[Story { rate: 400_000, rtt_us: 2000, ..Story::upload(7, 5000) }]);
    let traces = [Trace::new(slow, there), Trace::new(fast, meta())];
    let html = page(&traces, &Selection::default()).unwrap();
    let (_, _, dom) = draw(&chromium, &write("unlike.html", &html));
    assert!(dom.contains("A sent") && dom.contains("B sent"), "curves of the overview");
    assert!(dom.contains("B retransmitted, up to "), "how high its own scale reaches");
}

#[test]
fn an_empty_recording_is_no_error() {
    let Some(chromium) = browser() else { return };
    let recording = transom_analysis::Recording::default();
    let html = page(&[Trace::new(recording, meta())], &Selection::default()).unwrap();
    let (drawn, _, dom) = draw(&chromium, &write("empty.html", &html));
    assert_eq!(drawn, 0);
    assert!(dom.contains("This recording has no events"));
}
