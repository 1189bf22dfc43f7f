//! What was slow, and why: rows that a question is about, beside those of the hour before and
//! beside others to the same place. Pure: rows in, answer out.

use std::collections::HashMap;

use crate::column::Time;
use crate::missing;
use crate::prefix::range;
use crate::summary::{Counted, Summary};
use crate::{AgentRow, Cause, Chosen, Connection, Direction, RowKind, Text};

/// Which connections a question is about.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Question {
    /// First and last moment.
    pub from: Time,
    pub to: Time,
    pub wanted: Wanted,
}

/// What must hold of a row; what is `None` may be anything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wanted {
    pub port: Option<u16>,
    pub program: Option<String>,
    /// Or part of its name.
    pub unit: Option<String>,
    /// Or the beginning of its UID.
    pub pod: Option<String>,
    pub container: Option<String>,
    /// The peer's address, a prefix, or the beginning of one.
    pub to: Option<String>,
    pub cookie: Option<u64>,
    pub verdict: Option<Cause>,
    pub failed: bool,
}

impl Wanted {
    pub fn matches(&self, row: &Connection) -> bool {
        let is = |wanted: &Option<String>, found: &Option<Text>, how: fn(&str, &str) -> bool| {
            wanted.as_deref().is_none_or(|w| found.as_deref().is_some_and(|f| how(f, w)))
        };
        let begins = |found: &str, wanted: &str| found.starts_with(wanted);
        let contains = |found: &str, wanted: &str| found.contains(wanted);
        // Rows have the first digits only.
        let is_begun =
            |found: &str, wanted: &str| found.starts_with(wanted) || wanted.starts_with(found);
        let to = self.to.as_deref().is_none_or(|wanted| is_to(row, wanted));
        to && self.port.is_none_or(|p| [row.service, row.local_port, row.remote_port].contains(&p))
            && is(&self.program, &row.program, |found, wanted| found == wanted)
            && is(&self.unit, &row.unit, contains)
            && is(&self.pod, &row.pod, begins)
            && is(&self.container, &row.container, is_begun)
            && self.cookie.is_none_or(|cookie| cookie == row.cookie)
            && self.verdict.is_none_or(|verdict| verdict == row.verdict)
            && (!self.failed || row.kind == RowKind::Failed)
    }
}

/// A row has the peer's address or only its prefix, in which a whole address lies.
fn is_to(row: &Connection, wanted: &str) -> bool {
    let mut known = [&row.remote_address, &row.remote_prefix].into_iter().flatten();
    let named = range(wanted);
    let nearest = known.clone().next().and_then(|found| range(found));
    if named.zip(nearest).is_some_and(|(named, nearest)| named.meets(&nearest)) {
        return true;
    }
    // `2001:db8::` is an address, and the beginning of others.
    let is_beginning = named.is_none() || wanted.ends_with("::");
    let wanted = wanted.to_ascii_lowercase();
    is_beginning && known.any(|found| found.starts_with(&wanted))
}

/// How long something other than the two programs held it back, µs: what orders the slow ones.
pub fn held_back_us(row: &Connection) -> u64 {
    let busy = row.busy_us;
    let part = |share: f64| (busy as f64 * share) as u64;
    match row.verdict {
        Cause::Handshake if row.kind == RowKind::Failed => row.duration_us.unwrap_or(0),
        Cause::Handshake => row.handshake_us.unwrap_or(0),
        Cause::PeerVanished | Cause::Timeouts | Cause::Loss | Cause::Cwnd => busy,
        Cause::FullPath | Cause::ReceiverWindow | Cause::SendBuffer => part(row.verdict_share),
        Cause::Unknown | Cause::Little | Cause::Application | Cause::OtherSide => 0,
    }
}

/// One slow connection, and the others to the same prefix, an hour before included.
#[derive(Clone, Debug, PartialEq)]
pub struct Slow {
    pub row: Connection,
    pub others: Summary,
    pub prelude: Option<Prelude>,
}

