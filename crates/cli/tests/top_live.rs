//! `transom top` on real connections: as a table in a terminal, and as JSON.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use transom_testbed::{needs_probes, transom, wait_for};

/// One connection over loopback that sends as fast as it can until dropped.
struct Upload {
    port: u16,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Upload {
    fn start() -> Upload {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let threads = vec![
            std::thread::spawn(move || {
                while !flag.load(Ordering::Relaxed) && client.write_all(&[7; 65536]).is_ok() {
                    std::thread::sleep(std::time::Duration::from_millis(2));
                }
            }),
            std::thread::spawn(move || {
                let mut buffer = [0; 65536];
                while matches!(server.read(&mut buffer), Ok(1..)) {}
            }),
        ];
        Upload { port, stop, threads }
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

#[test]
fn the_json_snapshot_shows_who_sends_how_fast() {
    needs_probes!();
    let upload = Upload::start();
    let port = upload.port.to_string();
    let output =
        transom().args(["top", "--json", "--interval", "1", "--port", &port]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let snapshot: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let connections = snapshot["connections"].as_array().expect("a list of connections");
    assert_eq!(connections.len(), 2, "both ends are here");
    let sender = connections
        .iter()
        .find(|connection| connection["remote"].as_str().is_some_and(|r| r.ends_with(&port)))
        .expect("the sending end");
    assert_eq!(sender["tgid"], std::process::id());
    assert!(sender["cwnd"].as_u64().unwrap() >= 2);
}

#[test]
fn the_terminal_shows_the_connection_and_is_given_back() {
    needs_probes!();
    let upload = Upload::start();
    let server = format!("transom-live-{}", std::process::id());
    let tmux = |arguments: &[&str]| {
        let output = Command::new("tmux")
            .args(["-u", "-L", &server, "-f", "/dev/null"])
            .args(arguments)
            .output()
            .expect("tmux is installed");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let command = format!(
        "LC_ALL=C.UTF-8 {} top --port {}; echo ended with $?; cat",
        env!("CARGO_BIN_EXE_transom"),
        upload.port
    );
    tmux(&["new-session", "-d", "-x", "80", "-y", "24", &command]);
    let screen = || tmux(&["capture-pane", "-p"]);
    wait_for("the connection in the table", || {
        screen().lines().any(|line| line.contains(&format!(":{}", upload.port)))
    });
    tmux(&["send-keys", "Enter"]);
    wait_for("its detail view", || screen().contains("ssthresh"));
    tmux(&["send-keys", "Escape"]);
    tmux(&["send-keys", "q"]);
    wait_for("the end of top", || screen().contains("ended with 0"));
    tmux(&["kill-server"]);
}
