//! The model, the keys and the drawn screens, end to end but without a terminal.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use proptest::prelude::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use transom_analysis::Limit;
use transom_event::{
    Body, Event, Kind, LossCause, Names, Open, Place, Raw, RtoCause, State, TcpState,
};

use super::app::{App, Next, Status, View};
use super::column::Column;
use super::family::Row;
use super::history::SLOTS;
use super::model::{FADE_NS, Model};
use super::order::{Filter, Order};
use super::screen::{self, Scene};
use super::snapshot;
use super::theme::Theme;

#[path = "../../examples/top_synthetic/traffic.rs"]
mod traffic;

const SECOND: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

fn established() -> State {
    let tcp_state = TcpState::Established as u8;
    State { cwnd: 10, mss: 1000, snd_wnd: 1 << 20, tcp_state, ..State::default() }
}

fn event(time_ns: u64, cookie: u64, kind: Kind, aux: [u32; 2], state: State) -> Event {
    let place = Place::RcvEstablished;
    Event { time_ns, cookie, tgid: 7, cpu: 0, kind, place, aux, body: Body::State(state) }
}

fn ack(time_ns: u64, cookie: u64, snd_una: u32, rcv_nxt: u32) -> Event {
    let state = State { snd_una, snd_nxt: snd_una, rcv_nxt, ..established() };
    event(time_ns, cookie, Kind::Ack, [0, 0], state)
}

/// What the synthetic traffic leaves after `seconds`.
fn after(seconds: u64) -> Model {
    let mut model = Model::default();
    let mut traffic = traffic::Traffic::new(100 * SECOND);
    for tick in 0..=2 * seconds {
        let now_ns = 100 * SECOND + tick * SECOND / 2;
        traffic.advance_to(now_ns, &mut |event| model.push(event));
        model.tick(now_ns);
    }
    model
}

mod model {
    use super::*;

    #[test]
    fn rates_count_both_directions_across_the_wrap() {
        let mut model = Model::default();
        let start = u32::MAX - 500_000;
        for step in 0..=300u32 {
            let time_ns = 10 * SECOND + u64::from(step) * 10 * MS;
            model.push(&ack(time_ns, 1, start.wrapping_add(step * 10_000), step * 100));
        }
        let c = model.connection(1).unwrap();
        let (up, down) = c.rates(13 * SECOND);
        assert!((up / 1e6 - 1.0).abs() < 0.02, "{up} B/s");
        assert!((down / 1e4 - 1.0).abs() < 0.02, "{down} B/s");
        assert_eq!((c.live.acked(), c.live.received()), (3_000_000, 30_000));
    }

    #[test]
    fn the_rate_of_a_silent_connection_falls_to_zero() {
        let mut model = Model::default();
        model.push(&ack(SECOND, 1, 0, 0));
        model.push(&ack(SECOND + 100 * MS, 1, 1_000_000, 0));
        assert!(model.connection(1).unwrap().rates(SECOND + 200 * MS).0 > 1e6);
        assert_eq!(model.connection(1).unwrap().rates(3 * SECOND).0, 0.0);
    }

    #[test]
    fn a_polled_connection_keeps_its_rate_between_two_polls() {
        let mut model = Model::default();
        for poll in 0..10u32 {
            let mut sample = ack(u64::from(poll) * SECOND / 2, 1, poll * 500_000, 0);
            sample.kind = Kind::Sample;
            model.push(&sample);
        }
        for wait in [1, 200, 490] {
            let (up, _) = model.connection(1).unwrap().rates(4500 * MS + wait * MS);
            assert!((up / 1e6 - 1.0).abs() < 0.05, "{up} B/s {wait} ms after the poll");
        }
    }

    #[test]
    fn the_numbers_of_a_handshake_are_no_traffic() {
        let mut model = Model::default();
        let syn = State { tcp_state: TcpState::SynSent as u8, ..established() };
        model.push(&event(SECOND, 1, Kind::State, [7, 2], syn));
        model.push(&ack(SECOND + MS, 1, 0x3000_0000, 0x4000_0000));
        model.push(&ack(SECOND + 2 * MS, 1, 0x3000_0064, 0x4000_0000));
        let c = model.connection(1).unwrap();
        assert_eq!((c.live.acked(), c.live.received()), (100, 0));
    }

