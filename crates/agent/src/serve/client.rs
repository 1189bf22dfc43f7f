//! A client of /metrics: it asks, and takes its answer, both as slowly as it likes.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::accept::Format;
use crate::metrics::{Metrics, older};

/// One that has not asked after this time is left, and one that takes nothing for so long.
const PATIENCE: Duration = Duration::from_secs(2);
const MOST_REQUEST: usize = 8192;

pub struct Client {
    pub stream: TcpStream,
    /// When it is left.
    pub until: Instant,
    state: State,
}

enum State {
    /// What it has said so far.
    Asking(Vec<u8>),
    /// The answer, and how much of it is taken.
    Taking(Vec<u8>, usize),
}

impl Client {
    /// The stream does not block.
    pub fn new(stream: TcpStream, now: Instant) -> Client {
        Client { stream, until: now + PATIENCE, state: State::Asking(Vec::new()) }
    }

    pub fn is_taking(&self) -> bool {
        matches!(self.state, State::Taking(..))
    }

    /// Reads and writes as far as it can; whether there is more to come.
    pub fn goes_on(&mut self, metrics: &Mutex<Metrics>, now: Instant) -> bool {
        // A client that goes away is its own matter.
        let ended = self.reach_the_end(metrics, now);
        ended.is_err_and(|error| error.kind() == ErrorKind::WouldBlock) && self.until > now
    }

    fn reach_the_end(&mut self, metrics: &Mutex<Metrics>, now: Instant) -> io::Result<()> {
        if let State::Asking(request) = &mut self.state {
            read_request(&mut self.stream, request)?;
            let answer = answer(&String::from_utf8_lossy(request), metrics);
            self.state = State::Taking(answer, 0);
            self.until = now + PATIENCE;
        }
        if let State::Taking(answer, taken) = &mut self.state {
            while *taken < answer.len() {
                let more = self.stream.write(&answer[*taken..])?;
                if more == 0 {
                    return Err(ErrorKind::WriteZero.into());
                }
                *taken += more;
                self.until = now + PATIENCE;
            }
        }
        Ok(())
    }
}

/// Until its end, or as much as we read.
fn read_request(stream: &mut TcpStream, request: &mut Vec<u8>) -> io::Result<()> {
    let mut part = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < MOST_REQUEST {
        let length = stream.read(&mut part)?;
        if length == 0 {
            break;
        }
        request.extend_from_slice(&part[..length]);
    }
    Ok(())
}

fn answer(request: &str, metrics: &Mutex<Metrics>) -> Vec<u8> {
    let (method, path) = asked(request);
    let (status, kind, body) = match (method, path) {
        ("GET" | "HEAD", "/metrics") => {
            let format = Format::asked(&accepted(request));
            let metrics = metrics.lock().unwrap_or_else(PoisonError::into_inner);
            let body = match format {
                Format::OpenMetrics => metrics.text().into_bytes(),
                Format::Protobuf => metrics.protobuf(),
                Format::Text => older::of_openmetrics(&metrics.text()).into_bytes(),
            };
            ("200 OK", format.content_type(), body)
        }
        _ => ("404 Not Found", "text/plain; charset=utf-8", b"metrics are at /metrics\n".into()),
    };
    let length = body.len();
    let mut answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Vary: Accept\r\nConnection: close\r\n\r\n"
    )
    .into_bytes();
    if method != "HEAD" {
        answer.extend(body);
    }
    answer
}

/// Method and path.
fn asked(request: &str) -> (&str, &str) {
    let mut words = request.lines().next().unwrap_or_default().split(' ');
    match [words.next(), words.next(), words.next(), words.next()] {
        [Some(method), Some(target), Some("HTTP/1.1" | "HTTP/1.0"), None] => {
            (method, path_of(target))
        }
        _ => ("", ""),
    }
}

/// Without the query, which a scraper's configuration may have, and without the address, with which
/// a proxy is asked and servers are to take it, too (RFC 9112, 3.2.2).
fn path_of(target: &str) -> &str {
    const SCHEME: &str = "http://";
    let target = target.split('?').next().unwrap_or_default();
    match target.split_at_checked(SCHEME.len()) {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case(SCHEME) => {
            rest.find('/').map_or("/", |at| &rest[at..])
        }
        _ => target,
    }
}

/// The values of all Accept headers.
fn accepted(request: &str) -> String {
    let of_line = |line: &str| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("accept").then(|| value.trim().to_owned())
    };
    request.lines().skip(1).filter_map(of_line).collect::<Vec<_>>().join(",")
}
