//! The answer, for people.

use std::fmt::Write;

use transom_analysis::units::{bytes, count, percent, rate, time};
use transom_event::Names;
use transom_event::text::Utc;
use transom_spool::{Answer, Connection, Question, RowKind, Slow, Summary, held_back_us};

pub fn answer(question: &Question, answer: &Answer, newest: Option<i64>, names: &Names) -> String {
    let mut text = String::new();
    // A String takes whatever is written.
    let _ = write_answer(&mut text, question, answer, newest, names);
    text
}

fn write_answer(
    to: &mut String,
    question: &Question,
    answer: &Answer,
    newest: Option<i64>,
    names: &Names,
) -> std::fmt::Result {
    let clock = |us: i64| Utc::from_us(us).format("%Y-%m-%d %H:%M:%S");
    writeln!(to, "{} to {} UTC", clock(question.from.0), clock(question.to.0))?;
    summary(to, &answer.asked, &answer.hour_before)?;
    for (at, what) in &answer.missing {
        writeln!(to, "missing: {what} ({} UTC)", clock(at.0))?;
    }
    match newest {
        None => writeln!(to, "no row is of this time or the two hours before")?,
        Some(us) if us < question.to.0 => {
            writeln!(to, "the newest row is of {} UTC", clock(us))?;
        }
        Some(_) => {}
    }
    if answer.whole_life > 0 {
        let have = ["connection that began before has", "connections that began before have"];
        let connections = count(answer.whole_life, have[0], have[1]);
        let life =
            if answer.whole_life == 1 { "its whole life is" } else { "their whole lives are" };
        writeln!(to, "{connections} no row in the two hours before: {life} counted")?;
    }
    if answer.level_0 > 0 {
        let rows = count(answer.level_0, "row is", "rows are");
        writeln!(to, "{rows} of level 0: without retransmissions by cause")?;
    }
    if !answer.recorded.is_empty() {
        let connections = count(answer.recorded.len() as u64, "connection has", "connections have");
        writeln!(to, "{connections} events, too (level 2): --report OUT.html shows them")?;
    }
    if !answer.slow.is_empty() {
        writeln!(to, "\nheld back longest:")?;
    }
    for slow in &answer.slow {
        one(to, slow, names)?;
    }
    Ok(())
}

fn summary(to: &mut String, now: &Summary, before: &Summary) -> std::fmt::Result {
    let us = |us: Option<u64>| us.map_or("-".into(), |us| time(us * 1000));
    let bits = |bits: Option<u64>| bits.map_or("-".into(), |bits| rate(bits as f64));
    let main = |of: &Summary| {
        of.verdicts
            .first()
            .map_or("-".into(), |(cause, share)| format!("{} {}", cause.name(), percent(*share)))
    };
    type Of = fn(&Summary) -> String;
    let rows: [(&str, Of); 5] = [
        ("connections", |of| of.connections.to_string()),
        ("never established", |of| of.failed.to_string()),
        ("bytes acknowledged", |of| bytes(of.bytes_acked)),
        ("bytes received", |of| bytes(of.bytes_received)),
        ("retransmitted", |of| percent(of.retransmitted)),
    ];
    writeln!(to, "\n{:22}{:>18}{:>18}", "", "asked for", "hour before")?;
    for (name, of) in rows {
        writeln!(to, "{name:22}{:>18}{:>18}", of(now), of(before))?;
    }
    let more = [
        ("timeouts", now.timeouts.to_string(), before.timeouts.to_string()),
        ("RTT, median", us(now.median_rtt_us), us(before.median_rtt_us)),
        ("handshake, p99", us(now.p99_handshake_us), us(before.p99_handshake_us)),
        ("rate, median", bits(now.median_rate), bits(before.median_rate)),
        ("most frequent verdict", main(now), main(before)),
    ];
    for (name, now, before) in more {
        writeln!(to, "{name:22}{now:>18}{before:>18}")?;
    }
    Ok(())
}

/// Rows by themselves.
pub fn rows(rows: &[Connection], names: &Names) -> String {
    let mut text = String::new();
    for row in rows {
        // A String takes whatever is written.
        let _ = line(&mut text, row, names);
    }
    text
}

fn line(to: &mut String, row: &Connection, names: &Names) -> std::fmt::Result {
    let clock = Utc::from_us(row.time.0).format("%H:%M:%S");
    let name = |text: &Option<transom_spool::Text>| text.as_deref().unwrap_or("?").to_owned();
    let arrow = if row.direction.name() == "accept" { "←" } else { "→" };
    let address = row.remote_address.as_deref();
    let called = address.and_then(|address| names.host(address.parse().ok()?));
    let peer = called.or(address).or(row.remote_prefix.as_deref()).unwrap_or("?");
    writeln!(
        to,
        "\n  {clock} {} {arrow} {} port {}{} (#{}){}",
        name(&row.program),
        peer,
        row.service,
        names.service(row.service).map_or(String::new(), |name| format!(" {name}")),
        row.cookie,
        row.unit.as_deref().map_or(String::new(), |unit| format!(", {unit}")),
    )?;
    writeln!(to, "    {}", facts(row))?;
    if let Some(last) = &row.last_decisions {
        writeln!(to, "    last decisions: {last}")?;
    }
    Ok(())
}

fn one(to: &mut String, slow: &Slow, names: &Names) -> std::fmt::Result {
    line(to, &slow.row, names)?;
    if let Some(prelude) = &slow.prelude {
        writeln!(
            to,
            "    recorded from {} on ({}); before, from level 1: {}",
            Utc::from_us(prelude.chosen.0).format("%H:%M:%S"),
            prelude.why.name(),
            prelude.decisions
        )?;
    }
    let others = &slow.others;
    if others.connections == 0 {
        return writeln!(to, "    no other connection to this prefix");
    }
    let rtt = others.median_rtt_us.map_or(String::new(), |us| format!(", RTT {}", time(us * 1000)));
    writeln!(
        to,
        "    {} to this prefix: {} retransmitted{rtt}, {} never established",
        count(others.connections, "other connection", "other connections"),
        percent(others.retransmitted),
        others.failed,
    )
}

fn facts(row: &Connection) -> String {
    let mut facts = Vec::new();
    if row.kind == RowKind::Failed {
        facts.push(format!("never established ({})", row.ended.name()));
    } else {
        facts.push(format!("{} ({})", row.verdict.name(), percent(row.verdict_share)));
    }
    facts.push(format!("held back {}", time(held_back_us(row) * 1000)));
    if let Some(us) = row.duration_us {
        facts.push(format!("lasted {}", time(us * 1000)));
    }
    facts.push(format!("{} sent, {} received", bytes(row.bytes_acked), bytes(row.bytes_received)));
    if row.retransmitted > 0 {
        facts.push(format!("{} retransmitted", percent(row.retransmitted_share())));
    }
    if let Some(timeouts @ 1..) = row.timeouts {
        facts.push(count(timeouts.into(), "timeout", "timeouts"));
    }
    if let Some((least, smoothed)) = row.min_rtt_us.zip(row.srtt_us) {
        let us = |us: u32| time(u64::from(us) * 1000);
        facts.push(format!("RTT {} to {}", us(least), us(smoothed)));
    }
    facts.push(row.ended.name().to_owned());
    facts.join(", ")
}
