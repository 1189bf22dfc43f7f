//! The recorded script: acts of packets, each of which makes any kernel do the same, and what it
//! then does, event by event.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::thread::{JoinHandle, sleep};

use super::{Promise, TRACEPOINTS};
use transom_testbed::tuned::Setting;
use transom_testbed::{
    ACK, Namespace, Puppet, ROUND_TRIP, RST, SYN, device_drops, queue_drops, set_algorithm,
    wait_for,
};

/// The end of a word that stands for one or more of its kind in a row.
pub const MORE: &str = " ...";

/// What happens to one connection, and what is told of it.
pub struct Act {
    pub name: &'static str,
    play: fn(&mut Puppet),
    pub told: &'static [&'static str],
}

/// One after the other.
pub fn play(puppet: &mut Puppet) {
    for act in SCRIPT {
        eprintln!("act: {}", act.name);
        (act.play)(puppet);
    }
}

pub const SCRIPT: &[Act] = &[
    Act { name: "losses, a closed window, a timeout, a reset", play: losses, told: LOSSES },
    Act { name: "an end that leaves data unread", play: unread, told: UNREAD },
    Act { name: "a SYN that is not answered", play: unanswered, told: UNANSWERED },
    Act { name: "a connection from outside", play: from_outside, told: FROM_OUTSIDE },
    Act { name: "what came twice", play: twice, told: TWICE },
    Act { name: "the end of a burst is lost", play: lost_tail, told: LOST_TAIL },
    Act { name: "a burst is lost", play: lost_burst, told: LOST_BURST },
    Act { name: "a queue without room", play: full_queue, told: FULL_QUEUE },
    Act { name: "a device without room", play: full_device, told: FULL_DEVICE },
    Act { name: "a program that does not read", play: not_read, told: NOT_READ },
    Act { name: "another algorithm", play: other_algorithm, told: OTHER_ALGORITHM },
    Act { name: "a cap of ours", play: capped, told: CAPPED },
    Act { name: "another process", play: handed_over, told: HANDED_OVER },
];

/// Connects to the puppet as `reno`.
fn connect(puppet: &mut Puppet) -> TcpStream {
    let connecting = dial(&puppet.host);
    puppet.accept();
    ready(connecting.join().expect("it connects"))
}

