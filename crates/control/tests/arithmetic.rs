//! Properties of `bpf/steady.h`, compiled as plain C and called from here.

use std::ffi::{CString, c_void};
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use proptest::prelude::*;

const ONE: u32 = 1024;

/// The header's functions under names that a linker sees.
const SOURCE: &str = r#"
#include <linux/types.h>
#include "steady.h"
__u32 within(__u32 w, __u32 cap, __u32 clamp) { return steady_within(w, cap, clamp); }
__u32 start(__u32 w, __u32 target) { return steady_start(w, target); }
__u32 backed_off(__u32 w, __u32 backoff) { return steady_backed_off(w, backoff); }
__u32 halved(__u32 w) { return steady_halved(w); }
__u32 slow_start(__u32 w, __u32 acked, __u32 ssthresh) { return steady_slow_start(w, acked, ssthresh); }
__u32 grown(__u32 w, __u64 *credit, __u32 acked, __u32 gain) { return steady_grown(w, credit, acked, gain); }
__u32 after_idle(__u32 w, __u32 target) { return steady_after_idle(w, target); }
int is_queued(__u32 rtt, __u32 least) { return steady_is_queued(rtt, least); }
__u32 rate_of(__u32 segments, __u32 us) { return steady_rate(segments, us); }
__u32 pipe_of(__u32 rate, __u32 least) { return steady_pipe(rate, least); }
__u64 bytes_of(__u32 rate, __u32 mss) { return steady_bytes(rate, mss); }
__u32 cubic_time(__u32 w, __u32 w_max) { return steady_cubic_time(w, w_max); }
__u32 cubic(__u32 ms, __u32 k_ms, __u32 w_max) { return steady_cubic(ms, k_ms, w_max); }
__u64 pace(__u32 w, __u32 mss, __u32 srtt, __u64 most) { return steady_pace(w, mss, srtt, most); }
"#;

struct Library(*mut c_void);

// SAFETY: the functions of the library keep no state.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

fn library() -> &'static Library {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let (source, object) = (directory.path().join("steady.c"), directory.path().join("s.so"));
        std::fs::write(&source, SOURCE).expect("a file");
        let headers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bpf");
        let compiled = Command::new(std::env::var("CC").unwrap_or("cc".into()))
            .args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-fsanitize=undefined"])
            .args(["-fsanitize-undefined-trap-on-error", "-I"])
            .arg(headers)
            .arg(&source)
            .arg("-o")
            .arg(&object)
            .status()
            .expect("a C compiler");
        assert!(compiled.success(), "steady.h is plain C");
        let name = CString::new(object.to_str().expect("a path of text")).expect("no zero");
        // SAFETY: a library of ours without constructors.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
        assert!(!handle.is_null(), "dlopen");
        Library(handle)
    })
}

macro_rules! from_c {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {$(
        fn $name($($argument: $type),*) -> $result {
            let symbol = CString::new(stringify!($name)).expect("no zero");
            // SAFETY: the library is never closed.
            let address = unsafe { libc::dlsym(library().0, symbol.as_ptr()) };
            assert!(!address.is_null());
            // SAFETY: SOURCE defines it with these types.
            let function: extern "C" fn($($type),*) -> $result =
                unsafe { std::mem::transmute(address) };
            function($($argument),*)
        }
    )*};
}

from_c! {
    within(window: u32, cap: u32, clamp: u32) -> u32;
    start(window: u32, target: u32) -> u32;
    backed_off(window: u32, backoff: u32) -> u32;
    halved(window: u32) -> u32;
    slow_start(window: u32, acked: u32, ssthresh: u32) -> u32;
    grown(window: u32, credit: &mut u64, acked: u32, gain: u32) -> u32;
    after_idle(window: u32, target: u32) -> u32;
    is_queued(rtt_us: u32, least_us: u32) -> i32;
    rate_of(segments: u32, us: u32) -> u32;
    pipe_of(rate: u32, least_us: u32) -> u32;
    bytes_of(rate: u32, mss: u32) -> u64;
    cubic_time(window: u32, w_max: u32) -> u32;
    cubic(ms: u32, k_ms: u32, w_max: u32) -> u32;
    pace(window: u32, mss: u32, srtt_us: u32, most: u64) -> u64;
}

#[test]
fn the_defaults_give_up_an_eighth() {
    assert_eq!(backed_off(64, ONE / 8), 56);
    assert_eq!(backed_off(10, 0), 10, "the dicomo variant gives up nothing");
    assert_eq!(backed_off(3, ONE / 8), 2, "at least a segment");
    assert_eq!(halved(41), 20);
}

#[test]
fn a_window_of_70_over_40_ms_is_paced_at_six_fifths() {
    assert_eq!(pace(70, 1448, 40_000, u64::MAX), 70 * 1448 / 5 * 6 * 25);
}

#[test]
fn a_queue_is_an_eighth_of_the_round_trip_from_4_to_16_ms() {
    for (least, queue) in [(1_000, 4_000), (48_000, 6_000), (96_000, 12_000), (200_000, 16_000)] {
        assert_eq!(is_queued(least + queue, least), 1);
        assert_eq!(is_queued(least + queue - 1, least), 0);
    }
    assert_eq!(is_queued(50_000, u32::MAX), 0, "no least round trip is known");
}

#[test]
fn a_path_that_brought_90_segments_through_in_54_ms_holds_80_of_48() {
    let rate = rate_of(90, 54_000);
    assert_eq!(pipe_of(rate, 48_000), 80);
    let exact = 90.0 * 1448.0 / 0.054;
    assert!((bytes_of(rate, 1448) as f64 / exact - 1.0).abs() < 0.001);
}