    #[test]
    fn retransmissions_count_in_all_and_lately() {
        let mut model = Model::default();
        model.push(&ack(SECOND, 1, 0, 0));
        model.push(&event(SECOND, 1, Kind::Retransmit, [1 | 3 << 8, 0], established()));
        model.push(&event(5 * SECOND, 1, Kind::Retransmit, [1 | 2 << 8, 0], established()));
        model.push(&event(5 * SECOND, 1, Kind::Rto, [1, 1], established()));
        let c = model.connection(1).unwrap();
        assert_eq!((c.counts.retransmitted, c.counts.rtos), (5, 1));
        assert_eq!(c.retransmitted_lately(5 * SECOND), 2);
        assert_eq!(c.retransmitted_lately(8 * SECOND), 0);
    }

    #[test]
    fn what_is_sent_again_without_a_timer_is_no_timeout() {
        let mut model = Model::default();
        for cause in [RtoCause::Timer, RtoCause::Reneging, RtoCause::Pmtu] {
            model.push(&event(SECOND, 1, Kind::Rto, [1, cause as u32], established()));
        }
        let c = model.connection(1).unwrap();
        assert_eq!((c.counts.rtos, c.marks.len()), (1, 3), "all are listed");
    }

    #[test]
    fn a_closed_connection_fades_out() {
        let mut model = Model::default();
        model.push(&ack(SECOND, 1, 0, 0));
        model.push(&event(2 * SECOND, 1, Kind::Close, [0, 0], established()));
        model.tick(2 * SECOND + FADE_NS - 1);
        assert_eq!(model.connection(1).unwrap().tcp(), Some(TcpState::Close));
        model.tick(2 * SECOND + FADE_NS);
        assert!(model.is_empty());
    }

    #[test]
    fn a_polled_connection_that_no_poll_finds_any_more_fades_out() {
        let mut model = Model::default();
        let mut sample = ack(SECOND, 1, 0, 0);
        sample.kind = Kind::Sample;
        model.push(&sample);
        model.tick(12 * SECOND);
        assert!(model.connection(1).unwrap().closed_ns.is_some());
        model.tick(12 * SECOND + FADE_NS);
        assert!(model.is_empty());
    }

    #[test]
    fn the_least_active_give_way_and_are_counted() {
        let mut model = Model::new(100);
        for cookie in 1..=100 {
            model.push(&ack(cookie * MS, cookie, 0, 0));
        }
        model.push(&event(200 * MS, 50, Kind::Close, [0, 0], established()));
        model.push(&ack(SECOND, 1, 5, 0));
        model.push(&ack(2 * SECOND, 1000, 0, 0));
        assert!(model.len() <= 100);
        assert!(model.connection(1).is_some(), "active a moment ago");
        assert!(model.connection(2).is_none(), "the longest without an event");
        assert!(model.connection(50).is_none(), "closed ones go first");
        assert_eq!(model.not_kept(), 5, "six made room, one of them was closed");
    }

    #[test]
    fn memory_is_bounded_whatever_the_number_of_connections() {
        let mut model = Model::new(1000);
        for round in 0..400u64 {
            for cookie in 0..100 {
                let time_ns = round * 250 * MS;
                model.push(&ack(time_ns, cookie, 0, 0));
                model.push(&event(time_ns, cookie, Kind::Rto, [1, 1], established()));
            }
            model.push(&ack(round * 250 * MS, 10_000 + round, 0, 0));
        }
        model.tick(100 * SECOND);
        assert!(model.connections().all(|c| c.history.len() <= SLOTS && c.marks.len() <= 20));
    }

    #[test]
    fn losses_add_up_by_cause() {
        let mut model = Model::default();
        for count in [3, 4] {
            let mut lost = ack(SECOND, 0, 0, 0);
            (lost.kind, lost.aux, lost.body) = (Kind::Lost, [1, count], Body::None);
            model.push(&lost);
        }
        assert_eq!(model.lost(), [(LossCause::Ring, 7)]);
        assert!(model.is_empty());
    }

