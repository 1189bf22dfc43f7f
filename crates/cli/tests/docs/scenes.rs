//! Every command that a page shows with its output is run, and must print what the page shows.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use transom_event::Raw;
use transom_scenario::Traffic;
use transom_testbed::{needs, needs_root, skip};
use transom_trace::{Footer, Meta, Writer, WriterOptions};

use crate::shown::{pages, root, shown};
use crate::simulated::{recorded, scenario};
use crate::stage::{Run, Scene, Step};

// The transfer that `cargo run -p transom-trace --example made_up` writes.
#[allow(dead_code)]
#[path = "../../../trace/tests/bulk/mod.rs"]
mod bulk;

const FILES: Scene = Scene {
    pages: &["docs/convert.md", "docs/experiments.md"],
    setup: r#"
        transom convert bulk.parquet bulk.arrow
        sed -e '/^\[hosts.slow\]/,/profile/s/profile.*/&\nstation.phy_mbit = 11/' \
            -e '0,/^from = "fast"/s//from = "fats"/' \
            -e 's/metric = "sum_mbit"/metric = "sum_mbits"/' -e '/^at_least = 4.1/d' \
            "$ROOT/experiments/two-phones.toml" >wrong.toml"#,
    steps: &[Step::new("transom [", "", Run::Not("it shows how it is called"))],
    needs_root: false,
};

const MACHINE: Scene = Scene {
    pages: &["docs/check.md", "docs/containers.md"],
    setup: "",
    steps: &[
        Step::new("sudo transom check", "", Run::AsShown).varying(),
        Step::new("unshare --user", "", Run::AsShown),
        Step::new(
            "transom check",
            "",
            Run::As("setpriv --reuid=65534 --regid=65534 --clear-groups transom check"),
        ),
    ],
    needs_root: true,
};

const DEMO: Scene = Scene {
    pages: &["README.md", "docs/explain.md"],
    setup: r#"
        mkdir -p target/release
        ln -s "$PWD/bin/transom" target/release/transom
        wire 5201 5202"#,
    steps: &[
        Step::new(
            "make demo",
            "",
            Run::As(r#"CARGO_TARGET_DIR=$PWD/target "$ROOT/scripts/demo.sh""#),
        )
        .varying(),
        Step::new(
            "sudo transom log",
            "quiet 5201
             (await is_attached; upload 5201 4 -C cubic; quiet 5201; interrupt) &",
            Run::Interrupted,
        ),
        Step::new(
            "transom explain client.parquet --connection nginx",
            r#"quiet 5201
               upload 5201 8 -C cubic && upload 5202 8 -C cubic && sleep 0.5
               busy=$(in_client ss -Htn "dport = :5201" | awk '$3 > 0 { print $4 }')
               transom record -o client.parquet --netns client -d 5s"#,
            Run::AsShown,
        ),
        Step::new(
            "transom explain client.parquet --connection 41328",
            "",
            Run::As("transom explain client.parquet --connection ${busy##*:} --from 2s --to 4s"),
        )
        .varying(),
        Step::new("transom explain trace-phone", "", Run::Not("it needs the library")),
        Step::new("transom explain", "", Run::AsShown).varying(),
    ],
    needs_root: true,
};

const WIRE: Scene = Scene {
    pages: &["docs/record.md", "docs/log.md", "docs/top.md"],
    setup: "wire 5201 5202",
    steps: &[
        // The server dies with bytes unread, which resets the connection.
        Step::new(
            "sudo transom log",
            "quiet 5201
             (await is_attached; upload 5201 5 -C bbr; sleep 1.5; kill -9 ${servers[5201]}
              quiet 5201; interrupt) &",
            Run::Interrupted,
        ),
        Step::new("sudo transom record --json", "upload 5201 2; upload 5202 2", Run::AsShown),
        Step::new("transom top", "upload 5202 12 -C reno && sleep 2", Run::AsShown),
    ],
    needs_root: true,
};

const JOURNAL: Scene = Scene {
    pages: &["docs/journal.md"],
    setup: "wire 5201",
    steps: &[Step::new(
        "iperf3",
        "serve 5201",
        Run::As("in_client iperf3 -c 10.99.2.2 -C cubic -t 3 >/dev/null"),
    )],
    needs_root: true,
};

const TOOLS: Scene = Scene {
    pages: &["docs/handover.md"],
    setup: "wire 5201
            upload 5201 60 -C cubic
            transom record -o upload.parquet --netns client -d 3s",
    steps: &[
        // As root it says first that this is dangerous.
        Step::new(
            "tshark -r upload.pcapng -Y",
            "",
            Run::As(
                "tshark -r upload.pcapng -Y 'bblog.event_id == 15' -T fields \
                 -e frame.time_relative -e bblog.snd_cwnd -e frame.comment 2>/dev/null",
            ),
        ),
        Step::new(
            "tshark -r upload.pcapng -q",
            "",
            Run::As(
                "tshark -r upload.pcapng -q -z \
                 'io,stat,0.5,MAX(bblog.snd_cwnd)bblog.snd_cwnd,AVG(bblog.srtt)bblog.srtt' \
                 2>/dev/null",
            ),
        ),
    ],
    needs_root: true,
};

const AGENT: Scene = Scene {
    pages: &["docs/agent.md"],
    setup: "wire 5201 5202",
    steps: &[
        Step::new(
            "sudo transom agent",
            "(await is_attached; upload 5201 6 -C cubic; upload 5202 6 -C cubic
              in_client curl -s --max-time 2 http://10.99.2.2:81/
              in_client timeout 1 curl -s http://10.99.2.77/
              quiet 5201; quiet 5202; sleep 2; interrupt) &",
            Run::Interrupted,
        ),
        Step::new("transom ask", "", Run::AsShown).varying(),
    ],
    needs_root: true,
};

