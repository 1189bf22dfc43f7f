//! `transom top` fed by made-up traffic: for its tests, for screenshots, and to try it without
//! any privilege. Options: --once, --json, --ascii, --panic (dies after a second, to see that the
//! terminal is given back).

mod traffic;

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use transom_event::{Event, LossCause};
use transom_view::top::{Source, TopOptions, run};

use traffic::Traffic;

struct Synthetic {
    traffic: Traffic,
    started: Instant,
    panics: bool,
}

fn boottime_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

impl Source for Synthetic {
    fn poll(&mut self, timeout: Duration, sink: &mut dyn FnMut(&Event)) -> anyhow::Result<()> {
        std::thread::sleep(timeout.min(Duration::from_millis(10)));
        assert!(!self.panics || self.started.elapsed() < Duration::from_secs(1), "as asked");
        self.traffic.advance_to(boottime_ns(), sink);
        Ok(())
    }

    fn lost(&self) -> Vec<(LossCause, u64)> {
        Vec::new()
    }

    fn note(&self) -> Option<String> {
        None
    }
}

fn main() -> anyhow::Result<()> {
    let mut options = TopOptions::default();
    let mut panics = false;
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--once" => options.once = true,
            "--json" => options.json = true,
            "--ascii" => options.ascii = true,
            "--panic" => panics = true,
            other => anyhow::bail!("unknown option {other}"),
        }
    }
    // Half a minute of the past, so that the curves are there from the first screen on.
    let traffic = Traffic::new(boottime_ns().saturating_sub(30_000_000_000));
    run(Synthetic { traffic, started: Instant::now(), panics }, options)
}
