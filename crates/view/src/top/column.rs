//! The columns of the table: what each shows, how it sorts, when it gives way.

use std::cmp::Ordering;
use std::net::SocketAddr;

use transom_analysis::Limit;
use transom_event::{CaState, State, TcpState};

use super::connection::Connection;
use super::numbers::{duration, fit, fit_address, printable, si};
use super::recent::index;
use super::theme::{Theme, Tone};

/// One column; the order here is the order on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Column {
    Program,
    Pid,
    Local,
    Remote,
    Algorithm,
    State,
    CaState,
    Rate,
    Up,
    Down,
    Cwnd,
    Ssthresh,
    InFlight,
    Srtt,
    MinRtt,
    Retransmitted,
    Lately,
    Rtos,
    Limit,
    SendQueue,
    ReceiveQueue,
    Sparkline,
}

/// What a column sorts by.
#[derive(Clone, Debug, PartialEq, PartialOrd)]
pub enum Key {
    Number(f64),
    Text(String),
    Address(Option<SocketAddr>),
}

impl Key {
    pub fn compare(&self, other: &Key) -> Ordering {
        self.partial_cmp(other).unwrap_or(Ordering::Equal)
    }
}

struct Facts {
    title: &'static str,
    /// Name for `--sort` and the header line.
    name: &'static str,
    width: u16,
    right: bool,
    /// The lower, the longer it stays when the screen is narrow.
    rank: u8,
}

impl Column {
    pub const ALL: [Column; 22] = [
        Column::Program,
        Column::Pid,
        Column::Local,
        Column::Remote,
        Column::Algorithm,
        Column::State,
        Column::CaState,
        Column::Rate,
        Column::Up,
        Column::Down,
        Column::Cwnd,
        Column::Ssthresh,
        Column::InFlight,
        Column::Srtt,
        Column::MinRtt,
        Column::Retransmitted,
        Column::Lately,
        Column::Rtos,
        Column::Limit,
        Column::SendQueue,
        Column::ReceiveQueue,
        Column::Sparkline,
    ];

    fn facts(self) -> Facts {
        let (title, name, width, right, rank) = match self {
            Column::Program => ("PROGRAM", "program", 10, false, 0),
            Column::Pid => ("PID", "pid", 7, true, 14),
            Column::Local => ("LOCAL", "local", 21, false, 18),
            Column::Remote => ("REMOTE", "remote", 21, false, 6),
            Column::Algorithm => ("CC", "algorithm", 7, false, 13),
            Column::State => ("STATE", "state", 11, false, 17),
            Column::CaState => ("CA", "ca_state", 8, false, 12),
            Column::Rate => ("B/s", "rate", 7, true, 1),
            Column::Up => ("UP B/s", "up", 7, true, 8),
            Column::Down => ("DOWN B/s", "down", 8, true, 8),
            Column::Cwnd => ("CWND", "cwnd", 5, true, 2),
            Column::Ssthresh => ("SSTHRESH", "ssthresh", 8, true, 11),
            Column::InFlight => ("FLIGHT", "in_flight", 6, true, 10),
            Column::Srtt => ("SRTT", "srtt", 6, true, 3),
            Column::MinRtt => ("MINRTT", "min_rtt", 6, true, 9),
            Column::Retransmitted => ("RETR", "retr", 5, true, 5),
            Column::Lately => ("RETR/s", "retr/s", 6, true, 15),
            Column::Rtos => ("RTO", "rtos", 4, true, 16),
            Column::Limit => ("LIMIT", "limit", 6, false, 4),
            Column::SendQueue => ("SENDQ", "sendq", 6, true, 19),
            Column::ReceiveQueue => ("RECVQ", "recvq", 6, true, 20),
            Column::Sparkline => ("CWND, 1 s STEPS", "cwnd_history", 8, false, 7),
        };
        Facts { title, name, width, right, rank }
    }