const NAMES: Scene = Scene {
    pages: &["docs/names.md"],
    setup: r#"
        wire 443
        printf '127.0.0.1 localhost\n' >hosts && mount --bind hosts /etc/hosts
        printf 'nameserver 127.0.0.1\n' >resolv.conf && mount --bind resolv.conf /etc/resolv.conf
        (in_client python3 "$ROOT/crates/cli/tests/naming/dns.py" asked 10.99.2.2=server.example &)
        await test -e asked
        export XDG_CACHE_HOME=$PWD/cache
        upload 443 30 -C cubic && sleep 0.5
        transom record -o upload.parquet --netns client -d 3s"#,
    steps: &[Step::new(
        "transom names resolve",
        "",
        // The order is that of the answers.
        Run::As("in_client transom names resolve upload.parquet 192.0.2.1 2>&1 | sort"),
    )],
    needs_root: true,
};

const FLIGHT: Scene = Scene {
    pages: &["docs/flight.md"],
    setup: "wire 5201 5202",
    steps: &[
        Step::new(
            "sudo transom flight",
            "(await grep -qs 'are kept' 0; upload 5201 8 -C cubic; quiet 5201; sleep 2; interrupt) &",
            Run::Interrupted,
        ),
        Step::new("transom explain flight", "", Run::AsShown).varying(),
    ],
    needs_root: true,
};

