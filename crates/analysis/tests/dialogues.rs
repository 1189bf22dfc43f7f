//! Who kept the other side waiting, where requests and answers take turns.

mod sender;

use std::collections::BTreeMap;

use sender::{MS, MSS, open_event};
use transom_analysis::{Analysis, Cause, Limit, Live, Recording, analyse};
use transom_event::{Body, CaState, Event, Kind, Place, State, TcpState, UNSET, flags};

const RTT: u64 = 20 * MS;
const LONG: u64 = 800 * MS;
const LARGE: u32 = 60 * MSS;
const SMALL: u32 = 300;

/// One side of a dialogue over a path with room for all that is sent.
struct Dialogue {
    events: Vec<Event>,
    state: State,
    now: u64,
    /// Whether an `ack` tells the state after it (fentry), not the one that it met (tracepoint).
    after: bool,
    /// Bytes that came before those in front of them.
    behind_gap: u32,
}

impl Dialogue {
    fn new(after: bool) -> Dialogue {
        let state = State {
            cwnd: 80,
            ssthresh: i32::MAX as u32,
            clamp: UNSET,
            snd_wnd: 1 << 20,
            rcv_wnd: 1 << 20,
            srtt_us: 20_000,
            min_rtt_us: 20_000,
            rto_us: 220_000,
            pacing_rate: u64::MAX,
            mss: MSS as u16,
            ca_state: CaState::Open as u8,
            tcp_state: TcpState::Established as u8,
            ..State::default()
        };
        Dialogue { events: vec![open_event(0, 2)], state, now: MS, after, behind_gap: 0 }
    }

    fn event(&mut self, kind: Kind, aux: [u32; 2], flags: u8) {
        let body = Body::State(State { flags, ..self.state });
        let (time_ns, place) = (self.now, Place::RcvEstablished);
        self.events.push(Event { time_ns, kind, place, aux, body, ..self.events[0] });
    }

    fn waits(&mut self, ns: u64) {
        self.now += ns;
    }

    fn sends(&mut self, bytes: u32) {
        let segments = bytes.div_ceil(MSS);
        self.event(Kind::Send, [bytes, segments], 0);
        self.state.snd_nxt += bytes;
        self.state.packets_out += segments;
    }

    /// A segment that acknowledges all that was sent, and brings so much, which the program reads
    /// with all that waited for it.
    fn arrives(&mut self, bytes: u32) {
        let brought = bytes + self.behind_gap;
        self.acknowledged(|side| {
            side.state.rcv_nxt += brought;
            (side.behind_gap, side.state.recv_queue) = (0, 0);
        });
    }

    /// A segment that acknowledges, and then one with the next request.
    fn arrives_behind_its_acknowledgement(&mut self) {
        self.arrives(0);
        self.waits(MS / 10);
        self.arrives(SMALL);
    }

    /// One whose data cannot be read: what comes before them is missing.
    fn arrives_behind_a_gap(&mut self, bytes: u32) {
        self.acknowledged(|side| {
            side.behind_gap += bytes;
            side.state.recv_queue += 2 * bytes;
        });
    }

    /// One that acknowledges all but the last of what was sent, and brings a request.
    fn arrives_before_the_last_answers(&mut self, unacknowledged: u32) {
        let acked = self.state.outstanding() - unacknowledged;
        self.acknowledges(acked, |side| side.state.rcv_nxt += SMALL);
    }

    /// One that acknowledges all, and so lets the piece that was held back leave.
    fn acknowledged_and_sends(&mut self, held_back: u32) {
        let acked = self.state.outstanding();
        if self.after {
            // It is told on the way out, after what it made the kernel do.
            self.state.snd_una += acked;
            self.state.packets_out = 0;
            self.sends(held_back);
            self.state.unsent = 0;
            self.event(Kind::Ack, [acked, 80], flags::AFTER);
        } else {
            self.arrives(0);
            self.sends(held_back);
            self.state.unsent = 0;
        }
    }

    fn acknowledged(&mut self, takes_data: impl Fn(&mut Dialogue)) {
        self.acknowledges(self.state.outstanding(), takes_data);
    }

