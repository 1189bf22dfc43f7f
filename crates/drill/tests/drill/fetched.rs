//! What was recorded event by event comes as a page, and as files for other tools.

use std::fs;

use transom_testbed::{needs, run};

use crate::host::{Desk, Kept, RECORDED, about, answering, answering_with, said};

#[test]
fn the_host_makes_a_page_and_files_of_a_recorded_connection_and_of_no_other() {
    needs!("root", "linux-5.19", "tshark");
    let kept = Kept::of(RECORDED);
    let [slow, fine] = kept.connections();
    let desk = Desk::beside(&kept).route();
    let _answerer = answering(&kept);
    let folder = tempfile::tempdir().unwrap();
    let fetch = |row, what: &str, name: &str| {
        let to = folder.path().join(name);
        let about = about(row);
        let words: Vec<&str> = about.iter().map(String::as_str).collect();
        said(desk.ask(&words).args(["--fetch", what, "-o"]).arg(&to)).map(|_| to)
    };
    let page = fs::read_to_string(fetch(&slow, "report", "page.html").unwrap()).unwrap();
    assert!(page.contains(&format!("id=\"c{}\"", slow.cookie)), "its page");
    assert!(page.contains("Before it was chosen") && page.ends_with("</html>\n"), "it is whole");
    let black_box = fetch(&slow, "pcapng", "events.pcapng").unwrap();
    let events = run(&["tshark", "-r", black_box.to_str().unwrap(), "-Y", "bblog"]);
    assert!(events.lines().count() > 20, "{events}");
    assert!(fs::metadata(fetch(&slow, "perfetto", "events.pftrace").unwrap()).unwrap().len() > 500);
    let refused = fetch(&slow, "report", "page.html").unwrap_err();
    assert!(refused.contains("page.html") && refused.contains("--force"), "{refused}");
    let refused = fetch(&fine, "report", "fine.html").unwrap_err();
    assert!(refused.contains("web-1 refused: none of the 1 connections was recorded"), "{refused}");
    assert!(!folder.path().join("fine.html").exists(), "nothing is left behind");
}

#[test]
fn a_file_that_is_too_large_is_refused_with_how_to_make_it_on_the_host() {
    needs!("root", "linux-5.19");
    let kept = Kept::made(RECORDED, 3, 20_000_000);
    let [slow, _] = kept.connections();
    let desk = Desk::beside(&kept).route();
    let _answerer = answering_with(&kept, &["--largest", "64"]);
    let folder = tempfile::tempdir().unwrap();
    let about = about(&slow);
    let words: Vec<&str> = about.iter().map(String::as_str).collect();
    let to = folder.path().join("events.pcapng");
    let refused = said(desk.ask(&words).args(["--fetch", "pcapng", "-o"]).arg(&to)).unwrap_err();
    assert!(refused.contains("65536 are the most that is sent: make it on the host"), "{refused}");
    assert!(refused.contains(&format!("transom ask '#{}' ", slow.cookie)), "{refused}");
    assert!(!to.exists(), "nothing is left behind");
}
