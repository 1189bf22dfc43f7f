//! Killed at any moment, again and again: TRANSOM_KILLS says how often.

use std::process::Stdio;
use std::time::Duration;

use crate::place::{Folder, ended, ship};
use crate::spool::Spool;

pub fn kills() -> u32 {
    std::env::var("TRANSOM_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(25)
}

/// Kills the program after times that go through all of its life, while files come. Returns how
/// often it was killed at work.
pub fn kill_often(spool: &Spool, ship: impl Fn() -> std::process::Command, kills: u32) -> u32 {
    let (mut at_work, mut number) = (0, 0);
    let mut random = 1u64;
    for _ in 0..kills {
        number += 1;
        spool.finish(number, 20);
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut child = ship().arg("--once").stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_micros((random >> 33) % 60_000));
        at_work += u32::from(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
    }
    at_work
}

#[test]
fn no_row_is_lost_or_doubled_in_a_folder() {
    let (spool, to) = (Spool::new(1), Folder::new());
    let at_work = kill_often(&spool, || ship(spool.path(), &to.address()), kills());
    assert!(at_work > 0, "it was killed at work");
    let (good, said) = ended(ship(spool.path(), &to.address()).arg("--once"));
    assert!(good, "{said}");
    let mut cookies = to.cookies();
    let all = cookies.len();
    cookies.dedup();
    assert_eq!((cookies.len(), all), (20 * kills() as usize, 20 * kills() as usize));
}
