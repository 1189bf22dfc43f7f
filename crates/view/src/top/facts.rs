//! All numbers of one connection, as labelled words that flow into lines.

use ratatui::text::{Line, Span};
use transom_analysis::Limit;
use transom_event::{CaState, State, TcpState};

use super::connection::Connection;
use super::numbers::{duration, grouped, printable, si};
use super::theme::{Theme, Tone};

struct Fact {
    label: &'static str,
    value: String,
    tone: Tone,
}

fn fact(label: &'static str, value: impl Into<String>) -> Fact {
    Fact { label, value: value.into(), tone: Tone::Plain }
}

fn alarm(label: &'static str, count: u64) -> Fact {
    let tone = if count > 0 { Tone::Warning } else { Tone::Plain };
    Fact { label, value: grouped(count), tone }
}

/// Who the connection is: program, process, both ends.
pub fn who(c: &Connection, theme: Theme) -> String {
    let owner = if c.tgid == 0 { String::new() } else { format!(" [{}]", c.tgid) };
    let ends = match c.endpoints() {
        Some(ends) => format!("{} > {}", c.called(ends.local), c.called(ends.remote)),
        None => format!("#{}", c.cookie),
    };
    printable(&format!("{}{owner}  {ends}", c.program()), theme.ascii)
}

/// The facts in lines of at most `width` characters where a single fact allows it.
pub fn lines(c: &Connection, now_ns: u64, width: usize, theme: Theme) -> Vec<Line<'static>> {
    let mut groups = vec![verdict(c, now_ns, theme), traffic(c, now_ns)];
    if let Some(state) = &c.state {
        groups.push(windows(state));
        groups.push(times(state, theme));
        groups.push(buffers(state));
    }
    groups.push(troubles(c, now_ns));
    groups.push(changes(c, theme));
    groups.into_iter().flat_map(|group| flow(group, width, theme)).collect()
}

fn verdict(c: &Connection, now_ns: u64, theme: Theme) -> Vec<Fact> {
    let mut parts: Vec<(Limit, f64)> =
        c.recent(now_ns).shares().filter(|&(_, share)| share >= 0.01).collect();
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    let shares: Vec<String> = parts
        .into_iter()
        .map(|(limit, share)| format!("{} {:.0}%", limit.word(), share * 100.0))
        .collect();
    let reason = match c.limit(now_ns) {
        None => "-".to_owned(),
        Some(limit) => format!("{} ({})", limit.label(), shares.join(", ")),
    };
    let ca = c.ca();
    let ca_tone = match ca {
        None | Some(CaState::Open) => Tone::Plain,
        Some(CaState::Loss) => Tone::Bad,
        Some(_) => Tone::Warning,
    };
    let mut group = vec![
        fact("algorithm", printable(&c.algorithm(), theme.ascii)),
        fact("state", c.tcp().map_or("?", TcpState::name).to_lowercase()),
        Fact { label: "ca", value: ca.map_or("?", CaState::name).into(), tone: ca_tone },
        Fact { label: "limited by", value: reason, tone: Tone::Strong },
    ];
    if c.sampled {
        group.push(fact("source", "polled"));
    }
    group
}

fn traffic(c: &Connection, now_ns: u64) -> Vec<Fact> {
    let (up, down) = c.rates(now_ns);
    let mut group = vec![
        fact("up", format!("{}B/s", si(up))),
        fact("down", format!("{}B/s", si(down))),
        fact("acked", format!("{}B", si(c.live.acked() as f64))),
        fact("received", format!("{}B", si(c.live.received() as f64))),
    ];
    if let Some(pacing) = c.state.and_then(|state| state.pacing()).filter(|&rate| rate > 0) {
        group.push(fact("pacing", format!("{}B/s", si(pacing as f64))));
    }
    group
}

fn windows(s: &State) -> Vec<Fact> {
    let clamp = s.clamp_set().map(|clamp| fact("clamp", grouped(clamp.into())));
    let group = vec![
        Fact { label: "cwnd", value: grouped(s.cwnd.into()), tone: Tone::Strong },
        fact("ssthresh", s.ssthresh_set().map_or("-".into(), |v| grouped(v.into()))),
        fact("in flight", grouped(s.in_flight().into())),
        fact("out", grouped(s.packets_out.into())),
        fact("sacked", grouped(s.sacked_out.into())),
        fact("lost", grouped(s.lost_out.into())),
        fact("retrans", grouped(s.retrans_out.into())),
    ];
    group.into_iter().chain(clamp).collect()
}

fn times(s: &State, theme: Theme) -> Vec<Fact> {
    let time = |us: u32| duration(us, theme.ascii);
    let rto = match s.backoff {
        0 => time(s.rto_us),
        n => format!("{} (doubled {n} times)", time(s.rto_us)),
    };
    vec![
        fact("srtt", time(s.srtt_us)),
        fact("mdev", s.mdev().map_or("-".into(), time)),
        fact("min rtt", s.min_rtt().map_or("-".into(), time)),
        fact("rto", rto),
        fact("mss", grouped(s.mss.into())),
    ]
}

fn buffers(s: &State) -> Vec<Fact> {
    let bytes = |n: u32| format!("{}B", si(n.into()));
    vec![
        fact("snd_wnd", bytes(s.snd_wnd)),
        fact("rcv_wnd", bytes(s.rcv_wnd)),
        fact("unsent", bytes(s.unsent)),
        fact("sendq", bytes(s.send_queue)),
        fact("recvq", bytes(s.recv_queue)),
    ]
}

fn troubles(c: &Connection, now_ns: u64) -> Vec<Fact> {
    let counts = &c.counts;
    vec![
        alarm("retr", counts.retransmitted),
        alarm("retr/s", c.retransmitted_lately(now_ns)),
        alarm("rtos", counts.rtos),
        alarm("dup_ack", counts.dup_acks),
        alarm("sack", counts.sacks),
        alarm("local", counts.local_congestion),
        alarm("zero_wnd", counts.zero_windows),
        alarm("reset", counts.resets),
    ]
}

fn changes(c: &Connection, theme: Theme) -> Vec<Fact> {
    [
        ("algorithm changed", &c.last_algorithm),
        ("clamp changed", &c.last_clamp),
        ("changed by Transom", &c.last_action),
    ]
    .into_iter()
    .filter_map(|(label, mark)| {
        Some(fact(label, printable(&mark.as_ref()?.line(c.first_ns), theme.ascii)))
    })
    .collect()
}

fn flow(group: Vec<Fact>, width: usize, theme: Theme) -> Vec<Line<'static>> {
    let mut lines: Vec<Line<'static>> = Vec::new();
    for Fact { label, value, tone } in group {
        let gap = if lines.is_empty() { "" } else { "  " };
        let words = [
            Span::raw(gap),
            Span::styled(format!("{label} "), theme.style(Tone::Dim)),
            Span::styled(value, theme.style(tone)),
        ];
        let needs: usize = words.iter().map(Span::width).sum();
        match lines.last_mut() {
            Some(line) if line.width() + needs <= width => line.spans.extend(words),
            _ => lines.push(Line::from(words.into_iter().skip(1).collect::<Vec<_>>())),
        }
    }
    lines
}
