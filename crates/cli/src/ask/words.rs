//! A question in words: `14:03..14:05 port 443`.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use transom_event::Prefix;
use transom_event::text::Utc;
use transom_spool::{Cause, Question, Time, Wanted};

use crate::filters::duration;
use crate::range::{DAY, Moment};
use crate::service::port;

/// What can be said, for messages.
const WORDS: &str = "a question has a time (14:03..14:05, 14:03, last 10m, last 2d) and any of: port N or service, \
                     program NAME, unit NAME, pod UID, container ID, to ADDRESS, verdict NAME, \
                     failed, #COOKIE";

/// Without a time: so long until now.
const USUAL: Duration = Duration::from_secs(600);
/// A moment without an end is a minute.
const MINUTE_US: i64 = 60_000_000;

/// # Errors
/// A word that is none or comes twice, or a value that its word cannot have.
pub fn question(words: &[String], now: Time) -> Result<Question> {
    let all = apart(words);
    let mut words = all.into_iter().peekable();
    let mut question =
        Question { from: Time(now.0 - micros(USUAL)), to: now, wanted: Wanted::default() };
    let mut said: Vec<&str> = Vec::new();
    while let Some(word) = words.next() {
        let idea = idea(word);
        ensure!(!said.contains(&idea), "{idea} is there twice: ask once for each");
        said.push(idea);
        if date(word).is_some() {
            let time = words.next_if(|next| next.contains(':'));
            (question.from, question.to) = of_day(word, time, now)?;
            continue;
        }
        let mut value = || words.next().with_context(|| format!("'{word}' of what? {WORDS}"));
        let wanted = &mut question.wanted;
        match word {
            "last" => question.from = last(value()?, now)?,
            "port" => wanted.port = Some(port(value()?)?),
            "program" => wanted.program = Some(transom_event::kept_name(value()?)),
            "unit" => wanted.unit = Some(value()?.into()),
            "pod" => wanted.pod = Some(pod(value()?)?),
            "container" => wanted.container = Some(container(value()?).into()),
            "to" => wanted.to = Some(address(value()?)?),
            "verdict" => wanted.verdict = Some(cause(value()?)?),
            "failed" => wanted.failed = true,
            _ if word.starts_with('#') => wanted.cookie = Some(cookie(word)?),
            _ if is_time(word) => (question.from, question.to) = times(word, now)?,
            _ if matches!(said.iter().nth_back(1), Some(&("program" | "unit"))) => {
                bail!("'{word}' is no word of a question. A name with spaces needs quotes: {WORDS}")
            }
            _ => bail!("'{word}' is no word of a question: {WORDS}"),
        }
    }
    Ok(question)
}

/// Words may come in one argument or in many; a name with spaces in it, as `tmux: server`, comes in
/// one of its own.
fn apart(arguments: &[String]) -> Vec<&str> {
    let mut words: Vec<&str> = Vec::new();
    for argument in arguments {
        match words.last() {
            Some(&("program" | "unit")) if !argument.trim().is_empty() => words.push(argument),
            _ => words.extend(argument.split_whitespace()),
        }
    }
    words
}

/// What a word is about: a question has one time, one port and so on.
fn idea(word: &str) -> &str {
    match word {
        "last" => "a time",
        _ if word.starts_with('#') => "a cookie",
        _ if is_time(word) => "a time",
        _ => word,
    }
}

/// Written like one, or like a stretch or a date.
fn is_time(word: &str) -> bool {
    let is_of_date = |byte: u8| byte.is_ascii_digit() || byte == b'-';
    let is_date = |text: &str| text.len() == 10 && text.bytes().all(is_of_date);
    word.contains(':') || word.split("..").any(is_date)
}

/// Midnight, as a time since 1970.
fn date(word: &str) -> Option<Duration> {
    let is_written = word.len() == 10 && word.matches('-').count() == 2;
    let midnight = is_written.then(|| Utc::of_date(word))??.seconds();
    u64::try_from(midnight).ok().map(Duration::from_secs)
}

/// `2026-11-23 14:03..14:05`, or all of the day.
fn of_day(day: &str, time: Option<&str>, now: Time) -> Result<(Time, Time)> {
    if let Some(time) = time {
        return times(&format!("{day}T{time}"), now);
    }
    let from = Time(micros(date(day).context("a date")?));
    ensure!(from <= now, "{}", to_come(day, now));
    Ok((from, now.min(Time(from.0 + micros(DAY)))))
}