/// What level 1 saw of a connection before it was recorded event by event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prelude {
    /// When it was chosen; distances in `decisions` are from then.
    pub chosen: Time,
    pub why: Chosen,
    /// As in `last_decisions`.
    pub decisions: Text,
}

/// The kernel numbers its sockets anew in each boot.
type Socket<'a> = (Option<&'a str>, u64);

fn socket(row: &Connection) -> Socket<'_> {
    (row.boot.as_deref(), row.cookie)
}

/// A socket that was closed may connect again: which of its connections, after so many others.
type Key<'a> = (Socket<'a>, usize);

/// When the connections of each socket ended.
struct Ends<'a>(HashMap<Socket<'a>, Vec<Time>>);

impl<'a> Ends<'a> {
    fn of(rows: &'a [Connection]) -> Ends<'a> {
        let mut ends: HashMap<Socket<'a>, Vec<Time>> = HashMap::new();
        for row in rows.iter().filter(|row| row.kind != RowKind::Interim) {
            ends.entry(socket(row)).or_default().push(row.time);
        }
        Ends(ends)
    }

    fn key<'b>(&self, row: &'b Connection) -> Key<'b> {
        let before = self.0.get(&socket(row)).into_iter().flatten();
        (socket(row), before.filter(|end| **end < row.time).count())
    }
}

/// Of the row that the agent wrote when something that happened made it choose the
/// connection. Of a sample or a watch list there is none: nothing led there.
fn preludes<'a>(rows: &'a [Connection], ends: &Ends) -> HashMap<Key<'a>, Prelude> {
    let is_choice = |row: &&Connection| {
        row.kind == RowKind::Interim
            && !matches!(row.chosen, Chosen::No | Chosen::Sample | Chosen::Watch)
    };
    let mut first: HashMap<Key<'_>, &Connection> = HashMap::new();
    for row in rows.iter().filter(is_choice) {
        let known = first.entry(ends.key(row)).or_insert(row);
        if row.time < known.time {
            *known = row;
        }
    }
    let of = |(key, row): (Key<'a>, &Connection)| {
        let decisions = row.last_decisions.clone()?;
        Some((key, Prelude { chosen: row.time, why: row.chosen, decisions }))
    };
    first.into_iter().filter_map(of).collect()
}

#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub asked: Summary,
    pub hour_before: Summary,
    pub slow: Vec<Slow>,
    /// Moments of the question in which something is missing, and what.
    pub missing: Vec<(Time, String)>,
    /// Rows without retransmissions by cause.
    pub level_0: u64,
    /// Connections that began before the time and have no row of then: theirs are the counters of
    /// their whole life.
    pub whole_life: u64,
    /// Those asked for that have events, too.
    pub recorded: Vec<Recorded>,
}

const HOUR_US: i64 = 3_600_000_000;

/// A connection that has events in a trace (level 2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Of the kernel's boot, by which `cookie` is unique.
    pub boot: Option<Text>,
    pub cookie: u64,
    /// Its whole life, as far as it is known.
    pub from: Time,
    pub to: Time,
    pub prelude: Option<Prelude>,
}

impl Recorded {
    fn of(row: &Connection, prelude: Option<Prelude>) -> Recorded {
        let life = row.duration_us.map_or(HOUR_US, |us| us as i64);
        let (boot, from) = (row.boot.clone(), Time(row.time.0 - life));
        Recorded { boot, cookie: row.cookie, from, to: row.time, prelude }
    }
}