    fn acknowledges(&mut self, acked: u32, takes_data: impl Fn(&mut Dialogue)) {
        if !self.after {
            self.event(Kind::Ack, [acked, 80], 0);
        }
        self.state.snd_una += acked;
        self.state.packets_out = self.state.outstanding().div_ceil(MSS);
        takes_data(self);
        if self.after {
            self.event(Kind::Ack, [acked, 80], flags::AFTER);
        }
    }

    fn analysis(&self) -> Analysis {
        analyse(&Recording::from_iter(&self.events)).remove(0)
    }
}

/// A server that takes its time for each answer.
fn slow_server(thinks: u64, after: bool) -> Dialogue {
    let mut server = Dialogue::new(after);
    for _ in 0..10 {
        server.arrives(SMALL);
        server.waits(thinks);
        server.sends(LARGE);
        server.waits(RTT);
        server.arrives(0);
        server.waits(RTT);
    }
    server
}

/// A client that sends much and hears of a slow server first that it came, then what it thinks of it.
fn client_of_a_slow_server(after: bool, answer: fn(&mut Dialogue)) -> Dialogue {
    let mut client = Dialogue::new(after);
    for _ in 0..20 {
        client.sends(LARGE);
        client.waits(RTT);
        client.arrives(0);
        client.waits(LONG);
        answer(&mut client);
        client.waits(MS);
    }
    client
}

/// An answer in one segment, and one whose first segment is lost and comes again later.
const ANSWERS: [fn(&mut Dialogue); 2] = [
    |client| client.arrives(SMALL),
    |client| {
        client.arrives_behind_a_gap(SMALL);
        client.waits(MS);
        client.arrives(SMALL);
    },
];

/// The client with each of the answers, in every tier.
fn clients() -> impl Iterator<Item = Dialogue> {
    let tiers = ANSWERS.into_iter().flat_map(|answer| [(false, answer), (true, answer)]);
    tiers.map(|(after, answer)| client_of_a_slow_server(after, answer))
}

#[test]
fn what_a_server_thinks_is_its_own_time_in_every_tier() {
    for (thinks, after) in [(LONG, false), (LONG, true), (1200 * MS, false), (1200 * MS, true)] {
        let analysis = slow_server(thinks, after).analysis();
        let share = |limit| analysis.limits.share(limit);
        let own = share(Limit::Application) + share(Limit::Idle);
        assert!(own > 0.9, "{after}: {:?}", analysis.limits.total_ns);
        assert!((0.01..0.05).contains(&share(Limit::Receiving)), "{:?}", analysis.limits.total_ns);
        let text = analysis.verdict.text();
        assert_eq!(analysis.verdict.cause, Cause::Application, "{text}");
        assert!(text.contains("slow disk"), "{text}");
    }
}

/// A client that writes each request in two pieces: the second waits for the acknowledgement of the first,
/// which the other side delays, unless TCP_NODELAY is set.
fn client_of_two_writes(holds_back: bool, after: bool) -> Dialogue {
    let mut client = Dialogue::new(after);
    for _ in 0..40 {
        let at_once = if holds_back { SMALL } else { 2 * SMALL };
        client.state.unsent = at_once;
        client.sends(at_once);
        client.state.unsent = 2 * SMALL - at_once;
        client.waits(45 * MS);
        if holds_back {
            client.acknowledged_and_sends(SMALL);
            client.waits(5 * MS);
        }
        client.arrives(SMALL);
        client.waits(MS / 10);
    }
    client
}

#[test]
fn a_piece_that_waits_for_an_acknowledgement_is_not_nothing_to_send() {
    for after in [false, true] {
        let analysis = client_of_two_writes(true, after).analysis();
        let text = analysis.verdict.text();
        assert_eq!(analysis.verdict.cause, Cause::Application, "{text}");
        assert!(text.contains("90% of the time such a piece waited"), "{after}: {text}");
        assert!(text.contains("TCP_NODELAY") && !text.contains("nothing to send"), "{text}");
        let text = client_of_two_writes(false, after).analysis().verdict.text();
        assert!(text.contains("nothing to send") && !text.contains("Nagle"), "{after}: {text}");
    }
}