#[test]
fn the_window_after_a_reduction_is_rfc_9438s() {
    // W_max 100, reduced to 70: K = cbrt(30 / 0.4) = 4.217 s; 1 s later 0.4 segments more.
    let k = cubic_time(70, 100);
    assert!((4200..=4220).contains(&k), "{k}");
    assert!((69..=71).contains(&cubic(0, k, 100)));
    assert_eq!(cubic(k, k, 100), 100);
    assert_eq!(cubic(k + 10_000, k, 100), 500);
    assert_eq!(cubic_time(100, 70), 0, "a window above W_max has met it");
}

proptest! {
    #[test]
    fn what_a_path_holds_is_its_rate_for_its_least_round_trip(
        segments in 1u32..100_000, us in 1_000u32..10_000_000, least in 1_000u32..10_000_000,
    ) {
        let exact = f64::from(segments) * f64::from(least) / f64::from(us);
        prop_assume!(segments / us < 200 && exact < 1e9);
        // The rate is counted in parts of 2^-24 segments a microsecond.
        let lost = f64::from(least) / f64::from(1 << 24);
        let pipe = f64::from(pipe_of(rate_of(segments, us), least));
        prop_assert!(pipe <= exact + 1.0 && pipe >= exact - lost, "{pipe} {exact}");
    }

    #[test]
    fn cubic_only_grows_and_never_wraps(
        window in 2u32.., w_max in 2u32.., ms in any::<u32>(), later in any::<u32>(),
    ) {
        let k = cubic_time(window, w_max);
        let (ms, later) = (ms.min(later), ms.max(later));
        prop_assert!(cubic(ms, k, w_max) <= cubic(later, k, w_max));
    }

    #[test]
    fn no_window_is_above_cap_or_clamp_or_below_the_least(
        window in any::<u32>(), cap in any::<u32>(), clamp in any::<u32>(),
    ) {
        let it = within(window, cap, clamp);
        prop_assert!(it >= 2);
        prop_assert!(it == 2 || (it <= clamp && (cap == 0 || it <= cap) && it <= window));
    }

    #[test]
    fn congestion_never_raises_the_window_and_gives_up_no_more_than_its_share(
        window in 2u32.., backoff in 0u32..=2 * ONE,
    ) {
        let it = backed_off(window, backoff);
        prop_assert!((2..=window).contains(&it));
        let share = u64::from(window) * u64::from(backoff.min(ONE)) / u64::from(ONE);
        prop_assert!(u64::from(window - it) <= share.max(1));
        prop_assert!(backoff == 0 || window == 2 || it < window);
    }

    #[test]
    fn a_greater_share_never_leaves_more(window in 2u32.., a in 0u32..=ONE, b in 0u32..=ONE) {
        let (less, more) = (a.min(b), a.max(b));
        prop_assert!(backed_off(window, more) <= backed_off(window, less));
    }

    #[test]
    fn growth_is_the_gain_for_each_window_acknowledged_whatever_the_acks_are(
        window in 2u32..100_000, gain in 1u32..=64 * ONE,
        parts in prop::collection::vec(1u32..64, 1..200),
    ) {
        let (mut now, mut credit) = (window, 0u64);
        for &acked in &parts {
            let next = grown(now, &mut credit, acked, gain);
            prop_assert!(next >= now);
            prop_assert!(credit < u64::from(now) * u64::from(ONE));
            now = next;
        }
        let acked: u64 = parts.iter().map(|&n| u64::from(n)).sum();
        let most = acked * u64::from(gain) / (u64::from(window) * u64::from(ONE));
        let least = acked * u64::from(gain) / (u64::from(now) * u64::from(ONE));
        let by = u64::from(now - window);
        prop_assert!(by <= most && by + 1 >= least, "{least} {by} {most}");
    }

    #[test]
    fn growth_of_absurd_windows_does_not_wrap(
        window in any::<u32>(), acked in any::<u32>(), gain in any::<u32>(),
    ) {
        prop_assert!(grown(window, &mut 0, acked, gain) >= window);
    }

    #[test]
    fn slow_start_ends_at_the_threshold(
        window in any::<u32>(), acked in any::<u32>(), ssthresh in any::<u32>(),
    ) {
        let it = slow_start(window, acked, ssthresh);
        prop_assert!(it >= window);
        prop_assert!(it <= window.max(ssthresh));
        prop_assert!(u64::from(it - window) <= u64::from(acked));
    }

    #[test]
    fn the_jump_never_goes_down_and_an_idle_time_never_up(
        window in any::<u32>(), target in any::<u32>(),
    ) {
        prop_assert_eq!(start(window, target), window.max(target));
        let idle = after_idle(window, target);
        prop_assert!(idle <= window && (idle == window || idle >= target.max(10)));
    }

    #[test]
    fn the_pace_spreads_the_window_and_respects_the_limit(
        window in any::<u32>(), mss in 1u32..65_536, srtt in any::<u32>(), most in any::<u64>(),
    ) {
        let it = pace(window, mss, srtt, most);
        prop_assert!(it <= most);
        if srtt < 1000 {
            prop_assert_eq!(it, most);
        } else if window < 1 << 20 && it < most {
            let exact = u128::from(window) * u128::from(mss) * 1_200_000 / u128::from(srtt);
            prop_assert!(u128::from(it) <= exact);
            prop_assert!(exact - u128::from(it) <= 1_200_000 / u128::from(srtt) * 5 + 5);
        }
    }
}
