//! The page: one document without scripts, fonts or pictures of others.

use std::fmt::Write;

use transom_spool::Time;

use super::band::{Band, Bands};
use super::figures::{Figures, MOST_PREFIXES, Prefix, Service};
use super::policies;
use crate::ask::time::utc;

const STYLE: &str = include_str!("../../assets/page.css");
const MOST_ROWS: usize = 15;

/// What the page says beside its figures.
pub struct Notes<'a> {
    pub from: &'a str,
    /// The browser asks again after so many seconds.
    pub refresh: Option<u64>,
    /// What is wrong with the figures.
    pub trouble: Option<String>,
}

pub fn page(figures: &Figures, notes: &Notes<'_>) -> String {
    let mut html = String::from("<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n");
    html += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
    if let Some(seconds) = notes.refresh {
        html += &format!("<meta http-equiv=\"refresh\" content=\"{seconds}\">\n");
    }
    html += &format!("<title>Transom fleet</title>\n<style>\n{STYLE}</style>\n");
    html += &header(figures, notes);
    if figures.ended() > 0.0 {
        html += &over_time(figures);
        html += &services(&figures.services);
    }
    html += &prefixes(&figures.prefixes);
    if let Some(shown) = &figures.policies {
        html += &policies::section(shown);
    }
    html += &agents(figures);
    html += "<footer>A verdict is what held a connection back, as far as its counters tell. \
             <code>transom-fleet explain --customer PREFIX</code> says whose matter it is.</footer>\n";
    html
}

fn header(figures: &Figures, notes: &Notes<'_>) -> String {
    let mut html = String::from("<header><h1>Transom fleet</h1>");
    let newest = figures.newest.map_or("none".into(), utc);
    let facts = [
        escaped(notes.from),
        format!("{} to {}", utc(figures.begin), utc(figures.end)),
        format!("{} connections ended", count(figures.ended())),
        format!("{} acknowledged", bytes(figures.bytes_acked)),
        format!("newest row {newest}"),
    ];
    let facts = facts.map(|fact| format!("<span>{fact}</span>"));
    html += &format!("<p class=\"facts\">{}</p>", facts.join(" "));
    let nothing = (figures.ended() == 0.0)
        .then(|| "No connection ended in this time, or none has been shipped yet.".to_owned());
    for trouble in notes.trouble.iter().chain(&nothing) {
        html += &format!("<p class=\"notice\">{}</p>", escaped(trouble));
    }
    html + "</header>\n"
}

fn over_time(figures: &Figures) -> String {
    let most = figures.steps.iter().map(|step| step.iter().sum::<f64>()).fold(1.0, f64::max);
    let step = figures.step_us / 60_000_000;
    let mut html = String::from("<section><h2>What held connections back</h2>\n<p class=\"keys\">");
    for band in Band::ALL {
        let (class, title) = (band.class(), band.title());
        let _ = write!(html, "<span><i class=\"{class}\"></i>{title}</span> ");
    }
    let _ = writeln!(html, "</p>\n<h3>Connections that ended in {step} min</h3>");
    html += &columns(figures, &count(most), |_| most);
    let _ = writeln!(html, "<h3>Their shares</h3>");
    html += &columns(figures, "100 %", |step| step.iter().sum());
    html + "</section>\n"
}

/// Stacked columns, each of a height of `whole`; `top` is what the axis ends with.
fn columns(figures: &Figures, top: &str, whole: impl Fn(&Bands) -> f64) -> String {
    let mut html = format!("<figure class=\"columns\"><b>{top}</b><svg viewBox=\"0 0 ");
    let _ =
        write!(html, "{} 100\" preserveAspectRatio=\"none\" role=\"img\">", figures.steps.len());
    for (at, step) in figures.steps.iter().enumerate() {
        let ended: f64 = step.iter().sum();
        if ended == 0.0 {
            continue;
        }
        let begun = utc(Time(figures.first() + at as i64 * figures.step_us));
        let _ = write!(html, "<g><title>{begun}: {}</title>", in_words(step));
        let mut below = 0.0;
        for band in Band::ALL {
            let height = step[band.index()] / whole(step) * 100.0;
            if height > 0.0 {
                let y = 100.0 - below - height;
                let class = band.class();
                let _ = write!(
                    html,
                    "<rect class=\"{class}\" x=\"{at}.06\" y=\"{y:.2}\" width=\".88\" height=\"{height:.2}\"/>"
                );
                below += height;
            }
        }
        html += "</g>";
    }
    let days = figures.end.0 - figures.begin.0 > 86_400_000_000;
    let clock = |time: Time| utc(time)[if days { 5..16 } else { 11..16 }].replace('T', " ");
    let middle = Time(i64::midpoint(figures.begin.0, figures.end.0));
    let times =
        [figures.begin, middle, figures.end].map(|time| format!("<span>{}</span>", clock(time)));
    let _ = writeln!(html, "</svg><figcaption>{}</figcaption></figure>", times.join(""));
    html
}

