//! Tasks that depend on nothing but themselves, so many at once.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Does every task, in their order, `jobs` at once, until `stop` says so; `done` hears how many of
/// how many are through. What came of them is in the order of the tasks.
pub fn each<T: Sync, R: Send>(
    tasks: &[T],
    jobs: usize,
    stop: &(dyn Fn() -> bool + Sync),
    done: &(dyn Fn(usize, usize) + Sync),
    work: impl Fn(&T) -> R + Sync,
) -> Vec<(usize, R)> {
    let (next, through) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let results = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, tasks.len().max(1)) {
            scope.spawn(|| {
                while !stop() {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(task) = tasks.get(at) else { break };
                    let result = work(task);
                    results.lock().unwrap_or_else(|it| it.into_inner()).push((at, result));
                    done(through.fetch_add(1, Ordering::Relaxed) + 1, tasks.len());
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_else(|it| it.into_inner());
    results.sort_by_key(|(at, _)| *at);
    results
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_is_done_once_and_results_keep_their_order() {
        let tasks: Vec<u32> = (0..100).collect();
        let heard = AtomicUsize::new(0);
        let done = |_, all| {
            heard.fetch_add(1, Ordering::Relaxed);
            assert_eq!(all, 100);
        };
        let results = each(&tasks, 4, &|| false, &done, |n| n * 2);
        assert_eq!(heard.into_inner(), 100);
        let wanted: Vec<(usize, u32)> = (0..100).map(|n| (n as usize, n * 2)).collect();
        assert_eq!(results, wanted);
    }

    #[test]
    fn what_has_begun_is_kept_when_the_user_stops() {
        let ran = AtomicUsize::new(0);
        let stop = || ran.load(Ordering::Relaxed) >= 10;
        let results = each(&[(); 1000], 2, &stop, &|_, _| {}, |()| {
            ran.fetch_add(1, Ordering::Relaxed);
        });
        assert!((10..=12).contains(&results.len()), "{}", results.len());
    }
}