fn ready(client: TcpStream) -> TcpStream {
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

/// The puppet gives up, having had the stream before this.
fn reset(puppet: &mut Puppet, client: &TcpStream, offset: u32) {
    puppet.flag(offset, RST | ACK);
    wait_for("the reset to arrive", || client.take_error().unwrap().is_some());
}

fn losses(puppet: &mut Puppet) {
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
    reset(puppet, &client, 8000);
}

const LOSSES: &[&str] = &[
    "open connect 0 0 yes 0",
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
];

/// A program that does not read what came is no clean end: the kernel resets.
fn unread(puppet: &mut Puppet) {
    let client = connect(puppet);
    puppet.say(0, &[9; 500]);
    wait_for("the data to arrive", || client.peek(&mut [0; 500]).is_ok_and(|n| n == 500));
    drop(client);
    puppet.wait("a reset", |segment| segment.has(RST));
}

const UNREAD: &[&str] = &[
    "open connect 0 0 yes 0",
    "state SYN_SENT ESTABLISHED",
    "ack 0",
    "state ESTABLISHED CLOSE",
    "close 0",
    "reset sent",
];

/// The puppet hears the second SYN only.
fn unanswered(puppet: &mut Puppet) {
    let connecting = dial(&puppet.host);
    puppet.wait("a SYN", |segment| segment.has(SYN));
    puppet.accept();
    let client = ready(connecting.join().expect("it connects"));
    reset(puppet, &client, 0);
}

const UNANSWERED: &[&str] = &[
    "open connect 0 0 no 0",
    "rto 1 timer",
    "ca_state open loss",
    "retransmit syn 1",
    "ca_state loss open",
    "state SYN_SENT ESTABLISHED",
    "ack 0",
    "reset received",
    "state ESTABLISHED CLOSE",
    "close 104",
];

fn from_outside(puppet: &mut Puppet) {
    let listener = puppet.host.inside(|| TcpListener::bind("10.78.0.1:9001")).expect("a port");
    puppet.dial(9001);
    let (client, _) = listener.accept().expect("it connected");
    let mut client = ready(client);
    write(&mut client, 1);
    puppet.wait_for_data(1000);
    // Long enough for one who only looks now and then.
    sleep(ROUND_TRIP);
    puppet.acknowledge(1000, 60_000, &[]);
    reset(puppet, &client, 1000);
}

const FROM_OUTSIDE: &[&str] = &[
    "open accept 0 0 yes 0",
    "state SYN_RECV ESTABLISHED",
    "send 1000 1",
    "ack 1000",
    "ack 0",
    "reset received",
    "state ESTABLISHED CLOSE",
    "close 104",
];

/// The puppet says that it has a segment twice.
fn twice(puppet: &mut Puppet) {
    let mut client = connect(puppet);
    write(&mut client, 2);
    puppet.wait_for_data(2000);
    puppet.acknowledge(1000, 60_000, &[]);
    puppet.acknowledge(1000, 60_000, &[(0, 1000)]);
    puppet.acknowledge(2000, 60_000, &[]);
    // Without SACK it is a duplicate only while something is in flight.
    write(&mut client, 1);
    puppet.wait_for_data(3000);
    puppet.acknowledge(2000, 60_000, &[]);
    puppet.acknowledge(3000, 60_000, &[]);
    reset(puppet, &client, 3000);
}

const TWICE: &[&str] = &[
    "open connect 0 0 yes 0",
    "state SYN_SENT ESTABLISHED",
    "send 1000 1",
    "send 1000 1",
    "ack 1000",
    "sack yes",
    "dup_ack 1 yes",
    "ack 0",
    "ack 1000",
    "send 1000 1",
    "dup_ack 1 no",
    "ack 0",
    "ack 1000",
    "ack 0",
    "reset received",
    "state ESTABLISHED CLOSE",
    "close 104",
];

/// Two round trips without an answer are a tail loss probe's time (RFC 8985).
fn lost_tail(puppet: &mut Puppet) {
    let mut client = connect(puppet);
    puppet.host.sysctl("net/ipv4/tcp_early_retrans", "3");
    write(&mut client, 2);
    puppet.wait_for_data(2000);
    puppet.wait_for_data(2000);
    puppet.acknowledge(2000, 60_000, &[]);
    puppet.host.sysctl("net/ipv4/tcp_early_retrans", "0");
    reset(puppet, &client, 2000);
}

const LOST_TAIL: &[&str] = &[
    "open connect 0 0 yes 0",
    "state SYN_SENT ESTABLISHED",
    "send 1000 1",
    "send 1000 1",
    "retransmit tlp 1",
    "ack 2000",
    "ack 0",
    "reset received",
    "state ESTABLISHED CLOSE",
    "close 104",
];

/// After the timer, the ACKs that return bring the rest.
fn lost_burst(puppet: &mut Puppet) {
    let mut client = connect(puppet);
    write(&mut client, 3);
    puppet.wait_for_data(3000);
    puppet.wait_for_data(1000);
    puppet.acknowledge(1000, 60_000, &[]);
    puppet.wait_for_data(3000);
    puppet.acknowledge(3000, 60_000, &[]);
    reset(puppet, &client, 3000);
}

const LOST_BURST: &[&str] = &[
    "open connect 0 0 yes 0",
    "state SYN_SENT ESTABLISHED",
    "send 1000 1",
    "send 1000 1",
    "send 1000 1",
    "rto 1 timer",
    "ca_state open loss",
    "retransmit rto 1",
    "ack 1000",
    "retransmit slow_start 1",
    "retransmit slow_start 1",
    "ack 2000",
    "ca_state loss open",
    "ack 0",
    "reset received",
    "state ESTABLISHED CLOSE",
    "close 104",
];

/// The queue drops one segment, and takes it again with the next.
fn full_queue(puppet: &mut Puppet) {
    let mut client = connect(puppet);
    puppet.host.tc("qdisc replace dev wire root handle 10: pfifo limit 0");
    write(&mut client, 1);
    wait_for("a drop", || queue_drops(&puppet.host, "wire") > 0);
    puppet.host.tc("qdisc replace dev wire root handle 10: pfifo limit 100");
    write(&mut client, 1);
    puppet.wait_for_data(2000);
    puppet.acknowledge(2000, 60_000, &[]);
    reset(puppet, &client, 2000);
}

const FULL_QUEUE: &[&str] = &[
    "open connect 0 0 yes 0",
    "state SYN_SENT ESTABLISHED",
    "send 1000 1",
    "local_congestion",
    "ca_state open cwr",
    "send 1000 1",
    "ack 2000",
    "ca_state cwr open",
    "ack 0",
    "reset received",
    "state ESTABLISHED CLOSE",
    "close 104",
];

/// The ring of the device holds one segment, and a queue that would keep the second is not there.
fn full_device(puppet: &mut Puppet) {
    let mut client = connect(puppet);
    puppet.host.ip("link set wire txqueuelen 1");
    puppet.host.tc("qdisc replace dev wire root noqueue");
    let before = device_drops(&puppet.host, "wire");
    write(&mut client, 2);
    wait_for("a refusal", || device_drops(&puppet.host, "wire") > before);
    puppet.wait_for_data(1000);
    puppet.acknowledge(1000, 60_000, &[]);
    puppet.wait_for_data(2000);
    puppet.acknowledge(2000, 60_000, &[]);
    puppet.host.ip("link set wire txqueuelen 500");
    reset(puppet, &client, 2000);
}

const FULL_DEVICE: &[&str] = &[
    "open connect 0 0 yes 0",
    "state SYN_SENT ESTABLISHED",
    "send 1000 1",
    "send 1000 1",
    "local_congestion",
    "ca_state open cwr",
    "ack 1000",
    "ack 1000",
    "ca_state cwr open",
    "ack 0",
    "reset received",
    "state ESTABLISHED CLOSE",
    "close 104",
];

/// The puppet fills the window that it is offered.
fn not_read(puppet: &mut Puppet) {
    let client = connect(puppet);
    let mut window = 1000;
    while window > 0 {
        puppet.say(0, &vec![9; window.min(1000)]);
        let answer = puppet.wait("an ACK", |segment| segment.has(ACK) && segment.payload == 0);
        window = usize::from(answer.window);
    }
    reset(puppet, &client, 0);
}

const NOT_READ: &[&str] = &[
    "open connect 0 0 yes 0",
    "state SYN_SENT ESTABLISHED",
    "ack 0 ...",
    "zero_window sent",
    "ack 0 ...",
    "reset received",
    "state ESTABLISHED CLOSE",
    "close 104",
];

fn other_algorithm(puppet: &mut Puppet) {
    let mut client = connect(puppet);
    set_algorithm(&client, "cubic");
    write(&mut client, 1);
    puppet.wait_for_data(1000);
    puppet.acknowledge(1000, 60_000, &[]);
    reset(puppet, &client, 1000);
}

const OTHER_ALGORITHM: &[&str] = &[
    "open connect 0 0 yes 0",
    "state SYN_SENT ESTABLISHED",
    "send 1000 1",
    "algorithm",
    "ack 1000",
    "ack 0",
    "reset received",
    "state ESTABLISHED CLOSE",
    "close 104",
];

/// `transom tune` limits the window; where it cannot, the program chooses the same algorithm itself.
fn capped(puppet: &mut Puppet) {
    let mut client = connect(puppet);
    let words = ["--algorithm", "cubic", "--cap", "37"];
    let setting =
        Promise::with(TRACEPOINTS).caps().then(|| Setting::of(puppet.host.name(), &words));
    if setting.is_none() {
        set_algorithm(&client, "cubic");
    }
    write(&mut client, 1);
    puppet.wait_for_data(1000);
    puppet.acknowledge(1000, 60_000, &[]);
    reset(puppet, &client, 1000);
    drop(setting);
}

const CAPPED: &[&str] = &[
    "open connect 0 0 yes 0",
    "state SYN_SENT ESTABLISHED",
    "send 1000 1",
    "algorithm",
    "clamp 4294967295 37",
    "action by_hand 0 cubic 0 37",
    "ack 1000",
    "ack 0",
    "reset received",
    "state ESTABLISHED CLOSE",
    "close 104",
];

/// Another process writes to the socket.
fn handed_over(puppet: &mut Puppet) {
    let mut client = connect(puppet);
    write(&mut client, 1);
    puppet.wait_for_data(1000);
    puppet.acknowledge(1000, 60_000, &[]);
    let socket = OwnedFd::from(client.try_clone().unwrap());
    let mut other = Command::new("sh")
        .args(["-c", "while read -r _; do printf %01000d 7; done"])
        .stdin(Stdio::piped())
        .stdout(Stdio::from(socket))
        .spawn()
        .expect("sh");
    let mut words = other.stdin.take().expect("piped");
    for end in [2000, 3000, 4000] {
        words.write_all(b"send\n").unwrap();
        puppet.wait_for_data(end);
        puppet.acknowledge(end, 60_000, &[]);
        // Owners that are known are not looked for until a segment says otherwise.
        sleep(ROUND_TRIP);
    }
    drop(words);
    other.wait().expect("our child");
    reset(puppet, &client, 4000);
}

const HANDED_OVER: &[&str] = &[
    "open connect 0 0 yes 0",
    "state SYN_SENT ESTABLISHED",
    "send 1000 1",
    "ack 1000",
    "send 1000 1",
    "ack 1000",
    "send 1000 1",
    "ack 1000",
    "send 1000 1",
    "ack 1000",
    "ack 0",
    "reset received",
    "state ESTABLISHED CLOSE",
    "close 104",
    "owner ...",
];