const TUNE: Scene = Scene {
    pages: &["docs/tune.md", "docs/policy.md"],
    setup: "wire 5201 5202
            toml policy.md 1 >far.toml
            toml policy.md 2 >bad.toml
            upload 5201 60 -C cubic",
    steps: &[
        Step::new(
            "sudo transom tune set --netns client --algorithm steady --target 70",
            "hush 5201",
            Run::AsShown,
        ),
        Step::new("sudo transom tune status --netns", "", Run::AsShown),
        Step::new(
            "transom tune suggest",
            "",
            Run::Not("tests/tune_suggest.rs does, and simulates"),
        ),
        Step::new("transom whatif --verify", "", Run::Not("the page of a slow upload does")),
        Step::new(
            "sudo transom tune status",
            r#"transom tune clear --netns client
               transom tune set --netns client --algorithm bbr --program python3
               (exec ip netns exec client python3 -c '
import socket, time
stream = socket.create_connection(("10.99.2.2", 5202))
choice = socket.IPPROTO_TCP, socket.TCP_CONGESTION
while not stream.getsockopt(*choice, 16).startswith(b"bbr"):
    time.sleep(0.1)
stream.setsockopt(*choice, b"cubic")
open("chosen", "w")
time.sleep(60)') &
               uploads[5202]=$!
               await test -e chosen"#,
            Run::AsShown,
        ),
        Step::new(
            "sudo transom log",
            "hush 5202
             transom tune clear --netns client
             upload 5201 60 -C bbr
             (await is_attached
              transom tune set --netns client --port 5201 --algorithm cubic --cap 30
              sleep 1.5; transom tune clear --netns client; sleep 0.5; interrupt) &",
            Run::Interrupted,
        ),
        Step::new(
            "sudo grep action=",
            "hush 5201
             transom journal install --netns client
             upload 5201 60
             transom tune set --netns client --port 5201 --algorithm steady --cap 10 --rtt 0ms..
             await grep -q because=by_hand /sys/fs/bpf/transom/tcp
             transom tune clear --netns client
             await grep -q because=cleared /sys/fs/bpf/transom/tcp
             hush 5201",
            Run::AsShown,
        ),
    ],
    needs_root: true,
};

const LAB: Scene = Scene {
    pages: &["docs/lab.md", "docs/grid.md"],
    setup: "",
    steps: &[
        Step::new(
            "sudo transom lab shell",
            "",
            Run::As(
                "sleep 60 | transom lab shell two-phones >shell &
                 lab=$!
                 await grep -qs 'exec slow' shell
                 cat shell",
            ),
        ),
        Step::new("transom explain", "", Run::AsShown).varying(),
        Step::new(
            "transom lab sweep",
            "",
            Run::As(
                "transom lab sweep two-phones flows.fast.algorithm=cubic,bbr \\
                   path.rtt_ms=16,64,256 --repeats 2",
            ),
        ),
        Step::new(
            "transom lab search",
            "",
            Run::Not(
                "hundreds of simulations, slow in a debug build; lab_virtual.rs runs a search",
            ),
        ),
        Step::new(
            "transom lab grid",
            "",
            Run::Not("hundreds of simulations; lab_grid.rs runs a grid"),
        ),
        Step::new("sudo transom lab grid", "", Run::Not("an hour of real runs")),
        Step::new("sudo transom lab clean", "kill -9 $lab; wait $lab", Run::AsShown),
    ],
    needs_root: true,
};

const STACKS: Scene = Scene {
    pages: &["docs/run.md"],
    setup: r#"
        for host in client server; do ip netns add $host; ip -n $host link set lo up; done
        two_paths
        ln -s "$ROOT/bench" bench
        mkdir site
        echo hello >site/index.html
        (cd site && exec ip netns exec client python3 -m http.server 8000 >/dev/null 2>&1) &"#,
    steps: &[
        Step::new("sudo ip netns exec client transom run --stack host", "", Run::AsShown).varying(),
        Step::new("transom explain", "", Run::AsShown).varying(),
    ],
    needs_root: true,
};

const WHATIF: Scene = Scene {
    pages: &["docs/whatif.md"],
    setup: "",
    steps: &[Step::new(
        "transom whatif upload.parquet",
        "",
        // A debug build simulates slowly.
        Run::As("transom whatif upload.parquet --budget 5m"),
    )
    .varying()],
    needs_root: false,
};

const SLOW_UPLOAD: Scene = Scene {
    pages: &["docs/slow-upload.md"],
    setup: "toml slow-upload.md 1 >slow.toml",
    steps: &[
        Step::new(
            "sudo transom lab shell",
            "",
            Run::As(
                "sleep 600 | transom lab shell ./slow.toml >shell &
                 await grep -qs 'exec uploader' shell
                 cat shell
                 transom lab exec server -- iperf3 -s >/dev/null 2>&1 &
                 sleep 1",
            ),
        ),
        Step::new("sudo transom lab exec uploader", "", Run::AsShown).varying(),
        Step::new("transom explain", "", Run::AsShown).varying(),
        Step::new(
            "transom whatif before.parquet",
            "",
            Run::As(
                "transom whatif before.parquet --connection :5201 --write-policy faster.toml --budget 5m",
            ),
        )
        .varying(),
        Step::new("cat faster.toml", "", Run::AsShown).varying(),
        Step::new(
            "sudo transom tune apply",
            "",
            Run::As(
                "transom tune apply faster.toml --netns tx-slow-uploader >applied 2>&1 &
                 await grep -qs 'in force' applied
                 cat applied",
            ),
        ),
        Step::new(
            "transom whatif --verify",
            "",
            Run::As(
                "transom whatif --verify before.parquet after.parquet --connection :5201 --budget 5m",
            ),
        )
        .varying(),
    ],
    needs_root: true,
};

/// The phone is `client` under Android's adbd, the host with adb is `router`.
const ANDROID: Scene = Scene {
    pages: &["docs/android.md"],
    setup: r#"
        wire 5201
        strip -o "bin/transom-$(uname -m)" bin/transom
        mkdir data
        export HOME=$PWD ANDROID_ADB_SERVER_PORT=5038
        (exec nsenter --net=/run/netns/client "$ROOT/scripts/adbd-device.sh" \
            "$("$ROOT/scripts/adbd.sh")" 5555 "$PWD/data" >/dev/null 2>&1) &
        host() { ip netns exec router "$@"; }
        trap 'host adb kill-server' EXIT
        sees_phone() {
            host adb connect 10.99.1.2:5555
            host adb devices | grep -q '5555.*device'
        }
        await sees_phone
        transom() {
            case $1 in
            android) host transom "$@" ;;
            *) command transom "$@" ;;
            esac
        }"#,
    steps: &[
        Step::new("transom android check", "", Run::AsShown).varying(),
        // Which side's clock is ahead is luck: it is the same.
        Step::new("transom android record -o", "upload 5201 12 -C cubic", Run::AsShown).varying(),
        Step::new("transom explain", "", Run::AsShown).varying(),
        Step::new("transom android pull -o", "sleep 2", Run::AsShown).varying(),
        Step::new("cat walk.clock.json", "", Run::AsShown).varying(),
    ],
    needs_root: true,
};