fn in_words(bands: &Bands) -> String {
    let whole: f64 = bands.iter().sum();
    let told = Band::ALL
        .iter()
        .filter(|band| bands[band.index()] > 0.0)
        .map(|band| format!("{} {:.1} %", band.title(), bands[band.index()] / whole * 100.0));
    format!("{} connections; {}", count(whole), told.collect::<Vec<_>>().join(", "))
}

fn services(services: &[Service]) -> String {
    let mut html = String::from("<section><h2>Services</h2>\n<table class=\"services\">");
    html += "<thead><tr><th>service<th class=\"number\">connections<th class=\"number\">acknowledged\
             <th>what held them back</thead>\n";
    for Service { name, bands, bytes_acked } in services.iter().take(MOST_ROWS) {
        let whole: f64 = bands.iter().sum();
        let parts = Band::ALL.iter().filter(|band| bands[band.index()] > 0.0).map(|band| {
            let share = bands[band.index()] / whole * 100.0;
            format!("<i class=\"{}\" style=\"width:{share:.2}%\"></i>", band.class())
        });
        let _ = writeln!(
            html,
            "<tr><th scope=\"row\">{}<td class=\"number\">{}<td class=\"number\">{}<td title=\"{}\">\
             <div class=\"stack\">{}</div>",
            escaped(name),
            count(whole),
            bytes(*bytes_acked),
            in_words(bands),
            parts.collect::<String>(),
        );
    }
    html + "</table>" + &more(services.len(), "services", None) + "</section>\n"
}

fn prefixes(prefixes: &[Prefix]) -> String {
    let mut html = String::from("<section><h2>Prefixes that lose more than others</h2>\n");
    if prefixes.is_empty() {
        return html + "<p>None, by four standard errors.</p></section>\n";
    }
    html += "<table><thead><tr><th>prefix<th class=\"number\">sent again<th class=\"number\">at least\
             <th class=\"number\">others<th class=\"number\">connections<th class=\"number\">hosts</thead>\n";
    for prefix in prefixes.iter().take(MOST_ROWS) {
        let _ = writeln!(
            html,
            "<tr title=\"{} to {}\"><th scope=\"row\">{}<td class=\"number\">{}<td class=\"number\">{}\
             <td class=\"number\">{}<td class=\"number\">{}<td class=\"number\">{}",
            percent(prefix.low),
            percent(prefix.high),
            escaped(&prefix.prefix),
            percent(prefix.share),
            percent(prefix.low),
            percent(prefix.others),
            count(prefix.ended),
            count(prefix.hosts),
        );
    }
    html + "</table>" + &more(prefixes.len(), "prefixes", Some(MOST_PREFIXES)) + "</section>\n"
}

fn agents(figures: &Figures) -> String {
    let Figures { agents, silent, begin, .. } = figures;
    let all = agents.len() + silent.len();
    let mut html = String::from("<section><h2>Agents</h2>\n");
    if all == 0 {
        return html + "<p>None said anything in this time.</p></section>\n";
    }
    let remarks = agents.iter().filter(|agent| figures.has_remark(agent)).count() + silent.len();
    let _ = writeln!(html, "<p>{all} agents, {remarks} of them with a remark.</p>");
    html += "<table class=\"hosts\"><thead><tr><th>host<th class=\"number\">CPU at most\
             <th class=\"number\">level<th class=\"number\">rows lost<th class=\"number\">gaps\
             <th>last seen<th>version</thead>\n";
    for host in silent.iter().take(MOST_ROWS) {
        let _ = writeln!(
            html,
            "<tr class=\"remark\"><th scope=\"row\">{}{}<td>before {}<td>-",
            escaped(host),
            "<td class=\"number\">-".repeat(4),
            utc(*begin),
        );
    }
    for agent in agents.iter().take(MOST_ROWS.saturating_sub(silent.len())) {
        let remark = if figures.has_remark(agent) { " class=\"remark\"" } else { "" };
        let gaps = match agent.gaps {
            0.0 => "0".to_owned(),
            gaps => format!("{gaps}, {:.0} s", agent.gap_us / 1e6),
        };
        let _ = writeln!(
            html,
            "<tr{remark}><th scope=\"row\">{}<td class=\"number\">{}<td class=\"number\">{}\
             <td class=\"number\">{}<td class=\"number\">{gaps}<td>{}<td>{}",
            escaped(&agent.host),
            percent(agent.cpu),
            agent.level,
            count(agent.lost),
            utc(agent.seen),
            escaped(&agent.version),
        );
    }
    html + "</table>" + &more(all, "agents", None) + "</section>\n"
}

