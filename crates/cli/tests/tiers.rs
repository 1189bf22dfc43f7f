//! The same packets give the same events, whichever tier of probes the kernel offers; and what
//! `transom check` promises is what a recording then has.

mod packets;

use std::fmt::Debug;
use std::process::{Child, Stdio};
use std::sync::LazyLock;

use packets::{Act, MORE, SCRIPT, play};
use transom_event::fields::{self, Value};
use transom_event::{CaState, Event, Kind};
use transom_testbed::{
    Puppet, Recording, Trace, interrupt, needs_probes, needs_root, skip, transom, wait_for,
};

/// What the same packets do not make the same, and why.
const DIFFERENT: &[(&str, &str)] = &[
    ("reset_reason", "kernels before 6.10 do not tell it"),
    ("seq", "each connection begins at another number"),
    ("cwnd_before", "the state of an ACK is the one before it in one tier, after it in another"),
    (
        "drop_reason",
        "the tracepoint tier sees the queue drop, and its reason's number is a kernel's own",
    ),
    ("return_code", "the other tiers see what the queue answers; of a device alone only they do"),
    ("refused_bytes", "of the packet, which only the tracepoint tier sees"),
    ("old_tgid", "processes have other numbers each time"),
];

/// An event without what time makes of it: what happened, and the state that it carries.
struct Told {
    kind: Kind,
    what: String,
    state: String,
}

impl Told {
    fn of(event: &Event, first: u32) -> Told {
        let own = fields::fields(event)
            .filter(|(name, _)| DIFFERENT.iter().all(|(field, _)| field != name))
            .map(|(_, value)| match value {
                Value::Number(number) => format!(" {number}"),
                Value::Flag(flag) => format!(" {}", if flag { "yes" } else { "no" }),
                Value::Word(word) => format!(" {word}"),
            });
        let what = format!("{}{}", event.kind, own.collect::<String>());
        let state = event.state().map(|state| {
            let offset = |number: u32| number.wrapping_sub(first) as i32;
            let (una, nxt) = (offset(state.snd_una), offset(state.snd_nxt));
            let ca = state.ca().map_or("?", CaState::name);
            format!("una {una} nxt {nxt} cwnd {} in flight {} {ca}", state.cwnd, state.in_flight())
        });
        Told { kind: event.kind, what, state: state.unwrap_or_default() }
    }
}

/// What the environment says of tiers to do without, or of programs to be refused.
type Variable<'a> = (&'a str, &'a str);

const TRACEPOINTS: Variable<'_> = ("TRANSOM_WITHOUT", "fentry,kprobe");

/// What is recorded of the script, a connection after the other.
fn told(variable: Variable<'_>) -> Vec<Vec<Told>> {
    let mut puppet = Puppet::new();
    let recording = Recording::start_with(variable, &["--netns", puppet.host.name()]);
    play(&mut puppet);
    stories(&recording.finish())
}

fn stories(trace: &Trace) -> Vec<Vec<Told>> {
    let stories = trace.of(Kind::Open).into_iter().map(|open| {
        let events = trace.only(open.cookie);
        let first = events.iter().find_map(|event| event.state()).map_or(0, |state| state.snd_una);
        events.iter().map(|event| Told::of(event, first)).collect()
    });
    stories.collect()
}

/// What `transom check` says: for each purpose, its tier and the kinds of events that it yields.
struct Promise(serde_json::Value);

impl Promise {
    fn with(variable: Variable<'_>) -> Promise {
        let output = transom().env(variable.0, variable.1).args(["check", "--json"]).output();
        Promise(serde_json::from_slice(&output.expect("transom runs").stdout).expect("JSON"))
    }

    fn of(&self, purpose: &str) -> &serde_json::Value {
        let probes = self.0["probes"].as_array().expect("a list of probes");
        probes.iter().find(|probe| probe["purpose"] == purpose).expect("a purpose that it knows")
    }

    fn tier(&self, purpose: &str) -> &str {
        self.of(purpose)["tier"].as_str().unwrap_or("none")
    }

    /// Why this tier is not used for ACKs.
    fn refusal(&self, tier: &str) -> String {
        let refused = self.of("ack")["refused"].to_string();
        format!("no {tier} on this kernel: {refused}")
    }