    #[test]
    fn events_per_second_are_those_of_the_last_second() {
        let mut model = Model::default();
        for tick in 0..20u64 {
            for _ in 0..50 {
                model.push(&ack(tick * SECOND / 2, 1, 0, 0));
            }
            model.tick(tick * SECOND / 2);
        }
        assert_eq!(model.event_rate(), 100.0);
    }

    #[test]
    fn every_kind_of_synthetic_connection_gets_its_limit() {
        let model = after(20);
        let limits: Vec<Option<Limit>> =
            (1..=4).map(|cookie| model.connection(cookie).unwrap().limit(model.now_ns())).collect();
        assert_eq!(
            limits,
            [Limit::Cwnd, Limit::ReceiverWindow, Limit::Receiving, Limit::Pacing].map(Some)
        );
    }

    /// CPU time of this thread: what other programs take does not count.
    fn cpu_ns() -> u64 {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        now.tv_sec as u64 * SECOND + now.tv_nsec as u64
    }

    /// Printed, and not judged in a debug build: run with `--release --nocapture` to measure.
    #[test]
    fn an_event_is_cheap() {
        for connections in [1u64, 100, 1000, 20_000] {
            // Few events at a time, as a ring buffer hands them over while they are in the cache.
            let rounds = 200_000 / 1000;
            let mut model = Model::default();
            let mut spent = 0;
            for round in 0..2 * rounds {
                let events: Vec<Event> = (round * 1000..round * 1000 + 1000)
                    .map(|i| ack(SECOND + i * 10_000, i % connections, (i * 100) as u32, i as u32))
                    .collect();
                let started = cpu_ns();
                events.iter().for_each(|event| model.push(event));
                // The first half warms up: it opens the connections.
                spent += if round < rounds { 0 } else { cpu_ns() - started };
            }
            let each = spent as f64 / (rounds * 1000) as f64;
            let started = cpu_ns();
            model.tick(5 * SECOND);
            let tick = (cpu_ns() - started) as f64 / 1e6;
            println!("{connections} connections: {each:.0} ns/event, {tick:.2} ms/tick");
            assert!(cfg!(debug_assertions) || each < 1000.0, "{each} ns/event");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_events_at_all_are_taken_and_drawn(
            records in prop::collection::vec((any::<[u64; 16]>(), 1u8..20, 1u8..20, 0u64..4), 1..60),
            now_ns in any::<u64>(),
        ) {
            let mut model = Model::new(3);
            for (words, kind, place, cookie) in records {
                let mut raw: Raw = bytemuck_cast(words);
                (raw.head.kind, raw.head.place, raw.head.cookie) = (kind, place, cookie);
                if let Ok(event) = Event::try_from(&raw) {
                    model.push(&event);
                    model.tick(event.time_ns);
                }
            }
            model.tick(now_ns);
            let cookies: Vec<u64> = model.connections().map(|c| c.cookie).collect();
            let mut app = App::new(Column::Rate, "");
            draw(&mut app, &model, 200, 60);
            for cookie in cookies {
                app.view = View::Detail(cookie);
                draw(&mut app, &model, 80, 24);
            }
            let order = Order { column: Column::Remote, reverse: true };
            snapshot::table(&model, order, &Filter::new(""), Theme::default());
            snapshot::object(&model, &Status::default(), order, &Filter::new(""));
        }
    }

    fn bytemuck_cast(words: [u64; 16]) -> Raw {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        Raw::from_bytes(&bytes).expect("16 words are 128 bytes")
    }
}

fn draw(app: &mut App, model: &Model, width: u16, height: u16) -> Vec<String> {
    draw_with(app, model, &Status::default(), Theme { colour: true, ascii: false }, width, height)
}

fn draw_with(
    app: &mut App,
    model: &Model,
    status: &Status,
    theme: Theme,
    width: u16,
    height: u16,
) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let scene = Scene { model, status, theme };
    terminal
        .draw(|frame| {
            let area = frame.area();
            screen::draw(app, scene, area, frame.buffer_mut());
        })
        .unwrap();
    let buffer = terminal.backend().buffer();
    (0..height).map(|y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>()).collect()
}

