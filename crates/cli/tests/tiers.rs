//! The same packets give the same events, whichever tier of probes the kernel offers; and what
//! `transom check` promises is what a recording then has.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread::{JoinHandle, sleep};

use transom_event::fields::{self, Value};
use transom_event::{CaState, Event, Kind};
use transom_testbed::{
    ACK, Namespace, Puppet, ROUND_TRIP, RST, Recording, needs_probes, set_algorithm, skip, transom,
    wait_for,
};

/// Connects to the puppet as `reno`.
fn connect(puppet: &mut Puppet) -> TcpStream {
    let connecting = dial(&puppet.host);
    puppet.accept();
    let client = connecting.join().expect("it connects");
    set_algorithm(&client, "reno");
    client.set_nodelay(true).unwrap();
    client
}

fn dial(host: &Namespace) -> JoinHandle<TcpStream> {
    host.spawn(|| TcpStream::connect(Puppet::address()).expect("the puppet answers"))
}

/// One segment each.
fn write(client: &mut TcpStream, segments: usize) {
    (0..segments).for_each(|_| client.write_all(&[7; 1000]).unwrap());
}

/// What happens to one connection, the same each time.
fn play(puppet: &mut Puppet) {
    let mut client = connect(puppet);
    write(&mut client, 5);
    puppet.wait_for_data(5000);
    sleep(ROUND_TRIP);
    puppet.acknowledge(2000, 60_000, &[]);
    // The third segment is lost, and three after it arrive.
    write(&mut client, 1);
    puppet.wait_for_data(6000);
    puppet.acknowledge(2000, 60_000, &[(3000, 4000)]);
    puppet.acknowledge(2000, 60_000, &[(3000, 5000)]);
    puppet.acknowledge(2000, 60_000, &[(3000, 6000)]);
    puppet.wait_for_data(3000);
    puppet.acknowledge(6000, 60_000, &[]);
    // The window closes and opens.
    write(&mut client, 1);
    puppet.wait_for_data(7000);
    puppet.acknowledge(7000, 0, &[]);
    puppet.acknowledge(7000, 60_000, &[]);
    // Nobody answers until the timer expires.
    write(&mut client, 1);
    puppet.wait_for_data(8000);
    puppet.wait_for_data(8000);
    puppet.acknowledge(8000, 60_000, &[]);
    // The other way.
    puppet.say(8000, &[9; 500]);
    client.read_exact(&mut [0; 500]).unwrap();
    puppet.wait("the ACK of what it said", |segment| segment.has(ACK) && segment.payload == 0);
    puppet.flag(8000, RST | ACK);
    wait_for("the reset to arrive", || client.take_error().unwrap().is_some());
    // A program that does not read what came is no clean end: the kernel resets.
    let client = connect(puppet);
    puppet.say(0, &[9; 500]);
    wait_for("the data to arrive", || client.peek(&mut [0; 500]).is_ok_and(|n| n == 500));
    drop(client);
    puppet.wait("a reset", |segment| segment.has(RST));
}

/// An event without what time makes of it: what happened, and the state that it carries.
struct Told {
    kind: Kind,
    what: String,
    state: String,
}