    pub fn title(self) -> &'static str {
        self.facts().title
    }

    pub fn name(self) -> &'static str {
        self.facts().name
    }

    pub fn width(self) -> u16 {
        self.facts().width
    }

    pub fn is_right_aligned(self) -> bool {
        self.facts().right
    }

    pub fn rank(self) -> u8 {
        self.facts().rank
    }

    /// Columns a table can be sorted by.
    pub fn sortable() -> impl Iterator<Item = Column> + Clone {
        Column::ALL.into_iter().filter(|&c| c != Column::Sparkline)
    }

    pub fn from_name(name: &str) -> Option<Column> {
        Column::sortable().find(|column| column.name() == name)
    }

    /// Whether the first sort by it puts the largest on top (numbers) or the first (words).
    pub fn is_descending(self) -> bool {
        !matches!(
            self,
            Column::Program
                | Column::Pid
                | Column::Local
                | Column::Remote
                | Column::Algorithm
                | Column::State
        )
    }

    pub fn key(self, c: &Connection, now_ns: u64) -> Key {
        let state = c.state.unwrap_or_default();
        let number = |value: u32| Key::Number(value.into());
        match self {
            Column::Program => Key::Text(c.program()),
            Column::Pid => number(c.tgid),
            Column::Local => Key::Address(c.endpoints().map(|ends| ends.local)),
            Column::Remote => Key::Address(c.endpoints().map(|ends| ends.remote)),
            Column::Algorithm => Key::Text(c.algorithm()),
            Column::State => number(c.tcp().map_or(0, |tcp| tcp as u32)),
            Column::CaState => number(state.ca_state.into()),
            Column::Rate | Column::Sparkline => {
                let (up, down) = c.rates(now_ns);
                Key::Number(up + down)
            }
            Column::Up => Key::Number(c.rates(now_ns).0),
            Column::Down => Key::Number(c.rates(now_ns).1),
            Column::Cwnd => number(state.cwnd),
            Column::Ssthresh => number(state.ssthresh_set().unwrap_or(0)),
            Column::InFlight => number(state.in_flight()),
            Column::Srtt => number(state.srtt_us),
            Column::MinRtt => number(state.min_rtt().unwrap_or(0)),
            Column::Retransmitted => Key::Number(c.counts.retransmitted as f64),
            Column::Lately => Key::Number(c.retransmitted_lately(now_ns) as f64),
            Column::Rtos => Key::Number(c.counts.rtos as f64),
            Column::Limit => number(c.limit(now_ns).map_or(0, |limit| 1 + index(limit) as u32)),
            Column::SendQueue => number(state.send_queue),
            Column::ReceiveQueue => number(state.recv_queue),
        }
    }

    /// The text of a cell, at most `width` characters, and its tone.
    pub fn cell(self, c: &Connection, now_ns: u64, width: usize, theme: Theme) -> (String, Tone) {
        let (text, tone) = match c.state {
            Some(state) => self.number(c, &state, now_ns, theme),
            None => None,
        }
        .unwrap_or_else(|| self.word(c, now_ns, width, theme));
        let tone = if c.closed_ns.is_some() { Tone::Dim } else { tone };
        (fit(&text, width, theme.ascii), tone)
    }

    fn number(
        self,
        c: &Connection,
        state: &State,
        now_ns: u64,
        theme: Theme,
    ) -> Option<(String, Tone)> {
        let lately = || c.retransmitted_lately(now_ns);
        let alarm = |on: bool| if on { Tone::Bad } else { Tone::Plain };
        let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".into());
        Some(match self {
            Column::Cwnd => (si(state.cwnd.into()), Tone::Strong),
            Column::Ssthresh => (or_dash(state.ssthresh_set().map(|s| si(s.into()))), Tone::Plain),
            Column::InFlight => (si(state.in_flight().into()), Tone::Plain),
            Column::Srtt if state.srtt_us == 0 => ("-".into(), Tone::Plain),
            Column::Srtt => (duration(state.srtt_us, theme.ascii), Tone::Plain),
            Column::MinRtt => {
                (or_dash(state.min_rtt().map(|us| duration(us, theme.ascii))), Tone::Plain)
            }
            Column::Retransmitted => (si(c.counts.retransmitted as f64), alarm(lately() > 0)),
            Column::Lately => (si(lately() as f64), alarm(lately() > 0)),
            Column::Rtos => (si(c.counts.rtos as f64), alarm(state.ca() == Some(CaState::Loss))),
            Column::SendQueue => (si(state.send_queue.into()), Tone::Plain),
            Column::ReceiveQueue => (si(state.recv_queue.into()), Tone::Plain),
            _ => return None,
        })
    }

    fn word(self, c: &Connection, now_ns: u64, width: usize, theme: Theme) -> (String, Tone) {
        let address = |text: String| (fit_address(&text, width, theme.ascii), Tone::Plain);
        match self {
            Column::Program => (printable(&c.program(), theme.ascii), Tone::Plain),
            Column::Pid if c.tgid == 0 => ("-".into(), Tone::Plain),
            Column::Pid => (c.tgid.to_string(), Tone::Plain),
            Column::Local => {
                address(c.endpoints().map_or_else(|| "?".into(), |e| c.called(e.local)))
            }
            Column::Remote => address(
                c.endpoints().map_or_else(|| format!("#{}", c.cookie), |e| c.called(e.remote)),
            ),
            Column::Algorithm => (printable(&c.algorithm(), theme.ascii), Tone::Plain),
            Column::State => (c.tcp().map_or("?", TcpState::name).to_lowercase(), Tone::Plain),
            Column::CaState => ca_cell(c.ca()),
            Column::Rate => rate_cell(c.rates(now_ns), theme),
            Column::Up => plain_rate(c.rates(now_ns).0),
            Column::Down => plain_rate(c.rates(now_ns).1),
            Column::Limit if c.closed_ns.is_some() => ("closed".into(), Tone::Dim),
            Column::Limit => limit_cell(c.limit(now_ns)),
            _ => ("-".into(), Tone::Dim),
        }
    }
}

fn ca_cell(ca: Option<CaState>) -> (String, Tone) {
    let tone = match ca {
        None | Some(CaState::Open) => Tone::Plain,
        Some(CaState::Disorder | CaState::Cwr | CaState::Recovery) => Tone::Warning,
        Some(CaState::Loss) => Tone::Bad,
    };
    (ca.map_or("?", CaState::name).into(), tone)
}

