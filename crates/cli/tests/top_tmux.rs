//! `transom top` in a real terminal: keys go in through tmux, the screen is read back.
//!
//! The traffic is made up (crates/view/examples/top_synthetic), so that neither privilege nor a
//! network is needed and every run shows the same connections.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use transom_testbed::PATIENCE;

/// The example program, built once; cargo says where it is.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let built = Command::new(env!("CARGO"))
            .args(["build", "--message-format=json", "-p", "transom-view"])
            .args(["--example", "top_synthetic"])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .expect("cargo runs");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        String::from_utf8_lossy(&built.stdout)
            .lines()
            .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
            .filter(|message| message["target"]["name"] == "top_synthetic")
            .find_map(|message| message["executable"].as_str().map(PathBuf::from))
            .expect("cargo names the executable")
    })
}

/// A terminal of its own, with its own tmux server.
struct Screen {
    socket: String,
}

impl Screen {
    fn start(name: &str, width: u16, height: u16, command: &str) -> Screen {
        let screen = Screen { socket: format!("transom-{}-{name}", std::process::id()) };
        let (width, height) = (width.to_string(), height.to_string());
        let started = screen.tmux(&[
            "new-session",
            "-d",
            "-x",
            &width,
            "-y",
            &height,
            "env",
            "-u",
            "NO_COLOR",
            "LC_ALL=C.UTF-8",
            "TERM=screen",
            "sh",
            "-c",
            command,
        ]);
        assert!(started.status.success(), "{}", String::from_utf8_lossy(&started.stderr));
        screen
    }

    /// The program alone, then a line that a terminal in good order shows as it is.
    fn top(name: &str, width: u16, height: u16, options: &str) -> Screen {
        Screen::top_after("", name, width, height, options)
    }

    /// The same with something before it on its command line.
    fn top_after(before: &str, name: &str, width: u16, height: u16, options: &str) -> Screen {
        let program = program().display();
        let command = format!("{before} {program} {options}; echo ended with $?; stty -a; cat");
        Screen::start(name, width, height, &command)
    }

    fn tmux(&self, arguments: &[&str]) -> Output {
        Command::new("tmux")
            .args(["-u", "-L", &self.socket, "-f", "/dev/null"])
            .args(arguments)
            .output()
            .expect("tmux is installed")
    }

    fn keys(&self, keys: &[&str]) {
        let sent = self.tmux(&[&["send-keys"], keys].concat());
        assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
    }

    fn read(&self) -> String {
        String::from_utf8_lossy(&self.tmux(&["capture-pane", "-p"]).stdout).into_owned()
    }