impl Told {
    fn of(event: &Event, first: u32) -> Told {
        let own = fields::fields(event)
            .filter(|(name, _)| !["reset_reason", "seq", "cwnd_before"].contains(name))
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

/// What is recorded of the play, a connection after the other.
fn told(variable: Variable<'_>) -> Vec<Told> {
    let mut puppet = Puppet::new();
    let recording = Recording::start_with(variable, &["--netns", puppet.host.name()]);
    play(&mut puppet);
    let trace = recording.finish();
    let mut story = Vec::new();
    for open in trace.of(Kind::Open) {
        let events = trace.only(open.cookie);
        let first = events.iter().find_map(|event| event.state()).map_or(0, |state| state.snd_una);
        story.extend(events.iter().map(|event| Told::of(event, first)));
    }
    story
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

    /// Whether some probe yields what begins like this.
    fn has(&self, what: &str) -> bool {
        let probes = self.0["probes"].as_array().expect("a list of probes");
        probes.iter().any(|probe| {
            let yields = probe["yields"].as_str().unwrap_or_default();
            let is_there = probe["tier"].as_str().is_some_and(|tier| tier != "none");
            is_there && yields.split(", ").any(|word| what.starts_with(word))
        })
    }
}

/// The play, event by event: what the packets and the program make any kernel do.
const PLAY: &[&str] = &[
    "open connect 0 0 yes",
    "state SYN_SENT ESTABLISHED",
    "send 1000 1",
    "send 1000 1",
    "send 1000 1",
    "send 1000 1",
    "send 1000 1",
    "ack 2000",
    "send 1000 1",
    "sack no",
    "dup_ack 1 yes",
    "ack 0",
    "ca_state open disorder",
    "sack no",
    "dup_ack 2 yes",
    "ack 0",
    "sack no",
    "dup_ack 3 yes",
    "ack 0",
    "ca_state disorder recovery",
    "retransmit fast 1",
    "ack 4000",
    "ca_state recovery open",
    "send 1000 1",
    "zero_window received",
    "ack 1000",
    "ack 0",
    "send 1000 1",
    "rto 1 timer",
    "ca_state open loss",
    "retransmit rto 1",
    "ack 1000",
    "ca_state loss open",
    "ack 0",
    "ack 0",
    "reset received",
    "state ESTABLISHED CLOSE",
    "close 104",
    "open connect 0 0 yes",
    "state SYN_SENT ESTABLISHED",
    "ack 0",
    "state ESTABLISHED CLOSE",
    "close 0",
    "reset sent",
];

/// What this kernel can tell of the play, by the word of `transom check`.
fn promised(variable: Variable<'_>) -> Vec<&'static str> {
    let promise = Promise::with(variable);
    PLAY.iter().filter(|what| promise.has(what)).copied().collect()
}

fn whats(story: &[Told]) -> Vec<&str> {
    story.iter().map(|told| told.what.as_str()).collect()
}

/// An `ack` comes before what the kernel makes of it in one tier, and after it in another.
fn apart<'a>(whats: &[&'a str]) -> (Vec<&'a str>, Vec<&'a str>) {
    whats.iter().partition(|what| what.starts_with("ack "))
}

#[test]
fn tracepoints_tell_what_check_promises_of_each_packet() {
    needs_probes!();
    let story = told(TRACEPOINTS);
    assert_eq!(whats(&story), promised(TRACEPOINTS));
}

#[test]
fn a_program_that_the_kernel_refuses_is_named_and_the_rest_works() {
    needs_probes!();
    let spoiled = ("TRANSOM_SPOIL", "tp_ack,fentry_ack,tp_segment_entered");
    let promise = Promise::with(spoiled);
    let ack = promise.of("ack");
    assert!(ack["tier"].is_null() && ack["refused"].to_string().contains("verifier"), "{ack}");
    let story = told(spoiled);
    assert_eq!(whats(&story), promised(spoiled));
    assert!(whats(&story).iter().any(|what| what.starts_with("send ")));
    assert!(!whats(&story).iter().any(|what| what.starts_with("ack ")));
}

/// The same in a higher tier; the state of an `ack` is the one after it there.
fn tells_the_same(tier: &str, without: &str) {
    let variable = ("TRANSOM_WITHOUT", without);
    let promise = Promise::with(variable);
    if promise.tier("ack") != tier {
        return skip(tier, &promise.refusal(tier));
    }
    let (below, story) = (told(TRACEPOINTS), told(variable));
    let mut expected = promised(variable);
    // The reset arrived in ESTABLISHED, and after it there is no connection to tell of.
    let reset = expected.iter().position(|what| *what == "reset received");
    expected.remove(reset.expect("every tier tells resets") - 1);
    assert_eq!(apart(&whats(&story)), apart(&expected));
    let states = |story: &[Told]| -> Vec<String> {
        let others = story.iter().filter(|told| !matches!(told.kind, Kind::Ack | Kind::Rto));
        others.map(|told| format!("{}: {}", told.what, told.state)).collect()
    };
    assert_eq!(states(&story), states(&below));
    // Acknowledged, and told so: before in one tier, after in the other.
    let acks = |story: &[Told]| -> Vec<String> {
        story.iter().filter(|told| told.kind == Kind::Ack).map(|told| told.state.clone()).collect()
    };
    let (before, after) = (acks(&below), acks(&story));
    assert!(before.contains(&"una 0 nxt 5000 cwnd 10 in flight 5 open".to_owned()), "{before:#?}");
    assert!(after.contains(&"una 2000 nxt 5000 cwnd 10 in flight 3 open".to_owned()), "{after:#?}");
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