    /// Whether `tune` can cap a running connection. Kernels that do not let an algorithm in BPF turn pacing
    /// on refuse `steady` (5.15), and with it all but routes.
    fn caps(&self) -> bool {
        self.0["tune"]["backend"] == "bpf"
    }

    /// Whether this kernel can tell of what begins like this.
    fn has(&self, what: &str) -> bool {
        let probes = self.0["probes"].as_array().expect("a list of probes");
        let mut there = probes.iter().filter(|probe| probe["tier"].is_string());
        match what.split(' ').next() {
            // Found by comparison at the next event, whichever that is.
            Some("algorithm") => there.next().is_some(),
            Some("action" | "clamp") => self.caps(),
            _ if what.starts_with("open existing") => self.of("existing")["tier"].is_string(),
            _ => there.any(|probe| {
                let yields = probe["yields"].as_str().unwrap_or_default();
                yields.split([',', ';']).any(|word| what.starts_with(word.trim()))
            }),
        }
    }

    /// What it says of an act.
    fn of_act(&self, act: &Act) -> Vec<String> {
        let promised = act.told.iter().filter(|what| self.has(what));
        promised.map(|what| (*what).to_owned()).collect()
    }
}

/// What was told, without the number of what a kernel may do once or more often, and without the place
/// of a new owner among the rest: it is known when that process sends again, at the latest.
fn whats(story: &[Told], act: &Act) -> Vec<String> {
    let mut all: Vec<String> = story.iter().map(|told| told.what.clone()).collect();
    for what in act.told.iter().filter_map(|what| what.strip_suffix(MORE)) {
        all.iter_mut().filter(|told| *told == what).for_each(|told| told.push_str(MORE));
    }
    all.sort_by_key(|what| what.starts_with("owner"));
    once(&mut all);
    all
}

/// An `ack` comes before what the kernel makes of it in one tier, and after it in another.
fn apart(whats: Vec<String>) -> (Vec<String>, Vec<String>) {
    let (mut acks, others): (Vec<_>, Vec<_>) =
        whats.into_iter().partition(|what| what.starts_with("ack "));
    once(&mut acks);
    (acks, others)
}

fn once(whats: &mut Vec<String>) {
    whats.dedup_by(|one, before| one == before && one.ends_with(MORE));
}

/// Each act with what was told of it.
fn acts(stories: &[Vec<Told>]) -> impl Iterator<Item = (&'static Act, &Vec<Told>)> {
    let names: Vec<_> = SCRIPT.iter().map(|act| act.name).collect();
    assert_eq!(stories.len(), SCRIPT.len(), "a connection each of {names:?}");
    SCRIPT.iter().zip(stories)
}

