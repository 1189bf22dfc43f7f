//! The page: one document without scripts, fonts or pictures of others.

use std::fmt::Write;

use transom_spool::Time;

use super::band::{Band, Bands};
use super::figures::{Figures, Prefix, Service};
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
    html += &columns(figures, most, |_| most);
    let _ = writeln!(html, "<h3>Their shares</h3>");
    html += &columns(figures, 1.0, |step| step.iter().sum());
    html + "</section>\n"
}

/// Stacked columns, each of a height of `whole`; the axis ends at `top`.
fn columns(figures: &Figures, top: f64, whole: impl Fn(&Bands) -> f64) -> String {
    let name = if top > 1.0 { count(top) } else { "100 %".into() };
    let mut html = format!("<figure class=\"columns\"><b>{name}</b><svg viewBox=\"0 0 ");
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
    html + "</table>" + &more(services.len(), "services") + "</section>\n"
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
    html + "</table>" + &more(prefixes.len(), "prefixes") + "</section>\n"
}

fn agents(figures: &Figures) -> String {
    let agents = &figures.agents;
    let remarks = agents.iter().filter(|agent| figures.has_remark(agent)).count();
    let mut html = String::from("<section><h2>Agents</h2>\n");
    if agents.is_empty() {
        return html + "<p>None said anything in this time.</p></section>\n";
    }
    let _ = writeln!(html, "<p>{} agents, {remarks} of them with a remark.</p>", agents.len());
    html += "<table><thead><tr><th>host<th class=\"number\">CPU at most<th class=\"number\">level\
             <th class=\"number\">rows lost<th class=\"number\">gaps<th>last seen<th>version</thead>\n";
    for agent in agents.iter().take(MOST_ROWS) {
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
    html + "</table>" + &more(agents.len(), "agents") + "</section>\n"
}

fn more(rows: usize, what: &str) -> String {
    match rows.saturating_sub(MOST_ROWS) {
        0 => String::new(),
        more => format!("<p class=\"soft\">{more} more {what}</p>"),
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

    #[test]
    fn numbers_are_short_and_their_thousands_apart() {
        assert_eq!(count(1_234_567.0), "1\u{202f}234\u{202f}567");
        assert_eq!([0.0, 999.0, 1_500.0, 2.5e9].map(bytes), ["0 B", "999 B", "1.5 kB", "2.5 GB"]);
        assert_eq!([0.0, 0.0005, 0.0464].map(percent), ["0.0 %", "< 0.1 %", "4.6 %"]);
    }
}