/// A client that writes each request as soon as it has the answer, and leaves it corked: the kernel sends it
/// after one RTO, 220 ms here. What leaves earlier or later, or fills a segment, waited for no cork.
#[test]
fn waits_as_long_as_the_timer_of_a_cork_are_told() {
    for after in [false, true] {
        let text = |waits: u64, bytes: u32| {
            let mut client = Dialogue::new(after);
            for _ in 0..20 {
                client.waits(waits);
                client.sends(bytes);
                client.waits(RTT);
                client.arrives(SMALL);
            }
            let analysis = client.analysis();
            assert_eq!(analysis.verdict.cause, Cause::Application, "{}", analysis.verdict.text());
            analysis.verdict.text()
        };
        let corked = text(222 * MS, SMALL);
        assert!(corked.contains("held it back") && corked.contains("uncork"), "{after}: {corked}");
        for other in [text(200 * MS, SMALL), text(260 * MS, SMALL), text(222 * MS, MSS)] {
            assert!(other.contains("nothing to send ") && !other.contains("cork"), "{other}");
        }
    }
}

#[test]
fn what_a_client_waits_for_an_answer_is_told_as_such() {
    for client in clients() {
        let analysis = client.analysis();
        let receiving = analysis.limits.share(Limit::Receiving);
        assert!(receiving > 0.9, "{}: {:?}", client.after, analysis.limits.total_ns);
        let text = analysis.verdict.text();
        assert_eq!(analysis.verdict.cause, Cause::Application, "{text}");
        assert!(analysis.verdict.share > 0.9, "{}", analysis.verdict.share);
        assert!(text.contains("until data of the other side came"), "{text}");
        assert!(text.contains("record there"), "{text}");
    }
}

/// A server that answers at once, so many bytes to each request, and is asked again as soon as its answer
/// is there.
fn server_of_an_eager_client(answer: u32, after: bool) -> Dialogue {
    let mut server = Dialogue::new(after);
    server.arrives(SMALL);
    for _ in 0..200 {
        server.waits(MS / 20);
        server.sends(answer);
        server.waits(RTT);
        if answer > MSS {
            server.arrives_behind_its_acknowledgement();
        } else {
            server.arrives(SMALL);
        }
    }
    server
}

/// The same, of whose answers four are on their way at any time.
fn server_of_a_pipelining_client(after: bool) -> Dialogue {
    let mut server = Dialogue::new(after);
    for n in 0..800 {
        let on_their_way = server.state.outstanding().min(3 * SMALL);
        server.arrives_before_the_last_answers(on_their_way);
        server.waits(MS / 20);
        server.sends(SMALL);
        server.waits(if n < 4 { MS } else { RTT / 4 });
    }
    server
}

#[test]
fn a_server_that_waits_for_the_next_request_is_told_so_and_no_disk_is_blamed() {
    for after in [false, true] {
        let answers = [SMALL, 5 * MSS].map(|answer| server_of_an_eager_client(answer, after));
        for server in answers.into_iter().chain([server_of_a_pipelining_client(after)]) {
            let verdict = server.analysis().verdict;
            let text = verdict.text();
            assert_eq!(verdict.cause, Cause::Application, "{text}");
            assert!(text.contains("of it until data of the other side came"), "{text}");
            assert!(text.contains("ask for more at once") && !text.contains("disk"), "{text}");
        }
    }
}

/// Two hundred requests at once for a page, which is then read for long before the next is asked for.
#[test]
fn a_long_wait_is_the_other_sides_however_many_quick_ones_are_beside_it() {
    for after in [false, true] {
        let mut server = server_of_an_eager_client(SMALL, after);
        server.waits(MS / 20);
        server.sends(SMALL);
        server.waits(RTT);
        server.arrives(0);
        server.waits(30_000 * MS);
        server.arrives(SMALL);
        server.waits(MS / 20);
        server.sends(SMALL);
        let verdict = server.analysis().verdict;
        let text = verdict.text();
        assert_eq!(verdict.cause, Cause::Application, "{text}");
        assert!(text.contains("of it until data of the other side came"), "{text}");
        assert!(text.contains("record there") && !text.contains("ask for more"), "{text}");
    }
}