mod screens {
    use super::*;

    fn find<'a>(screen: &'a [String], text: &str) -> &'a str {
        let found = screen.iter().find(|line| line.contains(text));
        found.unwrap_or_else(|| panic!("no {text:?} in\n{}", screen.join("\n")))
    }

    #[test]
    fn every_view_is_drawn_at_every_size() {
        let model = after(20);
        for (width, height) in [(80, 24), (200, 60), (40, 10), (1, 1), (20, 3), (300, 5)] {
            let mut app = App::new(Column::Rate, "");
            draw(&mut app, &model, width, height);
            for cookie in [1, 2, 3, 4] {
                app.view = View::Detail(cookie);
                draw(&mut app, &model, width, height);
            }
            app.help = true;
            app.scroll = 1000;
            draw(&mut app, &model, width, height);
        }
    }

    #[test]
    fn eighty_by_twenty_four_tells_each_connection_in_a_line() {
        let screen = draw(&mut App::new(Column::Rate, ""), &after(20), 80, 24);
        let titles = find(&screen, "PROGRAM");
        for title in ["REMOTE", "B/s", "CWND", "SRTT", "RETR", "LIMIT", "CWND, 1 s"] {
            assert!(titles.contains(title), "{title} in {titles}");
        }
        let upload = find(&screen, "upload");
        for cell in ["192.0.2.10:5001", "↑", "M", "40.0ms", "cwnd", "█"] {
            assert!(upload.contains(cell), "{cell} in {upload}");
        }
        assert!(find(&screen, "backup").contains("rwnd"));
        assert!(find(&screen, "chatd").contains("recv"));
        assert!(find(&screen, "curl").contains('↓'));
    }

    #[test]
    fn the_narrowest_screen_still_tells_program_rate_and_window() {
        let screen = draw(&mut App::new(Column::Rate, ""), &after(5), 40, 10);
        let titles = find(&screen, "PROGRAM");
        assert!(titles.contains("B/s") && titles.contains("CWND"), "{titles}");
    }

    #[test]
    fn the_detail_view_draws_both_curves_on_one_axis() {
        let mut app = App::new(Column::Rate, "");
        app.view = View::Detail(1);
        for (width, height) in [(80, 24), (200, 60)] {
            let screen = draw(&mut app, &after(25), width, height);
            for text in ["upload [1001]", "cwnd, segments", "throughput up, B/s", "-30 s", "now"] {
                find(&screen, text);
            }
            let marks = find(&screen, "marks");
            assert!(marks.contains('r') && marks.contains('T'), "{marks}");
            find(&screen, "last events");
        }
    }

    #[test]
    fn ascii_means_ascii() {
        let mut model = after(20);
        let mut open = Open { family: 2, ..Open::default() };
        open.comm[..8].copy_from_slice("dünn-é".as_bytes());
        let change = event(model.now_ns(), 1, Kind::Algorithm, [1, 0], established());
        model.push(&Event { body: Body::Open(open), ..change });
        let theme = Theme { colour: false, ascii: true };
        let mut app = App::new(Column::Rate, "");
        for view in [View::Table, View::Detail(1), View::Detail(3)] {
            app.view = view;
            let screen = draw_with(&mut app, &model, &Status::default(), theme, 160, 50);
            assert!(screen.iter().all(|line| line.is_ascii()), "{}", screen.join("\n"));
        }
        app.help = true;
        let screen = draw_with(&mut app, &model, &Status::default(), theme, 80, 50);
        assert!(screen.iter().all(|line| line.is_ascii()), "{}", screen.join("\n"));
    }

    #[test]
    fn losses_and_the_remark_of_the_source_are_on_screen() {
        let status = Status {
            lost: vec![(LossCause::Ring, 1200)],
            note: Some("polling sock_diag each 500 ms: no privilege".into()),
        };
        let theme = Theme { colour: true, ascii: false };
        let mut app = App::new(Column::Rate, "");
        let screen = draw_with(&mut app, &after(5), &status, theme, 80, 24);
        assert!(screen[0].contains("lost 1,200 (ring_full 1,200)"), "{}", screen[0]);
        find(&screen, "polling sock_diag");
        let status = Status { lost: vec![(LossCause::UnseenSend, 21)], ..Status::default() };
        let screen = draw_with(&mut app, &after(5), &status, theme, 80, 24);
        assert!(screen[0].contains("lost 0  21 segments left unseen"), "{}", screen[0]);
    }

    /// A connection from 10.0.0.1:40000 to 10.0.0.2:443, in a model with these names.
    fn to_https(names: Names) -> Model {
        let mut open = Open { family: 2, local_port: 40_000, remote_port: 443, ..Open::default() };
        open.local_addr[..4].copy_from_slice(&[10, 0, 0, 1]);
        open.remote_addr[..4].copy_from_slice(&[10, 0, 0, 2]);
        let mut named = ack(SECOND, 1, 0, 0);
        (named.kind, named.body) = (Kind::Open, Body::Open(open));
        let mut model = Model::default().named(names);
        model.push(&named);
        model.tick(SECOND);
        model
    }

    #[test]
    fn ends_have_names_on_the_screen_and_numbers_in_json() {
        let services = [(443, "https".to_owned())];
        let hosts = [("10.0.0.2".parse().unwrap(), "server.example".to_owned())];
        let model = to_https(Names::new(services.into(), hosts.into()));
        let order = Order { column: Column::Rate, reverse: false };
        let all = Filter::new("");
        let text = snapshot::table(&model, order, &all, Theme::default());
        assert!(text.contains("10.0.0.1:40000 server.example:https"), "{text}");
        let mut app = App::new(Column::Rate, "");
        find(&draw(&mut app, &model, 80, 24), "server.example:https");
        keys::press(&mut app, &model, "\n");
        find(&draw(&mut app, &model, 80, 24), "10.0.0.1:40000 > server.example:https");
        let json = snapshot::object(&model, &Status::default(), order, &all);
        assert_eq!(json["connections"][0]["remote"], "10.0.0.2:443");
        for (filter, found) in
            [(":https", 1), ("server.ex", 1), (":443", 1), ("10.0.0.2", 1), (":http-alt", 0)]
        {
            assert_eq!(order.apply(&model, &Filter::new(filter)).len(), found, "{filter}");
        }
        let text = snapshot::table(&to_https(Names::default()), order, &all, Theme::default());
        assert!(text.contains("10.0.0.2:443"), "{text}");
        let model = to_https(Names::new([(443, "https".to_owned())].into(), [].into()));
        let shown = Filter::new("10.0.0.2:https");
        assert_eq!(order.apply(&model, &shown).len(), 1, "as the column shows it");
    }

    #[test]
    fn a_program_cannot_write_to_the_terminal_through_its_name() {
        let mut open = Open { family: 2, ..Open::default() };
        open.comm[..6].copy_from_slice(b"\x1b[2Jev");
        let mut named = ack(SECOND, 1, 0, 0);
        (named.kind, named.body) = (Kind::Open, Body::Open(open));
        let mut model = Model::default();
        model.push(&named);
        model.tick(SECOND);
        let order = Order { column: Column::Rate, reverse: false };
        let text = snapshot::table(&model, order, &Filter::new(""), Theme::default());
        assert!(text.contains("?[2Jev") && !text.contains('\x1b'), "{text:?}");
        find(&draw(&mut App::new(Column::Rate, ""), &model, 80, 24), "?[2Jev");
    }
}