/// When that began.
fn last(text: &str, now: Time) -> Result<Time> {
    // Elsewhere a bare number is seconds, which nobody means here.
    ensure!(text.parse::<f64>().is_err(), "'last {text}': {text} of what? say {text}m or {text}h");
    let days = text.strip_suffix('d').and_then(|days| days.parse::<u32>().ok());
    let time = days.map_or_else(|| duration(text), |days| Ok(DAY * days));
    let time = time.with_context(|| format!("'last {text}': give a time as 10m, 2h or 3d"))?;
    ensure!(!time.is_zero(), "'last {text}' is no time at all: give one as 10m, 2h or 3d");
    let from = Time(now.0.saturating_sub(micros(time)));
    ensure!(from.0 >= 0, "'last {text}' begins before 1970: `last 365d` is the last year");
    Ok(from)
}

/// Rows have the UID only.
fn pod(text: &str) -> Result<String> {
    ensure!(
        !text.contains('/'),
        "'{text}': rows have the UID of a pod. Give it, or its beginning: kubectl get pod NAME -o \
         jsonpath={{.metadata.uid}}"
    );
    // In the name of a cgroup it has `_`.
    Ok(text.replace('_', "-"))
}

/// Kubernetes says the runtime, too: `containerd://8c6f…`.
fn container(text: &str) -> &str {
    text.split_once("://").map_or(text, |(_, id)| id)
}

/// Rows have no name of the peer's, and `port` is a word of its own.
fn address(text: &str) -> Result<String> {
    if let Ok(both) = text.parse::<SocketAddr>() {
        bail!("'{text}' has a port, too: say `to {} port {}`", both.ip(), both.port());
    }
    let is_written = |c: char| c.is_ascii_hexdigit() || matches!(c, '.' | ':' | '/');
    ensure!(
        text.chars().all(is_written) && text.contains(['.', ':']),
        "'{text}' is no address: give one or its beginning, as 192.0.2. or 2001:db8: (`getent ahosts \
         {text}` says those of a name)"
    );
    if text.contains('/')
        && let Err(error) = text.parse::<Prefix>()
    {
        bail!("'{text}' is no prefix of an address: {error}");
    }
    let mut octets = text.split('/').next().unwrap_or_default().split('.');
    let large = octets.find(|octet| octet.parse::<u32>().is_ok_and(|number| number > 255));
    if let Some(octet) = large.filter(|_| !text.contains(':')) {
        bail!("'{text}' is the beginning of no address: {octet} is more than 255");
    }
    // Other programs read such a number as an octal one.
    let mut octets = text.split('/').next().unwrap_or_default().split('.');
    let padded = octets.find(|octet| octet.len() > 1 && octet.starts_with('0'));
    if let Some(octet) = padded.filter(|_| !text.contains(':')) {
        bail!("'{text}' is the beginning of no address: {octet} begins with a zero");
    }
    Ok(text.into())
}

