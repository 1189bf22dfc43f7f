//! A clock that stands still while anybody works: what thousands of shippers ask for in a second does
//! not depend on how fast this machine or the server is.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use transom_fleet::ship::clock::Clock;

/// It goes on in steps of this length, so that machines work beside each other. A step ends at a
/// multiple of it: who sleeps equally long each time keeps its place beside the others.
const STEP_MS: u128 = 250;

#[derive(Debug, Default)]
struct State {
    now: Duration,
    /// How many do not sleep.
    working: usize,
    next: u64,
    sleeping: BinaryHeap<Reverse<(Duration, u64)>>,
    wake: HashMap<u64, oneshot::Sender<()>>,
}

#[derive(Debug, Default)]
pub struct Stopped {
    state: Mutex<State>,
    all_sleep: Notify,
}

impl Stopped {
    /// Since 1970, with so many who work.
    pub fn at(now: Duration, working: usize) -> Stopped {
        Stopped {
            state: Mutex::new(State { now, working, ..State::default() }),
            ..Stopped::default()
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One who worked sleeps, or has ended.
    pub fn rests(&self) {
        let mut state = self.state();
        state.working -= 1;
        if state.working == 0 {
            self.all_sleep.notify_one();
        }
    }

    /// Lets time pass until then, which whoever works stops.
    pub async fn pass_until(&self, end: Duration) {
        loop {
            while self.state().working > 0 {
                self.all_sleep.notified().await;
            }
            if !self.wake_next(end) {
                return;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Whether somebody woke up before the end.
    fn wake_next(&self, end: Duration) -> bool {
        let mut state = self.state();
        let Some(first) = state.sleeping.peek().map(|Reverse((at, _))| *at).filter(|at| *at <= end)
        else {
            state.now = end;
            return false;
        };
        let step_ms = first.as_millis().div_ceil(STEP_MS) * STEP_MS;
        let step = Duration::from_millis(u64::try_from(step_ms).unwrap_or(u64::MAX));
        state.now = state.now.max(step.max(first).min(end));
        let now = state.now;
        while let Some(Reverse((at, number))) = state.sleeping.peek().copied()
            && at <= now
        {
            state.sleeping.pop();
            state.working += 1;
            if let Some(wake) = state.wake.remove(&number) {
                let _ = wake.send(());
            }
        }
        true
    }
}

#[async_trait::async_trait]
impl Clock for Stopped {
    fn now(&self) -> Duration {
        self.state().now
    }

    async fn sleep(&self, time: Duration) {
        let (wake, woken) = oneshot::channel();
        {
            let mut state = self.state();
            let (at, number) = (state.now + time, state.next);
            state.next += 1;
            state.sleeping.push(Reverse((at, number)));
            state.wake.insert(number, wake);
        }
        self.rests();
        let _ = woken.await;
    }
}