/// `asked`: for so many at most.
fn more(rows: usize, what: &str, asked: Option<usize>) -> String {
    let at_least = if asked.is_some_and(|asked| rows >= asked) { "at least " } else { "" };
    match rows.saturating_sub(MOST_ROWS) {
        0 => String::new(),
        more => format!("<p class=\"soft\">{at_least}{more} more {what}</p>"),
    }
}

pub fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            letter => escaped.push(letter),
        }
    }
    escaped
}

/// Thousands apart, as 1 234 567.
pub fn count(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut apart = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            apart.push('\u{202f}');
        }
        apart.push(digit);
    }
    apart
}

fn bytes(number: f64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB", "PB"];
    let power = (number.max(1.0).log10() / 3.0).floor().min(5.0);
    let digits = usize::from(power > 0.0);
    format!("{:.digits$} {}", number / 1000f64.powf(power), units[power as usize])
}

fn percent(share: f64) -> String {
    if share != 0.0 && share < 0.001 { "< 0.1 %".into() } else { format!("{:.1} %", share * 100.0) }
}

#[cfg(test)]
mod tests {
    use super::super::figures::Agent;
    use super::*;

    #[test]
    fn what_somebody_called_a_host_is_no_part_of_the_page() {
        let agent = Agent {
            host: "<script>\"&".into(),
            seen: Time(0),
            version: "1".into(),
            level: 1.0,
            cpu: 0.001,
            lost: 0.0,
            gaps: 0.0,
            gap_us: 0.0,
        };
        let figures = Figures { agents: vec![agent], ..Figures::of(Time(0), Time(60_000_000)) };
        let notes = Notes { from: "<b>", refresh: None, trouble: Some("<i>".into()) };
        let html = page(&figures, &notes);
        assert!(html.contains("&lt;script&gt;&quot;&amp;") && !html.contains("<script"));
        assert!(html.contains("&lt;b&gt;") && html.contains("&lt;i&gt;"));
        assert!(html.contains("No connection ended"), "and says that there is nothing");
    }

    fn shown(figures: &Figures) -> String {
        page(figures, &Notes { from: "x", refresh: None, trouble: None })
    }

    #[test]
    fn of_more_prefixes_than_were_asked_for_nobody_knows_how_many_there_are() {
        let prefix = Prefix {
            prefix: "198.18.0.0/24".into(),
            ended: 100.0,
            hosts: 2.0,
            share: 0.05,
            low: 0.04,
            high: 0.06,
            others: 0.001,
        };
        let shown = |number: usize| {
            let prefixes = vec![prefix.clone(); number];
            shown(&Figures { prefixes, ..Figures::of(Time(0), Time(60_000_000)) })
        };
        assert!(shown(MOST_PREFIXES).contains(">at least 35 more prefixes<"));
        assert!(shown(MOST_PREFIXES - 1).contains(">34 more prefixes<"));
        assert!(!shown(MOST_ROWS).contains("more prefixes"));
    }

    #[test]
    fn the_axis_of_numbers_ends_with_a_number_also_where_no_step_has_more_than_one() {
        let mut figures = Figures::of(Time(0), Time(60_000_000));
        figures.steps[0][0] = 1.0;
        let html = shown(&figures);
        let axes: Vec<&str> = html.split("<b>").skip(1).map(|axis| &axis[..5]).collect();
        assert_eq!(axes, ["1</b>", "100 %"]);
    }

    #[test]
    fn a_machine_whose_agent_said_nothing_in_this_time_is_there_with_a_remark() {
        let mut figures = Figures::of(Time(0), Time(60_000_000));
        figures.silent = vec!["web-1".into()];
        let html = shown(&figures);
        assert!(html.contains("1 agents, 1 of them with a remark"), "{html}");
        assert!(html.contains("<tr class=\"remark\"><th scope=\"row\">web-1<"), "{html}");
        assert!(html.contains("before 1970-01-01T00:00:00Z"), "{html}");
        figures.silent = (0..40).map(|n| n.to_string()).collect();
        assert!(shown(&figures).contains(">25 more agents<"));
    }

    #[test]
    fn numbers_are_short_and_their_thousands_apart() {
        assert_eq!(count(1_234_567.0), "1\u{202f}234\u{202f}567");
        assert_eq!([0.0, 999.0, 1_500.0, 2.5e9].map(bytes), ["0 B", "999 B", "1.5 kB", "2.5 GB"]);
        assert_eq!([0.0, 0.0005, 0.0464].map(percent), ["0.0 %", "< 0.1 %", "4.6 %"]);
    }
}