#[test]
fn a_program_that_sends_in_its_own_time_does_not_wait_for_what_comes_meanwhile() {
    // A camera that is steered now and then: the two know nothing of one another.
    for after in [false, true] {
        let mut camera = Dialogue::new(after);
        for n in 0..400 {
            camera.sends(SMALL);
            camera.waits(RTT);
            camera.arrives(if n % 2 == 0 { SMALL } else { 0 });
            camera.waits(2 * RTT);
        }
        let text = camera.analysis().verdict.text();
        assert!(!text.contains("until data of the other side came"), "{text}");
    }
}

/// So many pieces of two segments, each so long after the one before, which are acknowledged or come.
fn at_a_rate(side: &mut Dialogue, pieces: u32, every_ns: u64, piece: fn(&mut Dialogue)) {
    for _ in 0..pieces {
        side.waits(every_ns);
        piece(side);
    }
}

/// A client that asks for the next as soon as it has the answer: both have so many pieces, which take so
/// long each. The answer begins so long after the request is there.
fn client_over_a_path(
    after: bool,
    [asked, answered]: [u32; 2],
    [up_ns, down_ns]: [u64; 2],
    thinks: u64,
) -> Analysis {
    let mut client = Dialogue::new(after);
    for _ in 0..20 {
        client.sends(2 * MSS * asked);
        at_a_rate(&mut client, asked, up_ns, |client| client.acknowledges(2 * MSS, |_| {}));
        client.waits(thinks);
        client.arrives(2 * MSS);
        at_a_rate(&mut client, answered - 1, down_ns, |client| client.arrives(2 * MSS));
        client.waits(MS / 20);
    }
    client.analysis()
}

#[test]
fn what_a_slow_path_takes_for_requests_and_answers_is_blamed_on_no_program() {
    let (slow, fast) = ([24 * MS; 2], [MS / 10; 2]);
    for after in [false, true] {
        let said = |pieces, every_ns, thinks, cause| {
            let verdict = client_over_a_path(after, pieces, every_ns, thinks).verdict;
            let text = verdict.text();
            assert_eq!(verdict.cause, cause, "{text}");
            text
        };
        for pieces in [[5, 1], [5, 7]] {
            let text = said(pieces, slow, MS, Cause::FullPath);
            assert!(text.contains("in turn") && text.contains("path is full"), "{text}");
            assert!(!text.contains("record there") && !text.contains("disk"), "{text}");
            let comes = text.contains("the other side's was coming");
            assert_eq!(comes, pieces[1] > 1, "{text}");
        }
        // The same over a fast path, to a program that takes as long for its answer.
        let text = said([5, 1], fast, 120 * MS, Cause::Application);
        assert!(text.contains("Look at the program on the other side"), "{text}");
        // Answers that come slowly while requests do not leave slowly: the path, or who writes them.
        let text = said([2, 7], [RTT / 2, 24 * MS], MS, Cause::OtherSide);
        assert!(text.contains("path's rate, or that at which the other side writes"), "{text}");
    }
}

/// The acknowledgement of a single segment may wait for its timer over there.
#[test]
fn a_delayed_acknowledgement_is_no_slow_path() {
    for after in [false, true] {
        let mut client = Dialogue::new(after);
        for _ in 0..20 {
            client.sends(SMALL);
            client.waits(65 * MS);
            client.arrives(0);
            client.waits(5 * MS);
            client.arrives(SMALL);
            client.waits(MS / 20);
        }
        let verdict = client.analysis().verdict;
        let text = verdict.text();
        assert_eq!(verdict.cause, Cause::Application, "{text}");
        assert!(text.contains("Look at the program on the other side"), "{text}");
    }
}

/// Forty answers, each of which one side lets wait for so long: this one before it asks, or the other one
/// before it answers, asked or not.
fn downloads(after: bool, asks_after: u64, answers_after: u64, is_asked: bool) -> Analysis {
    let mut client = Dialogue::new(after);
    for _ in 0..40 {
        if is_asked {
            client.sends(SMALL);
        }
        client.waits(answers_after);
        client.arrives(LARGE);
        client.waits(asks_after);
        if !is_asked {
            client.sends(SMALL);
            client.waits(RTT);
            client.arrives(0);
        }
    }
    client.analysis()
}