/// `rows` may be of any time; of a connection with several rows in the time, the last one counts,
/// with what its counters rose by since the last one before the time.
pub fn answer(question: &Question, rows: &[Connection], agent: &[AgentRow], slow: usize) -> Answer {
    let ends = Ends::of(rows);
    let last = Last::of(question, rows, &ends);
    let wanted = |of: &Counted<'_>| question.wanted.matches(of.row);
    let mut asked = counted(&last, |last| (last.asked, last.hour.or(last.earlier)));
    let both = counted(&last, |last| (last.asked.or(last.hour), last.earlier));
    let mut earlier = counted(&last, |last| (last.hour, last.earlier));
    asked.retain(wanted);
    earlier.retain(wanted);
    let mut by_time: Vec<&Connection> =
        asked.iter().map(|of| of.row).filter(|row| held_back_us(row) > 0).collect();
    by_time.sort_by_key(|row| std::cmp::Reverse(held_back_us(row)));
    by_time.truncate(slow);
    let recorded = asked.iter().map(|of| of.row).filter(|row| row.chosen != Chosen::No);
    let preludes = preludes(rows, &ends);
    let prelude = |row: &Connection| preludes.get(&ends.key(row)).cloned();
    let recorded = recorded.map(|row| Recorded::of(row, prelude(row))).collect();
    let others = |row: &Connection| {
        let own = ends.key(row);
        let same = |of: &&Counted<'_>| {
            of.row.remote_prefix == row.remote_prefix && ends.key(of.row) != own
        };
        Summary::of(both.iter().filter(same))
    };
    let is_of_level_0 = |row: &Connection| row.level == 0 && row.direction != Direction::Existing;
    Answer {
        level_0: asked.iter().filter(|of| is_of_level_0(of.row)).count() as u64,
        whole_life: asked.iter().filter(|of| of.is_whole_life(question.from)).count() as u64,
        recorded,
        asked: Summary::of(&asked),
        hour_before: Summary::of(&earlier),
        slow: by_time
            .into_iter()
            .map(|row| Slow { row: row.clone(), others: others(row), prelude: prelude(row) })
            .collect(),
        missing: missing::missing(question, agent),
    }
}

/// The last rows of one connection: before the hour before, in it, and in the time asked for.
#[derive(Clone, Copy, Debug, Default)]
struct Last<'a> {
    earlier: Option<&'a Connection>,
    hour: Option<&'a Connection>,
    asked: Option<&'a Connection>,
}

