//! A few connections with a known cause, over real kernels: the whole set is `make situations`.

use std::path::Path;

use transom_situations::catalogue;
use transom_situations::run::run;
use transom_situations::score::ask;
use transom_testbed::needs_root;

/// Those that end soon and stand for a rule each, at round trips that a busy machine does not
/// lengthen much.
const FEW: [&str; 11] = [
    "application-trickle-10ms",
    "send-buffer-16k-48ms",
    "receiver-window-32k-60ms",
    "peer-stops-reading-2ms-reno",
    "slow-start-200k-100ms",
    "pacing-5m-30ms",
    "shallow-buffer-8m-60ms",
    "handshake-20ms",
    "local-device-reno-after-bbr-20ms",
    "download-unscaled-150ms-v6",
    "seed-20261123-16-reordering",
];

#[test]
fn the_verdict_names_what_was_built() {
    needs_root!();
    let transom = Path::new(env!("CARGO_BIN_EXE_transom"));
    let directory = tempfile::tempdir().expect("a directory");
    let all = catalogue::all().expect("the catalogue");
    let few: Vec<_> = all.iter().filter(|one| FEW.contains(&one.name.as_str())).collect();
    assert_eq!(few.len(), FEW.len());
    let judge = &|situation: &catalogue::Situation| {
        let file = directory.path().join(&situation.name);
        run(situation, transom, &file).expect("it is built and recorded");
        ask(situation, transom, &file).expect("explain finds it")
    };
    std::thread::scope(|scope| {
        for few in few.chunks(4) {
            let judged: Vec<_> = few.iter().map(|one| scope.spawn(move || judge(one))).collect();
            for said in judged {
                let said = said.join().expect("no panic");
                assert!(said.is_right(), "{}: {} ({})", said.name, said.cause, said.text);
            }
        }
    });
}