#[test]
fn the_time_before_a_download_is_that_of_the_side_which_asks_for_it() {
    let long = 600_000 * MS;
    for after in [false, true] {
        let own = downloads(after, long, RTT, true).verdict;
        let text = own.text();
        assert_eq!(own.cause, Cause::Application, "{after}: {text}");
        // What the last arrival brings is told by the event after it, where an `ack` meets the state before.
        let times = if after { "39 times" } else { "38 times" };
        assert!(
            text.contains(&format!("nor asked for more, {times}")) && own.share > 0.95,
            "{text}"
        );
        assert!(text.contains("the program here"), "{text}");
        // One that takes so long to answer, and one that tells what nobody asked for.
        for other in [downloads(after, MS, long, true), downloads(after, MS, long, false)] {
            let text = other.verdict.text();
            assert_eq!(other.verdict.cause, Cause::OtherSide, "{after}: {text}");
            assert!(!text.contains("nor asked for more"), "{text}");
        }
    }
}

/// A download that is asked for once, or comes without, on a connection that is open for longer.
fn one_download(after: bool, is_asked: bool, before: u64, behind: u64) -> Analysis {
    download_in(10, after, is_asked, before, behind)
}

/// In so many parts, a round trip apart.
fn download_in(parts: u32, after: bool, is_asked: bool, before: u64, behind: u64) -> Analysis {
    let mut client = Dialogue::new(after);
    client.state.tcp_state = TcpState::SynSent as u8;
    let opened = [TcpState::SynSent as u32, TcpState::Established as u32];
    client.event(Kind::State, opened, 0);
    client.state.tcp_state = TcpState::Established as u8;
    client.waits(before);
    if is_asked {
        client.sends(SMALL);
        client.waits(RTT);
    }
    for _ in 0..parts {
        client.arrives(20 / parts * MSS);
        client.waits(RTT);
    }
    client.waits(behind);
    // The FIN of the other side waits for its reader, and is no data.
    client.state.recv_queue += 832;
    let closed = [TcpState::Established as u32, TcpState::CloseWait as u32];
    client.event(Kind::State, closed, 0);
    client.analysis()
}

#[test]
fn a_download_is_not_judged_by_the_time_before_and_after_it() {
    for after in [false, true] {
        for (is_asked, cause) in [(true, Cause::Application), (false, Cause::OtherSide)] {
            let verdict = one_download(after, is_asked, 3000 * MS, 9000 * MS).verdict;
            let text = verdict.text();
            assert_eq!(verdict.cause, cause, "{after}: {text}");
            assert!(text.contains("3.00 s before its first data and 9."), "{after}: {text}");
            let took = if is_asked { "that took 200 ms" } else { "that took 180 ms" };
            assert!(text.contains(took), "{text}");
            assert_eq!(verdict.remedy, None, "{text}");
            // One that takes most of the time.
            let text = one_download(after, is_asked, 50 * MS, 50 * MS).verdict.text();
            assert!(text.contains("Record there") && !text.contains("before its first"), "{text}");
        }
    }
}

#[test]
fn a_download_that_came_in_one_moment_has_no_rate() {
    for after in [false, true] {
        let verdict = download_in(1, after, false, 3000 * MS, 9000 * MS).verdict;
        let text = verdict.text();
        assert!(text.contains("that came at once, and the program here kept up"), "{text}");
        assert!(!text.contains("bit/s"), "{text}");
    }
}

#[test]
fn a_connection_that_is_watched_is_judged_as_its_recording() {
    let dialogues = [slow_server(LONG, false), slow_server(LONG, true)];
    for dialogue in dialogues.into_iter().chain(clients()) {
        let mut live = Live::default();
        let mut spent: BTreeMap<Limit, u64> = BTreeMap::new();
        for event in &dialogue.events {
            let span = live.push(event).and_then(|gained| gained.span);
            if let Some(span) = span {
                *spent.entry(span.limit).or_default() += span.length_ns();
            }
        }
        if let Some(span) = live.waited() {
            *spent.entry(span.limit).or_default() += span.length_ns();
        }
        let recorded = dialogue.analysis().limits.total_ns;
        let apart = |limit| {
            let of = |spent: &BTreeMap<Limit, u64>| spent.get(&limit).copied().unwrap_or(0);
            of(&spent).abs_diff(of(&recorded))
        };
        // What passes before the first event with a state has no limit while it is watched.
        assert!(Limit::ALL.into_iter().all(|limit| apart(limit) <= MS), "{spent:?} {recorded:?}");
    }
}