/// Both directions in one: the stronger one with its arrow.
fn rate_cell((up, down): (f64, f64), theme: Theme) -> (String, Tone) {
    if up < 0.5 && down < 0.5 {
        return ("0".into(), Tone::Dim);
    }
    let (arrow, rate) =
        if up >= down { (theme.sign("↑", "^"), up) } else { (theme.sign("↓", "v"), down) };
    (format!("{arrow}{}", si(rate)), Tone::Plain)
}

fn plain_rate(rate: f64) -> (String, Tone) {
    (si(rate), if rate < 0.5 { Tone::Dim } else { Tone::Plain })
}

fn limit_cell(limit: Option<Limit>) -> (String, Tone) {
    use Limit::*;
    let tone = match limit {
        None | Some(Application | Handshake | Receiving | Idle | Unknown) => Tone::Dim,
        Some(Cwnd | Pacing) => Tone::Plain,
        Some(ReceiverWindow | SendBuffer) => Tone::Warning,
        Some(LocalDevice | Repair) => Tone::Bad,
    };
    (limit.map_or("-", Limit::word).into(), tone)
}

/// The columns that fit in `width` characters with one space between them, and their widths.
///
/// The column sorted by always stays; wide screens show both rates apart instead of the stronger.
pub fn choose(width: u16, sort: Column) -> Vec<(Column, u16)> {
    let apart = fill(width, sort, &[Column::Rate]);
    if apart.contains(&Column::Up) && apart.contains(&Column::Down) {
        return spread(apart, width);
    }
    spread(fill(width, sort, &[]), width)
}

/// The width of a column, on a screen that has room for it at all.
fn width_on(screen: u16, column: Column) -> u16 {
    column.width().min(screen)
}

/// Takes columns by rank until one finds no room: a lower rank must not slip in before it.
fn fill(width: u16, sort: Column, without: &[Column]) -> Vec<Column> {
    let mut by_rank: Vec<Column> =
        Column::ALL.into_iter().filter(|column| !without.contains(column)).collect();
    by_rank.sort_by_key(|&column| (column != sort, column.rank()));
    let mut used = 0;
    let mut chosen: Vec<Column> = by_rank
        .into_iter()
        .take_while(|column| {
            used += width_on(width, *column) + u16::from(used > 0);
            width > 0 && used <= width
        })
        .collect();
    chosen.sort_by_key(|&column| column as u8);
    chosen
}

/// Gives the spare characters to the columns that can use them.
fn spread(chosen: Vec<Column>, width: u16) -> Vec<(Column, u16)> {
    let gaps = chosen.len().saturating_sub(1) as u16;
    let mut columns: Vec<(Column, u16)> =
        chosen.into_iter().map(|column| (column, width_on(width, column))).collect();
    let mut spare = width - columns.iter().map(|(_, width)| width).sum::<u16>() - gaps;
    let wishes: [(Column, u16); 5] = [
        (Column::Sparkline, 12),
        (Column::Program, 15),
        (Column::Remote, 28),
        (Column::Local, 28),
        (Column::Sparkline, 60),
    ];
    for (wisher, most) in wishes {
        if let Some((_, width)) = columns.iter_mut().find(|(column, _)| *column == wisher) {
            let more = most.saturating_sub(*width).min(spare);
            *width += more;
            spare -= more;
        }
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(width: u16, sort: Column) -> Vec<&'static str> {
        choose(width, sort).into_iter().map(|(column, _)| column.name()).collect()
    }

    #[test]
    fn eighty_columns_hold_what_matters_most() {
        assert_eq!(
            names(80, Column::Rate),
            ["program", "remote", "rate", "cwnd", "srtt", "retr", "limit", "cwnd_history"]
        );
    }

    #[test]
    fn the_widths_never_exceed_the_screen() {
        for sort in Column::ALL {
            for width in 0..300 {
                let columns = choose(width, sort);
                let gaps = columns.len().saturating_sub(1) as u16;
                let used: u16 = columns.iter().map(|(_, w)| w).sum::<u16>() + gaps;
                assert!(used <= width, "{used} of {width}, sorted by {sort:?}");
            }
        }
    }

    #[test]
    fn the_column_sorted_by_stays_on_a_narrow_screen() {
        assert!(names(80, Column::SendQueue).contains(&"sendq"));
        assert!(names(30, Column::Rtos).contains(&"rtos"));
        for sort in Column::sortable() {
            for width in 1..80 {
                assert!(names(width, sort).contains(&sort.name()), "{sort:?} of {width}");
            }
        }
    }

    #[test]
    fn a_wide_screen_shows_every_column_but_the_joint_rate() {
        assert_eq!(choose(240, Column::Up).len(), Column::ALL.len() - 1);
    }

    #[test]
    fn every_sortable_column_has_its_own_name() {
        for column in Column::sortable() {
            assert_eq!(Column::from_name(column.name()), Some(column));
        }
    }
}
