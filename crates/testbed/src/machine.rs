//! What this machine's kernel cannot show, whoever looks.

use std::sync::OnceLock;
use std::time::Duration;

use transom_monitor::ProcessOne;

/// Whether no BPF program runs while process 1 is current, so that some events are missing.
pub fn hides_process_one() -> bool {
    static FOUND: OnceLock<ProcessOne> = OnceLock::new();
    let test = || ProcessOne::test(Duration::from_secs(10)).expect("the test of process 1");
    *FOUND.get_or_init(test) == ProcessOne::Unseen
}

/// Runs a test that compares every event with another witness. Where the machine may have hidden one of
/// them, a test that fails is run again: a fault of ours shows each time.
pub fn where_all_is_seen(test: impl Fn()) {
    let excuse = || {
        hides_process_one().then(|| "the machine hides what happens on process 1's time".to_owned())
    };
    super::again_with(excuse, test);
}