impl<'a> Last<'a> {
    fn of(question: &Question, rows: &'a [Connection], ends: &Ends) -> Vec<Last<'a>> {
        let hour_before = Time(question.from.0 - HOUR_US);
        // Of two in one microsecond the one of the end is the last.
        let order = |row: &Connection| (row.time, row.kind != RowKind::Interim);
        let mut found: HashMap<Key<'_>, Last<'a>> = HashMap::new();
        for row in rows.iter().filter(|row| row.time <= question.to) {
            let of = found.entry(ends.key(row)).or_default();
            let last = match row.time {
                time if time < hour_before => &mut of.earlier,
                time if time < question.from => &mut of.hour,
                _ => &mut of.asked,
            };
            if last.is_none_or(|last| order(last) < order(row)) {
                *last = Some(row);
            }
        }
        found.into_values().collect()
    }
}

/// Of each connection a row, and the one before the time that it counts for.
fn counted<'a>(
    last: &[Last<'a>],
    of: fn(&Last<'a>) -> (Option<&'a Connection>, Option<&'a Connection>),
) -> Vec<Counted<'a>> {
    let with_row = |last| {
        let (row, before) = of(last);
        Some(Counted { row: row?, before })
    };
    let mut counted: Vec<Counted<'a>> = last.iter().filter_map(with_row).collect();
    counted.sort_by_key(|of| (of.row.time, of.row.cookie));
    counted
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: i64 = 1_800_014_400_000_000;

    fn row(cookie: u64, minute: i64) -> Connection {
        Connection {
            time: Time(NOON + minute * 60_000_000),
            cookie,
            service: 443,
            program: Some("curl".into()),
            remote_prefix: Some("192.0.2.0/24".into()),
            duration_us: Some(10_000_000),
            bytes_acked: 1_000_000,
            data_segments_sent: 1000,
            ..Connection::default()
        }
    }

    fn slow(cookie: u64, minute: i64) -> Connection {
        Connection {
            verdict: Cause::Loss,
            busy_us: 9_000_000,
            retransmitted: 50,
            ..row(cookie, minute)
        }
    }

    fn question() -> Question {
        Question { from: Time(NOON), to: Time(NOON + 300_000_000), ..Question::default() }
    }

    #[test]
    fn what_is_asked_for_is_told_from_the_hour_before_and_from_others() {
        let rows = [row(1, -61), row(2, -59), row(3, 1), slow(4, 2), row(5, 6)];
        let answer = answer(&question(), &rows, &[], 9);
        assert_eq!((answer.asked.connections, answer.hour_before.connections), (2, 1));
        assert_eq!(answer.slow.len(), 1);
        assert_eq!(answer.slow[0].row.cookie, 4);
        assert_eq!(answer.slow[0].others.connections, 2);
        assert_eq!(answer.asked.retransmitted, 0.025);
    }

    #[test]
    fn a_long_connection_counts_once_with_its_last_row() {
        let later = Connection { bytes_acked: 3_000_000, ..row(7, 4) };
        let on = |minute| Connection { kind: RowKind::Interim, ..row(7, minute) };
        let answer = answer(&question(), &[on(1), later, on(2)], &[], 9);
        assert_eq!((answer.asked.connections, answer.asked.bytes_acked), (1, 3_000_000));
    }

    #[test]
    fn a_connection_of_hours_counts_with_what_it_did_in_the_time() {
        let on = |minute, bytes_acked, retransmitted| Connection {
            kind: RowKind::Interim,
            duration_us: Some(36_000_000_000),
            bytes_acked,
            data_segments_sent: (bytes_acked / 1000) as u32,
            retransmitted,
            timeouts: Some(retransmitted / 10),
            ..row(7, minute)
        };
        let of_hours = [
            on(-64, 60_000_000, 0),
            on(-4, 70_000_000, 0),
            on(1, 71_000_000, 50),
            on(6, 99_000_000, 50),
        ];
        let found = answer(&question(), &of_hours, &[], 9);
        let of = |of: &Summary| (of.bytes_acked, of.retransmitted, of.timeouts, of.connections);
        assert_eq!(of(&found.asked), (1_000_000, 0.05, 5, 1));
        assert_eq!(of(&found.hour_before), (10_000_000, 0.0, 0, 1));
        // 1 MB in five minutes, and not 71 MB in ten hours.
        assert_eq!(found.asked.median_rate, Some(26_666));
        assert_eq!(found.whole_life, 0);
        let others = answer(&question(), &[&of_hours[..], &[slow(8, 2)]].concat(), &[], 9);
        let others = &others.slow.iter().find(|slow| slow.row.cookie == 8).unwrap().others;
        assert_eq!((others.connections, others.bytes_acked), (1, 11_000_000));
        // Nobody knows what it had done by then.
        let found = answer(&question(), &of_hours[2..], &[], 9);
        assert_eq!((found.asked.bytes_acked, found.whole_life), (71_000_000, 1));
    }

    #[test]
    fn timeouts_that_an_agent_counts_anew_are_those_since_then() {
        let on = |minute, timeouts, retransmitted| Connection {
            kind: RowKind::Interim,
            timeouts: Some(timeouts),
            retransmitted,
            data_segments_sent: 100 * retransmitted,
            ..row(7, minute)
        };
        let found = answer(&question(), &[on(-4, 50, 60), on(1, 2, 63)], &[], 9);
        // Those of the kernel go on.
        assert_eq!((found.asked.timeouts, found.asked.retransmitted), (2, 0.01));
    }

    #[test]
    fn a_socket_that_connects_again_has_a_connection_each_time() {
        let with = |kind, minute, decisions: &str| Connection {
            kind,
            chosen: Chosen::Timeouts,
            last_decisions: Some(decisions.into()),
            ..slow(7, minute)
        };
        let rows = [
            with(RowKind::Interim, 1, "-0.200 s timeout 2"),
            with(RowKind::Failed, 2, "-0.200 s timeout 4"),
            with(RowKind::Interim, 3, "-0.100 s probe; -0.020 s timeout 2"),
            with(RowKind::End, 4, "-0.001 s state"),
        ];
        let answer = answer(&question(), &rows, &[], 9);
        assert_eq!((answer.asked.connections, answer.asked.failed), (2, 1));
        let ended: Vec<i64> = answer.recorded.iter().map(|it| it.to.0 - NOON).collect();
        assert_eq!(ended, [120_000_000, 240_000_000]);
        let led = |it: &Recorded| it.prelude.as_ref().unwrap().decisions.to_string();
        let before: Vec<String> = answer.recorded.iter().map(led).collect();
        assert_eq!(before, ["-0.200 s timeout 2", "-0.100 s probe; -0.020 s timeout 2"]);
    }

    #[test]
    fn of_a_row_that_was_due_in_the_microsecond_of_the_end_the_end_counts() {
        let interim = Connection { kind: RowKind::Interim, ..slow(7, 1) };
        let failed = Connection { kind: RowKind::Failed, ..slow(7, 1) };
        for rows in [[interim.clone(), failed.clone()], [failed, interim]] {
            let answer = answer(&question(), &rows, &[], 9);
            assert_eq!((answer.asked.connections, answer.asked.failed), (1, 1));
            assert_eq!(answer.slow[0].row.kind, RowKind::Failed);
        }
    }

    #[test]
    fn the_slow_ones_come_in_the_order_of_what_held_them_back() {
        let longer = Connection { busy_us: 20_000_000, ..slow(2, 2) };
        let idle = Connection { verdict: Cause::Application, busy_us: 1, ..row(3, 3) };
        let answer = answer(&question(), &[slow(1, 1), longer, idle], &[], 9);
        let order: Vec<u64> = answer.slow.iter().map(|slow| slow.row.cookie).collect();
        assert_eq!(order, [2, 1]);
    }

    #[test]
    fn each_word_of_a_question_leaves_out_what_it_does_not_name() {
        let matches = |change: fn(&mut Wanted)| {
            let mut wanted = Wanted::default();
            change(&mut wanted);
            wanted.matches(&row(1, 0))
        };
        assert!(matches(|w| w.port = Some(443)) && !matches(|w| w.port = Some(80)));
        assert!(matches(|w| w.program = Some("curl".into())));
        assert!(!matches(|w| w.program = Some("cur".into())));
        assert!(
            matches(|w| w.to = Some("192.0.2.".into())) && !matches(|w| w.to = Some("10.".into()))
        );
        assert!(!matches(|w| w.failed = true) && !matches(|w| w.unit = Some("x".into())));
        assert!(matches(|w| w.cookie = Some(1)) && !matches(|w| w.cookie = Some(2)));
    }

    #[test]
    fn a_container_is_found_by_some_of_its_digits_or_all_of_them() {
        let row = Connection { container: Some("8c6f1e7a9b0d".into()), ..row(1, 0) };
        let is_in = |wanted: &str| {
            Wanted { container: Some(wanted.into()), ..Wanted::default() }.matches(&row)
        };
        let all = format!("8c6f1e7a9b0d{}", "2c".repeat(26));
        assert!(is_in("8c6f") && is_in("8c6f1e7a9b0d") && is_in(&all));
        assert!(!is_in("8c6e") && !is_in(&all.replace("9b0d", "9b0e")));
    }

    #[test]
    fn a_whole_address_finds_the_rows_of_its_prefix() {
        let is_to = |prefix: &str, wanted: &str| {
            let row = Connection { remote_prefix: Some(prefix.into()), ..row(1, 0) };
            Wanted { to: Some(wanted.into()), ..Wanted::default() }.matches(&row)
        };
        assert!(is_to("192.0.2.0/24", "192.0.2.77") && !is_to("192.0.2.0/24", "192.0.3.77"));
        assert!(
            is_to("2001:db8:7::/48", "2001:db8:7::1") && !is_to("2001:db8:7::/48", "2001:db8::1")
        );
        assert!(is_to("192.0.2.0/24", "192.0.2.0/24") && !is_to("192.0.2.0/24", "2001:db8::1"));
        let full = Connection { remote_address: Some("192.0.2.7".into()), ..row(1, 0) };
        let is_full_to =
            |wanted: &str| Wanted { to: Some(wanted.into()), ..Wanted::default() }.matches(&full);
        assert!(is_full_to("192.0.2.7") && !is_full_to("192.0.2.77"), "what is known decides");
        assert!(!is_full_to("192.0.2.70") && !is_full_to("192.0.2.0/30") && is_full_to("192.0.2."));
    }

    #[test]
    fn an_address_is_found_however_it_is_written() {
        let is_to = |prefix: &str, address: Option<&str>, wanted: &str| {
            let row = Connection {
                remote_prefix: Some(prefix.into()),
                remote_address: address.map(Into::into),
                ..row(1, 0)
            };
            Wanted { to: Some(wanted.into()), ..Wanted::default() }.matches(&row)
        };
        let v6 = |wanted: &str| {
            let found = is_to("2001:db8:7::/48", Some("2001:db8:7::1"), wanted);
            assert_eq!(is_to("2001:db8:7::/48", None, wanted), found, "{wanted}");
            found
        };
        assert!(v6("2001:DB8:7:0::1") && v6("2001:db8:7::1/64") && v6("2001:0db8:"));
        assert!(v6("2001:DB8") && v6("2001:db8:7::") && !v6("2001:db8:8::1"));
        let v4 = |wanted| is_to("192.0.2.0/24", Some("192.0.2.7"), wanted);
        assert!(v4("::ffff:192.0.2.7") && v4("192.0.2.9/25") && v4("192.0.0.0/16") && v4("192.0"));
        assert!(v4("192.0.2.0/29") && !v4("192.0.2.0/30"));
        let longer = is_to("192.0.2.0/24", Some("192.0.2.77"), "192.0.2.7");
        assert!(!longer, "a whole address is not the beginning of another");
        let longer = is_to("192.0.20.0/24", None, "192.0.2");
        assert!(!longer, "nor is a part of it that of another part");
    }

    #[test]
    fn what_led_to_a_recording_is_of_the_row_of_the_choice_and_not_of_the_end() {
        let with = |chosen, minute, decisions: &str| Connection {
            chosen,
            kind: if minute == 4 { RowKind::End } else { RowKind::Interim },
            last_decisions: Some(decisions.into()),
            ..slow(1, minute)
        };
        let prelude = |chosen| {
            let rows = [
                with(chosen, 4, "-1.000 s state"),
                with(chosen, 3, "-9.000 s probe"),
                with(chosen, 2, "-0.200 s timeout 1; -0.001 s timeout 2"),
                with(Chosen::No, 1, "-1.000 s algorithm"),
                Connection { cookie: 2, busy_us: 1, ..with(chosen, 1, "another's") },
            ];
            let mut answer = answer(&question(), &rows, &[], 1);
            let slow = answer.slow.remove(0);
            let is_its = |it: &&Recorded| it.cookie == slow.row.cookie;
            let recorded = answer.recorded.iter().find(is_its).and_then(|it| it.prelude.clone());
            assert_eq!(recorded, slow.prelude, "the page has the same");
            slow.prelude
        };
        let found = prelude(Chosen::Timeouts).unwrap();
        assert_eq!(&*found.decisions, "-0.200 s timeout 1; -0.001 s timeout 2");
        assert_eq!((found.chosen, found.why), (Time(NOON + 120_000_000), Chosen::Timeouts));
        // Nothing led there.
        assert_eq!((prelude(Chosen::Sample), prelude(Chosen::No)), (None, None));
    }
}