pub mod keys {
    use super::*;

    pub fn press(app: &mut App, model: &Model, keys: &str) -> Next {
        let mut next = Next::Stay;
        for c in keys.chars() {
            let code = match c {
                '\n' => KeyCode::Enter,
                '\x1b' => KeyCode::Esc,
                _ => KeyCode::Char(c),
            };
            next = app.key(KeyEvent::new(code, KeyModifiers::NONE), model, &Status::default());
        }
        next
    }

    fn programs(app: &mut App, model: &Model) -> Vec<String> {
        let cookies = app.rows(model).into_iter().filter_map(Row::cookie);
        cookies.map(|c| model.connection(c).unwrap().program()).collect()
    }

    #[test]
    fn sorting_by_a_letter_and_in_reverse() {
        let model = after(20);
        let mut app = App::new(Column::Rate, "");
        assert_eq!(programs(&mut app, &model)[0], "upload");
        press(&mut app, &model, "P");
        assert_eq!(programs(&mut app, &model)[0], "backup");
        press(&mut app, &model, "r");
        assert_eq!(programs(&mut app, &model)[0], "video");
        press(&mut app, &model, "S");
        assert_eq!(programs(&mut app, &model)[0], "chatd", "the longest round-trip time");
    }

    #[test]
    fn the_arrows_reach_every_column_and_come_round() {
        let model = after(2);
        let mut app = App::new(Column::Rate, "");
        for _ in Column::sortable() {
            press(&mut app, &model, ">");
            app.rows(&model);
        }
        assert_eq!(app.order.column, Column::Rate);
    }

