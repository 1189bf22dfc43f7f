//! `transom-fleet serve`: the page as a browser gets it.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::asked::{Asker, said};
use crate::generated::{Wrong, host_name, prefix_name};
use crate::{FULL, HOSTS, LOSING, browser, fleet, objects, wrong};

const TIME: [&str; 4] = ["--since", "2026-11-23T12:00", "--until", "2026-11-23T14:00"];

/// The command for a fleet in a folder.
fn serve(asker: &Asker, folder: &Path) -> Command {
    let mut command = asker.program("serve");
    command.args(["--from", &format!("file://{}", folder.display())]).args(TIME);
    command
}

struct Server {
    child: Child,
    at: SocketAddr,
}

impl Server {
    fn start(mut command: Command) -> Server {
        let mut child = command
            .args(["--listen", "127.0.0.1:0"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let at = line.trim().strip_prefix("the page is at http://").expect(&line);
        Server { at: at.trim_end_matches('/').parse().unwrap(), child }
    }

    fn answer(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(self.at).unwrap();
        write!(stream, "{request} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_page_shows_what_is_wrong_and_nothing_where_nothing_is() {
    let Some((_, asker)) = Asker::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (bad, calm) = (folder.path().join("bad"), folder.path().join("calm"));
    let truth = objects::write_all(&fleet(2, 1500, wrong()), &bad).unwrap();
    objects::write_all(&fleet(2, 1500, Wrong::default()), &calm).unwrap();
    let server = Server::start(serve(&asker, &bad));
    let page = server.answer("GET /");
    assert!(page.starts_with("HTTP/1.1 200 OK") && page.contains("default-src 'none'"), "{page}");
    let ended: u64 = truth.verdicts.values().sum();
    let ended = format!("{}\u{202f}{:03} connections ended", ended / 1000, ended % 1000);
    assert!(page.contains(&ended), "{ended}");
    let row = |name: &str| page.contains(&format!("<th scope=\"row\">{name}"));
    assert!(row("https") && row(&prefix_name(LOSING)) && !row(&prefix_name(FULL)));
    assert!(page.contains(&format!("class=\"remark\"><th scope=\"row\">{}", host_name(3))));
    assert!(page.contains("12 agents, 1 of them with a remark"));
    assert!(page.matches("<rect class=\"them\"").count() > 24, "in each step of both pictures");
    assert!(server.answer("GET /other").starts_with("HTTP/1.1 404"));
    assert!(server.answer("POST /").starts_with("HTTP/1.1 405"));
    let page = Server::start(serve(&asker, &calm)).answer("GET /");
    assert!(
        page.contains("None, by four standard errors") && page.contains("12 agents, 0 of them")
    );
}

#[test]
fn agents_that_record_nothing_new_have_a_remark_and_others_have_none_however_many_they_are() {
    let Some((_, asker)) = Asker::new() else { return };
    for counting_agents in [1, HOSTS - 1] {
        let folder = tempfile::tempdir().unwrap();
        let wrong = Wrong { counting_agents, ..Wrong::default() };
        objects::write_all(&fleet(2, 100, wrong), folder.path()).unwrap();
        let page = Server::start(serve(&asker, folder.path())).answer("GET /");
        assert!(page.contains(&format!("12 agents, {counting_agents} of them with a remark")));
        let of = |host: u64| {
            let begin = page.find(&format!("<th scope=\"row\">{}", host_name(host))).unwrap();
            page[begin..].lines().next().unwrap()
        };
        assert!(of(0).contains("<td class=\"number\">-1<td"), "{}", of(0));
        assert!(of(HOSTS - 1).contains("<td class=\"number\">1<td"), "{}", of(HOSTS - 1));
    }
}

#[test]
fn a_machine_whose_agent_said_nothing_all_the_time_has_a_remark() {
    let Some((_, asker)) = Asker::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    objects::write_all(&fleet(2, 100, Wrong::default()), folder.path()).unwrap();
    let silent = host_name(5);
    objects::remove(folder.path(), "agent", &silent).unwrap();
    let page = Server::start(serve(&asker, folder.path())).answer("GET /");
    assert!(page.contains("12 agents, 1 of them with a remark"));
    let row = format!("class=\"remark\"><th scope=\"row\">{silent}");
    let begin = page.find(&row).expect("it has a row");
    assert!(page[begin..].lines().next().unwrap().contains("before 2026-11-23T12:00:00Z"));
}

#[test]
fn it_is_written_into_a_file_and_drawn_by_a_browser_on_a_desk_and_a_phone() {
    let Some((_, asker)) = Asker::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    objects::write_all(&fleet(2, 1500, wrong()), folder.path()).unwrap();
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fleet.html");
    said(serve(&asker, folder.path()).arg("-o").arg(&file)).unwrap();
    assert!(fs::metadata(&file).unwrap().len() < 100_000, "it is light");
    // One of ours is written over, and nothing else.
    said(serve(&asker, folder.path()).arg("-o").arg(&file)).unwrap();
    let other = folder.path().join("notes.txt");
    fs::write(&other, "mine").unwrap();
    assert!(said(serve(&asker, folder.path()).arg("-o").arg(&other)).is_err());
    assert_eq!(fs::read_to_string(&other).unwrap(), "mine");
    browser::draws(&file, [1400, 1900]);
    // As long as the name of a host may be.
    let long = format!("{}.example", "web-of-a-cluster.".repeat(14));
    let page = fs::read_to_string(&file).unwrap().replace(&host_name(3), &long);
    assert!(page.contains(&long));
    let named = file.with_file_name("fleet-long-names.html");
    fs::write(&named, page).unwrap();
    browser::draws(&named, [1400, 1900]);
}

#[test]
fn what_others_reach_and_what_is_not_there_is_refused_before_anybody_looks() {
    let Some((_, asker)) = Asker::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let refused = said(serve(&asker, folder.path()).args(["--listen", "0.0.0.0:0"])).unwrap_err();
    assert!(refused.contains("--public") && refused.contains("0.0.0.0"), "{refused}");
    let refused = said(&mut serve(&asker, Path::new("/nonexistent"))).unwrap_err();
    assert!(refused.contains("no such folder"), "{refused}");
    // A fleet that has shipped nothing yet has a page that says so.
    let page = Server::start(serve(&asker, folder.path())).answer("GET /");
    assert!(page.contains("No connection ended in this time"), "{page}");
}