/// Names every act that is told otherwise.
fn assert_same<T: PartialEq + Debug>(
    told: impl Iterator<Item = (&'static str, T)>,
    expected: impl Iterator<Item = (&'static str, T)>,
) {
    let others = told.zip(expected).filter(|(told, expected)| told != expected);
    let others = others.map(|((act, told), (_, expected))| {
        format!("{act}\n  told:     {told:?}\n  expected: {expected:?}\n")
    });
    let others: String = others.collect();
    assert!(others.is_empty(), "{others}");
}

/// Told once for all tests that compare with it.
fn by_tracepoints() -> &'static [Vec<Told>] {
    static STORIES: LazyLock<Vec<Vec<Told>>> = LazyLock::new(|| told(TRACEPOINTS));
    &STORIES
}

#[test]
fn every_kind_of_event_is_in_the_script() {
    // What is no doing of a packet: tests/faults.rs, and the samples below.
    let elsewhere = [Kind::Lost, Kind::Sample];
    let in_script = |kind: &Kind| {
        let mut all = SCRIPT.iter().flat_map(|act| act.told);
        all.any(|what| what.split(' ').next() == Some(kind.name()))
    };
    let missing: Vec<_> = Kind::ALL.iter().filter(|kind| !in_script(kind)).copied().collect();
    assert_eq!(missing, elsewhere);
}

#[test]
fn tracepoints_tell_what_check_promises_of_each_packet() {
    needs_probes!();
    let promise = Promise::with(TRACEPOINTS);
    let told = acts(by_tracepoints()).map(|(act, story)| (act.name, whats(story, act)));
    assert_same(told, SCRIPT.iter().map(|act| (act.name, promise.of_act(act))));
}

#[test]
fn a_program_that_the_kernel_refuses_is_named_and_the_rest_works() {
    needs_probes!();
    let spoiled = ("TRANSOM_SPOIL", "tp_ack,fentry_ack,tp_segment_entered");
    let promise = Promise::with(spoiled);
    let ack = promise.of("ack");
    assert!(ack["tier"].is_null() && ack["refused"].to_string().contains("verifier"), "{ack}");
    let stories = told(spoiled);
    let told = acts(&stories).map(|(act, story)| (act.name, whats(story, act)));
    assert_same(told, SCRIPT.iter().map(|act| (act.name, promise.of_act(act))));
    assert!(stories.iter().flatten().all(|told| told.kind != Kind::Ack));
    assert!(stories.iter().flatten().any(|told| told.kind == Kind::Send));
}

/// The same in a higher tier; the state of an `ack` is the one after it there.
fn tells_the_same(tier: &str, without: &str) {
    let variable = ("TRANSOM_WITHOUT", without);
    let promise = Promise::with(variable);
    if promise.tier("ack") != tier {
        return skip(tier, &promise.refusal(tier));
    }
    let stories = told(variable);
    let told = acts(&stories).map(|(act, story)| (act.name, apart(whats(story, act))));
    let expected = SCRIPT.iter().map(|act| {
        let mut expected = promise.of_act(act);
        // The reset arrived in ESTABLISHED, and after it there is no connection to tell of.
        if let Some(at) = expected.iter().position(|what| what == "reset received") {
            expected.remove(at - 1);
        }
        (act.name, apart(expected))
    });
    assert_same(told, expected);
    let before = acts(by_tracepoints()).map(|(act, story)| (act.name, states(story)));
    assert_same(acts(&stories).map(|(act, story)| (act.name, states(story))), before);
    // Acknowledged, and told so: before in one tier, after in the other.
    let (before, after) = (acks(&by_tracepoints()[0]), acks(&stories[0]));
    assert!(before.contains(&"una 0 nxt 5000 cwnd 10 in flight 5 open".to_owned()), "{before:#?}");
    assert!(after.contains(&"una 2000 nxt 5000 cwnd 10 in flight 3 open".to_owned()), "{after:#?}");
}

/// Of an `owner` neither number nor place are the script's.
fn states(story: &[Told]) -> Vec<String> {
    let others = story.iter().filter(|told| !matches!(told.kind, Kind::Ack | Kind::Owner));
    others.map(|told| format!("{}: {}", told.what, told.state)).collect()
}

fn acks(story: &[Told]) -> Vec<String> {
    story.iter().filter(|told| told.kind == Kind::Ack).map(|told| told.state.clone()).collect()
}

#[test]
fn kprobes_tell_the_same_of_each_packet() {
    needs_probes!();
    tells_the_same("kprobe", "fentry");
}

#[test]
fn fentry_tells_the_same_of_each_packet() {
    needs_probes!();
    tells_the_same("fentry", "");
}

/// Where the kernel does not tell its types, no probe can be loaded.
const WITHOUT_TYPES: &str =
    "[ ! -d /sys/kernel/btf ] || mount -t tmpfs none /sys/kernel/btf; exec \"$@\"";

#[test]
fn polling_sees_each_connection_come_and_go_and_samples_it() {
    needs_root!();
    let mut puppet = Puppet::new();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.parquet");
    let program = transom();
    let mut recorder = puppet.host.command("unshare");
    recorder.args(["--mount", "sh", "-c", WITHOUT_TYPES, "sh"]).arg(program.get_program());
    let recorder = recorder.args(["record", "-o"]).arg(&file).stderr(Stdio::piped());
    let mut recorder = Ended(recorder.spawn().expect("unshare"));
    wait_for("the recorder to start", || {
        assert!(recorder.0.try_wait().unwrap().is_none(), "the recorder ended");
        file.exists()
    });
    play(&mut puppet);
    interrupt(&recorder.0);
    assert!(recorder.0.wait().unwrap().success());
    let stories = stories(&Trace::read(&file));
    let told = acts(&stories).map(|(act, story)| {
        let mut whats: Vec<&str> = story.iter().map(|told| told.what.as_str()).collect();
        whats.dedup();
        (act.name, whats)
    });
    let each = vec!["open existing 0 0 no 0", "sample", "close 0"];
    assert_same(told, SCRIPT.iter().map(|act| (act.name, each.clone())));
}

/// Killed when a test fails.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