    #[test]
    fn the_filter_looks_at_names_addresses_ports_algorithms_and_states() {
        let model = after(20);
        let shown = |text: &str| programs(&mut App::new(Column::Program, text), &model);
        assert_eq!(shown("UPLO"), ["upload"]);
        assert_eq!(shown(":873"), ["backup"]);
        assert_eq!(shown("2001:db8"), ["chatd"]);
        assert_eq!(shown("bbr"), ["video"]);
        assert_eq!(shown("cubic :5001"), ["upload"]);
        assert_eq!(shown("nothing like it"), [""; 0]);
    }

    #[test]
    fn a_filter_being_typed_is_kept_by_enter_and_dropped_by_escape() {
        let model = after(20);
        let mut app = App::new(Column::Rate, "");
        press(&mut app, &model, "/video");
        assert_eq!(programs(&mut app, &model), ["video"], "applies while it is typed");
        press(&mut app, &model, "\n");
        assert_eq!((app.filter.as_str(), &app.editing), ("video", &None));
        press(&mut app, &model, "/ q\x1b");
        assert_eq!(app.filter, "video");
        press(&mut app, &model, "\x1b");
        assert_eq!(app.filter, "");
    }

    #[test]
    fn a_frozen_screen_stands_still_while_events_go_on() {
        let mut model = after(20);
        let mut app = App::new(Column::Rate, "");
        press(&mut app, &model, " ");
        let before = draw(&mut app, &model, 80, 24);
        assert!(before[0].contains("FROZEN"));
        model.push(&ack(121 * SECOND, 4242, 0, 0));
        model.tick(130 * SECOND);
        assert_eq!(draw(&mut app, &model, 80, 24), before);
        press(&mut app, &model, " ");
        assert_ne!(draw(&mut app, &model, 80, 24), before);
    }

    #[test]
    fn the_cursor_follows_its_connection_into_the_detail_view() {
        let model = after(20);
        let mut app = App::new(Column::Rate, "video");
        app.rows(&model);
        press(&mut app, &model, "\n");
        assert_eq!(app.view, View::Detail(4));
        press(&mut app, &model, "\x1b");
        assert_eq!(app.view, View::Table);
        let mut app = App::new(Column::Program, "");
        press(&mut app, &model, "j");
        let (before, chosen) = (app.cursor, app.selected);
        press(&mut app, &model, "r");
        app.rows(&model);
        assert_eq!(app.selected, chosen, "the order changed, the choice did not");
        assert_ne!(app.cursor, before);
    }

    #[test]
    fn the_detail_view_ends_when_its_connection_has_faded() {
        let model = after(5);
        let mut app = App::new(Column::Rate, "");
        app.view = View::Detail(987_654);
        draw(&mut app, &model, 80, 24);
        assert_eq!(app.view, View::Table);
    }

    #[test]
    fn quitting() {
        let model = after(1);
        let mut app = App::new(Column::Rate, "");
        assert_eq!(press(&mut app, &model, "q"), Next::Quit);
        let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        press(&mut app, &model, "/");
        assert_eq!(press(&mut app, &model, "q"), Next::Stay, "a letter of the filter");
        assert_eq!(app.key(control_c, &model, &Status::default()), Next::Quit);
    }
}

mod kept;
mod subflows;
mod widths;
