//! Tasks that depend on nothing but themselves, so many at once.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// How often the caller is heard while no task ends.
const LOOK: Duration = Duration::from_millis(100);

/// Does all tasks in their order, `jobs` at once. `heard` gets what came of each as it ends, with
/// the task's number, on the caller's thread, and none now and then; once it says false, no task
/// begins any more, and those that have begun are told by the function that they are given.
pub fn each<T: Sync, R: Send>(
    tasks: &[T],
    jobs: usize,
    work: impl Fn(&T, &dyn Fn() -> bool) -> R + Sync,
    mut heard: impl FnMut(Option<(usize, R)>) -> bool,
) {
    let (halt, next) = (AtomicBool::new(false), AtomicUsize::new(0));
    let go_on = || !halt.load(Ordering::Relaxed);
    let (send, receive) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, tasks.len().max(1)) {
            let (send, next, work) = (send.clone(), &next, &work);
            scope.spawn(move || {
                while go_on() {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(task) = tasks.get(at) else { break };
                    let _ = send.send((at, work(task, &go_on)));
                }
            });
        }
        drop(send);
        loop {
            let result = match receive.recv_timeout(LOOK) {
                Ok(result) => Some(result),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            if !heard(result) {
                halt.store(true, Ordering::Relaxed);
            }
        }
    });
}

/// [`each`] until `stop` says so: what came of the tasks that ran, in their order. `done` hears how
/// many of how many are through.
pub fn all<T: Sync, R: Send>(
    tasks: &[T],
    jobs: usize,
    stop: &dyn Fn() -> bool,
    done: &dyn Fn(usize, usize),
    work: impl Fn(&T, &dyn Fn() -> bool) -> R + Sync,
) -> Vec<(usize, R)> {
    let mut results = Vec::new();
    each(tasks, jobs, work, |result| {
        if let Some(result) = result {
            results.push(result);
            done(results.len(), tasks.len());
        }
        !stop()
    });
    results.sort_by_key(|(at, _)| *at);
    results
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn every_task_is_done_once_and_results_keep_their_order() {
        let tasks: Vec<u32> = (0..100).collect();
        let heard = Cell::new(0);
        let done = |through, all| {
            heard.set(heard.get() + 1);
            assert_eq!((through, all), (heard.get(), 100));
        };
        let results = all(&tasks, 4, &|| false, &done, |n, _| n * 2);
        assert_eq!(heard.get(), 100);
        let wanted: Vec<(usize, u32)> = (0..100).map(|n| (n as usize, n * 2)).collect();
        assert_eq!(results, wanted);
    }

    #[test]
    fn what_has_begun_is_told_to_stop_and_kept_and_nothing_else_begins() {
        let begun = AtomicUsize::new(0);
        let both = || begun.load(Ordering::Relaxed) == 2;
        let results = all(&[(); 1000], 2, &both, &|_, _| {}, |(), go_on| {
            begun.fetch_add(1, Ordering::Relaxed);
            while go_on() {
                std::thread::yield_now();
            }
        });
        assert_eq!(results.len(), 2, "without the word they would never have ended");
    }
}