    /// Reads the screen until it is as wanted, and whole: tmux may show half of a redraw.
    fn until(&self, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        let started = Instant::now();
        let mut before = String::new();
        loop {
            let text = self.read();
            if wanted(&text) && text == before {
                return text;
            }
            before.clone_from(&text);
            assert!(started.elapsed() < PATIENCE, "never came: {what}; the screen is\n{text}");
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    fn shows(&self, wanted: &str) -> String {
        self.until(wanted, |text| text.contains(wanted))
    }

    fn hides(&self, unwanted: &str) -> String {
        self.until(&format!("a screen without {unwanted}"), |text| !text.contains(unwanted))
    }

    fn number(&self, format: &str) -> String {
        let output = self.tmux(&["display-message", "-p", format]);
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// The process of the program under the shell of this terminal.
    fn pid(&self) -> String {
        let shell = self.number("#{pane_pid}");
        let children = format!("/proc/{shell}/task/{shell}/children");
        std::fs::read_to_string(children).expect("the shell lives").trim().to_owned()
    }

    /// The shell has its terminal back: main screen, cursor, echo and line mode.
    fn is_given_back(&self) {
        self.shows("ended with");
        self.until("stty", |text| text.contains(" icanon") && text.contains(" echo "));
        self.until("the main screen", |_| self.number("#{alternate_on}") == "0");
        assert_eq!(self.number("#{cursor_flag}"), "1", "the cursor is visible");
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

fn line<'a>(screen: &'a str, start: &str) -> &'a str {
    let found = screen.lines().find(|line| line.starts_with(start));
    found.unwrap_or_else(|| panic!("no line {start:?} in\n{screen}"))
}

fn place(screen: &str, start: &str) -> usize {
    let found = screen.lines().position(|line| line.starts_with(start));
    found.unwrap_or_else(|| panic!("no line {start:?} in\n{screen}"))
}

#[test]
fn the_table_is_readable_at_80_by_24() {
    let screen = Screen::top("table", 80, 24, "");
    let text = screen.shows("chatd");
    let titles = line(&text, "PROGRAM");
    for title in ["REMOTE", "B/s", "CWND", "SRTT", "RETR", "LIMIT", "CWND, 1 s"] {
        assert!(titles.contains(title), "{title} in {titles}");
    }
    assert!(line(&text, "upload").contains("192.0.2.10:5001"));
    assert!(line(&text, "backup").contains("rwnd"));
    assert!(line(&text, "chatd").contains("recv"), "it waits for the other side: {text}");
    assert!(line(&text, "video").contains("pacing"));
    screen.until("events come", |text| !text.contains(" 0 events/s"));
}

#[test]
fn sorting_and_filtering() {
    let screen = Screen::top("sort", 80, 24, "");
    let text = screen.shows("chatd");
    assert!(place(&text, "upload") < place(&text, "backup"), "by rate\n{text}");
    screen.keys(&["P"]);
    let text = screen.shows("by program ↑");
    assert!(place(&text, "backup") < place(&text, "upload"), "by program\n{text}");
    screen.keys(&["r"]);
    let text = screen.shows("by program ↓");
    assert!(place(&text, "video") < place(&text, "backup"), "reversed\n{text}");
    screen.keys(&["Right"]);
    screen.shows("by pid");

    screen.keys(&["/", "b", "b", "r"]);
    let text = screen.hides("upload");
    assert!(text.contains("video") && text.contains("1 of "), "{text}");
    screen.keys(&["Enter"]);
    screen.shows("/bbr");
    screen.keys(&["Escape"]);
    screen.shows("upload");
}

#[test]
fn freezing_stops_the_screen_and_not_the_events() {
    let screen = Screen::top("freeze", 80, 24, "");
    screen.shows("chatd");
    screen.keys(&["Space"]);
    let before = screen.shows("FROZEN");
    let stays = Instant::now();
    while stays.elapsed() < Duration::from_secs(2) {
        assert_eq!(screen.read(), before);
        std::thread::sleep(Duration::from_millis(100));
    }
    screen.keys(&["Space"]);
    screen.hides("FROZEN");
}

#[test]
fn the_detail_view_shows_window_and_throughput_of_one_connection() {
    for (width, height) in [(80, 24), (160, 50)] {
        let screen = Screen::top(&format!("detail{width}"), width, height, "");
        screen.shows("chatd");
        screen.keys(&["Enter"]);
        const WANTED: [&str; 7] = [
            "upload [1001]  10.0.0.1:40001 > 192.0.2.10:5001",
            "cwnd, segments",
            "throughput up, B/s",
            "marks",
            "limited by congestion window",
            "last events",
            "ca_state recovery -> open",
        ];
        let text = screen.until("all its parts", |text| WANTED.iter().all(|it| text.contains(it)));
        assert!(text.contains('⣿') || text.contains('⢸'), "curves in\n{text}");
        screen.keys(&["Escape"]);
        screen.shows("backup");
    }
}

#[test]
fn connections_that_close_fade_out_and_new_ones_come() {
    let screen = Screen::top("fade", 80, 24, "");
    screen.shows("closed");
    screen.keys(&["/", "c", "u", "r", "l", "Enter"]);
    screen.until("one closed and one open", |text| {
        text.contains("closed") && text.lines().any(|l| l.starts_with("curl") && l.contains('↓'))
    });
}

#[test]
fn keys_come_from_the_terminal_when_the_standard_input_is_a_pipe_that_has_ended() {
    let screen = Screen::top_after(": |", "pipe", 80, 24, "");
    screen.shows("chatd");
    screen.keys(&["?"]);
    screen.shows("freeze the screen");
    screen.keys(&["?", "q"]);
    screen.shows("ended with 0");
    screen.is_given_back();
}

#[test]
fn help_comes_and_goes() {
    let screen = Screen::top("help", 80, 24, "");
    screen.shows("chatd");
    screen.keys(&["?"]);
    screen.shows("freeze the screen");
    screen.keys(&["NPage"]);
    screen.shows("bytes of memory in the socket's queues");
    screen.keys(&["?"]);
    screen.shows("chatd");
}

#[test]
fn ascii_is_enough() {
    let screen = Screen::top("ascii", 80, 24, "--ascii");
    let text = screen.shows("chatd");
    assert!(text.is_ascii(), "{text}");
    screen.keys(&["Enter"]);
    let text = screen.shows("cwnd, segments");
    assert!(text.is_ascii(), "{text}");
}

#[test]
fn the_terminal_is_given_back_however_it_ends() {
    let quits = Screen::top("quit", 200, 50, "");
    quits.shows("chatd");
    quits.keys(&["q"]);
    quits.shows("ended with 0");
    quits.is_given_back();

    let interrupted = Screen::top("interrupt", 200, 50, "");
    interrupted.shows("chatd");
    interrupted.keys(&["C-c"]);
    interrupted.shows("ended with 0");
    interrupted.is_given_back();

    let terminated = Screen::top("term", 200, 50, "");
    terminated.shows("chatd");
    let killed = Command::new("kill").arg(terminated.pid()).status().expect("kill runs");
    assert!(killed.success());
    terminated.shows("ended with 0");
    terminated.is_given_back();

    let panics = Screen::top("panic", 200, 50, "--panic");
    panics.shows("ended with 101");
    panics.is_given_back();
}

#[test]
fn without_a_terminal_one_table_is_printed() {
    let output = Command::new(program()).output().expect("the example runs");
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(text.starts_with("PROGRAM"), "{text}");
    assert!(line(&text, "upload").contains("cwnd"), "{text}");
    assert!(!text.contains('\x1b'), "{text}");
}

#[test]
fn json_is_for_programs() {
    let output = Command::new(program()).arg("--json").output().expect("the example runs");
    assert!(output.status.success());
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let upload = &value["connections"][0];
    assert_eq!(upload["program"], "upload");
    assert_eq!(upload["limited_by"], "cwnd");
    assert!(upload["up_bytes_per_second"].as_f64().is_some_and(|rate| rate > 1e6));
    assert!(upload["cwnd"].as_u64().is_some_and(|cwnd| cwnd > 0));
}