fn cookie(word: &str) -> Result<u64> {
    word[1..]
        .parse()
        .ok()
        .with_context(|| format!("'{word}': a cookie is a number, as an answer shows it: #4990"))
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

fn cause(text: &str) -> Result<Cause> {
    let found = Cause::ALL.iter().find(|cause| cause.name() == text);
    let names = || Cause::ALL.iter().map(|cause| cause.name()).collect::<Vec<_>>().join(", ");
    found.copied().with_context(|| format!("'{text}' is no verdict: {}", names()))
}

/// `FROM..TO`, or one moment and the minute after it. A time of day is the last one that was; that
/// of an end is the first one after the begin.
fn times(text: &str, now: Time) -> Result<(Time, Time)> {
    let (from_said, to_said) = text.split_once("..").unwrap_or((text, ""));
    ensure!(!from_said.is_empty(), "'{text}': say when it begins, as 14:03{text}");
    let from = match date_or_moment(from_said, Duration::ZERO)? {
        Moment::Wall(time) => time,
        Moment::OfDay(time) => last_before(time, now),
        Moment::SinceBegin(_) => bail!("'{from_said}': give a time of day in UTC, or `last 10m`"),
    };
    let from = Time(micros(from));
    ensure!(from <= now, "{}", to_come(from_said, now));
    let to = match to_said {
        "" if text == from_said => Time(from.0 + MINUTE_US),
        "" => now,
        _ => match date_or_moment(to_said, DAY)? {
            Moment::Wall(time) => Time(micros(time)),
            Moment::OfDay(time) => first_from(time, from),
            Moment::SinceBegin(_) => bail!("'{to_said}': give a time of day in UTC"),
        },
    };
    ensure!(from != to, "'{text}' ends when it begins");
    ensure!(from < to, "'{text}' ends before it begins: give the earlier time first");
    // What is still to come has no rows.
    Ok((from, to.min(now).max(from)))
}

fn to_come(text: &str, now: Time) -> String {
    let now = Utc::from_us(now.0).format("%Y-%m-%d %H:%M:%S");
    format!("'{text}' is still to come: it is {now} UTC now")
}

/// Of a date so long after its midnight.
fn date_or_moment(text: &str, after: Duration) -> Result<Moment> {
    date(text).map_or_else(|| moment(text), |midnight| Ok(Moment::Wall(midnight + after)))
}

fn moment(text: &str) -> Result<Moment> {
    crate::range::moment(text).ok().with_context(|| {
        format!(
            "'{text}' is no time: give one in UTC, as 14:03 or 2026-11-23T14:03, or two, as \
             14:03..14:05"
        )
    })
}

/// In the day of `now`, or the one before.
fn last_before(of_day: Duration, now: Time) -> Duration {
    let today = midnight(now) + of_day;
    if micros(today) > now.0 { today.saturating_sub(DAY) } else { today }
}

/// In the day of `from`, or the one after.
fn first_from(of_day: Duration, from: Time) -> Time {
    let same_day = Time(micros(midnight(from) + of_day));
    if same_day < from { Time(same_day.0 + micros(DAY)) } else { same_day }
}

fn midnight(time: Time) -> Duration {
    let seconds = time.0.max(0) as u64 / 1_000_000;
    Duration::from_secs(seconds - seconds % DAY.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-23T14:10:00Z
    const NOW: Time = Time(1_795_443_000_000_000);

    fn asked(text: &str) -> Question {
        question(&[text.to_owned()], NOW).unwrap()
    }

    fn minutes_ago(time: Time) -> i64 {
        (NOW.0 - time.0) / MINUTE_US
    }

    #[test]
    fn a_time_of_day_is_the_last_one_that_was() {
        let question = asked("14:03..14:05 port 443");
        assert_eq!((minutes_ago(question.from), minutes_ago(question.to)), (7, 5));
        assert_eq!(question.wanted.port, Some(443));
        assert_eq!(minutes_ago(asked("14:11").from), 24 * 60 - 1);
    }

    #[test]
    fn without_a_time_it_is_about_the_last_ten_minutes() {
        assert_eq!(minutes_ago(asked("program curl").from), 10);
        assert_eq!(minutes_ago(asked("last 2h failed").from), 120);
    }

    #[test]
    fn a_stretch_may_go_over_midnight_or_be_open() {
        let night = asked("23:59..00:01");
        assert_eq!((night.to.0 - night.from.0) / MINUTE_US, 2);
        assert_eq!(asked("14:00..").to, NOW);
        assert_eq!(minutes_ago(asked("2026-11-22T14:10:00..2026-11-22T14:11:00").from), 24 * 60);
    }

    #[test]
    fn an_end_is_the_first_such_time_after_the_begin() {
        let length = |text: &str| {
            let question = asked(text);
            (question.to.0 - question.from.0) / MINUTE_US
        };
        assert_eq!(length("2026-11-20T23:59..00:10"), 11);
        assert_eq!(length("2026-11-20T05:00..05:30"), 30);
        assert_eq!(asked("14:05..15:00").to, NOW, "the rest is still to come");
    }

    #[test]
    fn a_date_may_stand_before_its_times_or_alone() {
        assert_eq!(asked("2026-11-22 14:03..14:05"), asked("2026-11-22T14:03..14:05"));
        let day = asked("2026-11-22 port 443");
        assert_eq!((minutes_ago(day.from), minutes_ago(day.to)), (38 * 60 + 10, 14 * 60 + 10));
        assert_eq!(day.wanted.port, Some(443));
        let days = asked("2026-11-21..2026-11-22 port 443");
        assert_eq!((minutes_ago(days.from), days.to), (62 * 60 + 10, day.to), "both of them");
        assert_eq!(asked("2026-11-22..").to, NOW);
        assert_eq!(asked("2026-11-22..2026-11-23T00:00").to, day.to);
        let today = asked("2026-11-23");
        assert_eq!((minutes_ago(today.from), today.to), (14 * 60 + 10, NOW));
    }

    #[test]
    fn a_program_is_found_by_what_the_kernel_keeps_of_its_name() {
        let program = |name: &str| asked(&format!("program {name}")).wanted.program.unwrap();
        assert_eq!(program("systemd-resolved"), "systemd-resolve");
        assert_eq!(program("systemd-resolve"), "systemd-resolve");
        assert_eq!(program("a-name-with-umä"), "a-name-with-um\u{fffd}");
    }

    #[test]
    fn a_name_with_spaces_is_an_argument_of_its_own() {
        let of =
            |words: &[&str]| question(&words.iter().map(|w| (*w).into()).collect::<Vec<_>>(), NOW);
        let asked = of(&["last", "1h", "program", "tmux: server", "port 443"]).unwrap();
        assert_eq!(asked.wanted.program.as_deref(), Some("tmux: server"));
        assert_eq!((asked.wanted.port, minutes_ago(asked.from)), (Some(443), 60));
        let refusal = of(&["program", "tmux:", "server"]).unwrap_err().to_string();
        assert!(
            refusal.contains("'server' is no word of a question. A name with spaces"),
            "{refusal}"
        );
    }

    #[test]
    fn days_are_a_time_too() {
        assert_eq!(minutes_ago(asked("last 3d").from), 3 * 24 * 60);
    }

    #[test]
    fn a_pod_is_named_as_kubectl_or_its_cgroup_names_it() {
        let of = |text: &str| asked(&format!("pod {text}")).wanted.pod.unwrap();
        assert_eq!(of("0f0a1b2c_3d4e"), of("0f0a1b2c-3d4e"));
    }

    #[test]
    fn a_container_is_named_as_its_engine_or_as_kubernetes_names_it() {
        let of = |text: &str| asked(&format!("container {text}")).wanted.container.unwrap();
        assert_eq!(of("8c6f1e7a9b0d"), "8c6f1e7a9b0d");
        assert_eq!(of("containerd://8c6f1e7a9b0d2c3e"), "8c6f1e7a9b0d2c3e");
    }

    #[test]
    fn a_mistake_is_named() {
        let refusal = |text: &str| format!("{:#}", question(&[text.to_owned()], NOW).unwrap_err());
        assert!(refusal("port").contains("'port' of what?"));
        assert!(refusal("port nonsuch").contains("'nonsuch' is neither"));
        assert!(refusal("yesterday").contains("'yesterday' is no word"));
        assert!(refusal("verdict slow").contains("receiver_window"));
        assert!(refusal("14:05..14:05").contains("ends when it begins"));
        assert!(refusal("25:00").contains("'25:00' is no time"));
        assert!(refusal("14:00..14:60").contains("'14:60' is no time"));
        assert!(refusal("14:00..+02:00").contains("'+02:00' is no time: give one in UTC"));
        assert!(refusal("2026-02-29").contains("'2026-02-29' is no time"));
        assert!(refusal("2026-11-22..2026-11-20").contains("ends before it begins"));
        assert!(refusal("..14:00").contains("say when it begins"));
        assert!(refusal("2026-11-22T14:00..2026-11-22T13:00").contains("ends before it begins"));
        let future = "'2026-11-30' is still to come: it is 2026-11-23 14:10:00 UTC now";
        assert!(refusal("2026-11-30 10:00").contains("is still to come"));
        assert_eq!(refusal("2026-11-30"), future);
        assert!(refusal("last 0s").contains("'last 0s' is no time at all"));
        let year = "'last 9999999d' begins before 1970: `last 365d` is the last year";
        assert_eq!(refusal("last 9999999d"), year);
        assert!(refusal("last 4294967295d").contains("begins before 1970"));
        assert!(refusal("last 4380000h").contains("begins before 1970"), "500 years");
        assert!(refusal("last week").contains("give a time as 10m"));
        assert!(refusal("last 10").contains("10 of what? say 10m or 10h"));
        assert!(refusal("14:03-14:05").ends_with("or two, as 14:03..14:05"));
        assert!(refusal("to 300.1.").contains("300 is more than 255"));
        assert!(refusal("to 10.77.2.2:80").contains("say `to 10.77.2.2 port 80`"));
        assert!(refusal("to [2001:db8::1]:443").contains("say `to 2001:db8::1 port 443`"));
        assert!(refusal("to 10.77.02.2").contains("02 begins with a zero"));
        assert!(refusal("to 10.0.0.0/33").contains("'/33' is no prefix length: that is 0 to 32"));
        assert!(refusal("to 10.6/16").contains("'10.6' is no IP address"));
        assert!(refusal("#abc").contains("'#abc': a cookie is a number"));
        assert!(refusal("to example.org").contains("'example.org' is no address"));
        assert!(refusal("pod web/front").contains("'web/front': rows have the UID"));
        assert!(refusal("port 80 port 443").contains("port is there twice"));
        assert!(refusal("14:00 last 5m").contains("a time is there twice"));
    }
}