/// The upload of docs/whatif.md.
fn an_upload(folder: &Path) {
    let mut scenario = scenario("cubic", 1);
    let path = &mut scenario.links.path;
    path.rtt_ms = 82.0;
    (path.up.rate_mbit, path.up.queue_packets) = (Some(27.7), Some(44));
    let flow = scenario.flows.get_mut("flow").expect("its flow");
    flow.traffic = Traffic::Bulk { seconds: None, bytes: Some(461_223) };
    let trace = recorded(&scenario, &folder.join("run"));
    std::fs::copy(trace, folder.join("upload.parquet")).expect("a trace");
}

fn made_up(folder: &Path) {
    let (path, meta) = (folder.join("bulk.parquet"), Meta::of_this_machine());
    let mut writer = Writer::create(path, &meta, WriterOptions::default()).unwrap();
    for event in bulk::Bulk::new(3).take(40_000) {
        writer.push(&Raw::from(&event)).unwrap();
    }
    writer.finish(Footer::default()).unwrap();
}

#[test]
fn what_the_pages_of_files_show_is_printed() {
    FILES.play_with(made_up);
}

#[test]
fn what_the_page_of_the_machine_shows_is_printed() {
    needs_root!();
    MACHINE.play();
}

#[test]
fn what_the_demo_shows_is_printed() {
    needs_root!();
    DEMO.play();
}

#[test]
fn what_the_pages_of_recording_show_is_printed() {
    needs_root!();
    WIRE.play();
}

#[test]
fn what_the_page_of_the_journal_shows_is_printed() {
    needs!("root", "journal");
    JOURNAL.play();
}

#[test]
fn what_the_page_of_the_flight_recorder_shows_is_printed() {
    needs_root!();
    needs!("iperf3");
    FLIGHT.play();
}

#[test]
fn what_the_page_of_other_tools_shows_is_printed() {
    needs!("root", "iperf3", "tshark");
    TOOLS.play();
}

#[test]
fn what_the_page_of_the_agent_shows_is_printed() {
    needs_root!();
    needs!("iperf3", "curl");
    // cargo builds it for its own tests; a run of these alone may have none.
    needs!("transom-agent");
    AGENT.play();
}

#[test]
fn what_the_page_of_names_shows_is_printed() {
    needs!("root", "iperf3");
    NAMES.play();
}

#[test]
fn what_the_pages_of_tuning_show_is_printed() {
    needs!("root", "journal");
    TUNE.play();
}

#[test]
fn what_the_page_of_the_lab_shows_is_printed() {
    needs!("root", "transom-simulate");
    LAB.play();
}

#[test]
fn what_the_page_of_stacks_shows_is_printed() {
    needs!("root", "mptcp", "transom-netstack");
    STACKS.play();
}

#[test]
fn what_the_page_of_predictions_shows_is_printed() {
    needs!("transom-simulate");
    WHATIF.play_with(an_upload);
}

#[test]
fn what_the_page_of_a_slow_upload_shows_is_printed() {
    needs!("root", "iperf3", "transom-simulate");
    SLOW_UPLOAD.play();
}

#[test]
fn what_the_page_of_a_phone_shows_is_printed() {
    needs!("root", "iperf3", "adb", "strip");
    let has_adbd = Command::new(root().join("scripts/adbd.sh")).output();
    if !has_adbd.is_ok_and(|output| output.status.success()) {
        return skip("adbd", "scripts/adbd.sh cannot fetch it");
    }
    ANDROID.play();
}

#[test]
fn each_page_with_commands_is_in_a_scene() {
    // Makefile targets alone: CI runs them. The tests of transom-simulate, transom-fleet and
    // transom-drill run theirs, and have the library, the buckets and the routers for it.
    const ELSEWHERE: [&str; 6] =
        ["library.md", "simulate.md", "fleet.md", "questions.md", "rollout.md", "drill.md"];
    let scenes = [
        FILES,
        MACHINE,
        DEMO,
        WIRE,
        JOURNAL,
        AGENT,
        NAMES,
        FLIGHT,
        TOOLS,
        TUNE,
        LAB,
        STACKS,
        WHATIF,
        SLOW_UPLOAD,
        ANDROID,
    ];
    let played: BTreeSet<_> = scenes.iter().flat_map(|scene| scene.pages).map(Path::new).collect();
    for page in pages() {
        let name = page.file_name().unwrap().to_str().unwrap();
        let has_commands = shown(&page).iter().any(|shown| shown.is_run);
        let is_played = played.iter().any(|played| page.ends_with(played));
        assert!(is_played || !has_commands || ELSEWHERE.contains(&name), "{name} is in no scene");
    }
}
