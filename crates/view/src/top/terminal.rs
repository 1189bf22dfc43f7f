//! The terminal: taking it over, giving it back whatever happens, keys and redrawing.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossterm::event::{self as input, Event as Input, KeyEventKind};
use ratatui::DefaultTerminal;
use signal_hook::SigId;
use signal_hook::consts::{SIGINT, SIGTERM, SIGTSTP};

use super::app::{App, Next};
use super::screen::{self, Scene};
use super::{Feed, Source, Theme};

/// Longest wait for events before the keyboard is looked at.
const KEY_PATIENCE: Duration = Duration::from_millis(50);

/// Whether this process has a terminal that can show a full screen.
pub fn is_usable() -> bool {
    let term = std::env::var("TERM").unwrap_or_default();
    io::stdout().is_terminal() && !term.is_empty() && term != "dumb"
}

/// Signals that end the program in good order instead of at once. SIGHUP is
/// left to kill it: the terminal is gone, and crossterm would read its end for ever.
pub struct Ending {
    flag: Arc<AtomicBool>,
    hooks: Vec<SigId>,
}

impl Ending {
    pub fn watch() -> io::Result<Ending> {
        let flag = Arc::new(AtomicBool::new(false));
        let hooks = [SIGTERM, SIGINT]
            .into_iter()
            .map(|signal| signal_hook::flag::register(signal, Arc::clone(&flag)))
            .collect::<io::Result<_>>()?;
        Ok(Ending { flag, hooks })
    }

    pub fn is_asked(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        for &hook in &self.hooks {
            signal_hook::low_level::unregister(hook);
        }
    }
}

/// The screen while we own it; given back when dropped. `ratatui` does the same on a panic.
struct Screen(DefaultTerminal);

impl Screen {
    fn take() -> io::Result<Screen> {
        ratatui::try_init().map(Screen)
    }

    /// Stops as Ctrl-Z does elsewhere, and takes the screen again afterwards.
    fn suspend(self) -> io::Result<Screen> {
        drop(self);
        signal_hook::low_level::emulate_default_handler(SIGTSTP)?;
        Screen::take()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // The terminal may be gone (SIGHUP): nothing is left to give back then.
        let _ = ratatui::try_restore();
    }
}

/// The terminal that keys come from: crossterm reads the standard input if it is one, and otherwise
/// the terminal of this process.
enum Keyboard {
    Stdin(io::Stdin),
    Tty(File),
}

impl Keyboard {
    fn open() -> io::Result<Keyboard> {
        let stdin = io::stdin();
        if stdin.is_terminal() {
            return Ok(Keyboard::Stdin(stdin));
        }
        File::open("/dev/tty").map(Keyboard::Tty)
    }

    /// Whether it has gone while SIGHUP was ignored (nohup).
    fn hung_up(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut asked = [match self {
            Keyboard::Stdin(stdin) => PollFd::new(stdin, PollFlags::empty()),
            Keyboard::Tty(tty) => PollFd::new(tty, PollFlags::empty()),
        }];
        let answered = poll(&mut asked, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
        answered.is_ok() && asked[0].revents().contains(PollFlags::HUP)
    }
}

/// Shows the table until the user quits or a signal ends it.
pub fn show(
    feed: &mut Feed<impl Source>,
    mut app: App,
    theme: Theme,
    refresh: Duration,
) -> anyhow::Result<()> {
    let ending = Ending::watch()?;
    let keyboard = Keyboard::open()?;
    let mut screen = Screen::take()?;
    let mut due = Instant::now();
    while !ending.is_asked() && !keyboard.hung_up() {
        feed.take(due.saturating_duration_since(Instant::now()).min(KEY_PATIENCE))?;
        let mut touched = false;
        while !keyboard.hung_up() && input::poll(Duration::ZERO)? {
            touched = true;
            let Input::Key(key) = input::read()? else { continue };
            if key.kind == KeyEventKind::Release {
                continue;
            }
            match app.key(key, &feed.model, &feed.status()) {
                Next::Stay => {}
                Next::Quit => return Ok(()),
                Next::Suspend => screen = screen.suspend()?,
            }
        }
        let now = Instant::now();
        if touched || now >= due {
            if now >= due {
                due = now + refresh;
            }
            feed.tick();
            let status = feed.status();
            let scene = Scene { model: &feed.model, status: &status, theme };
            screen.0.draw(|frame| {
                let area = frame.area();
                screen::draw(&mut app, scene, area, frame.buffer_mut());
            })?;
        }
    }
    Ok(())
}
