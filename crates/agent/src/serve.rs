//! Serves /metrics, and nothing else, to whoever may connect to the address.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::accept::Format;
use crate::metrics::Metrics;

/// A client that is slower is left.
const PATIENCE: Duration = Duration::from_secs(2);
/// So many are answered at once. Prometheus waits for 10 s: fewer than 40 clients that say nothing do not
/// keep it from its answer.
const THREADS: usize = 8;
const MOST_REQUEST: usize = 8192;

/// Listens, and answers in threads of its own until the process ends. Returns the address, whose
/// port the kernel may have chosen.
///
/// # Errors
/// The address cannot be listened on.
pub fn serve(at: SocketAddr, metrics: Arc<Mutex<Metrics>>) -> Result<SocketAddr> {
    let listener = TcpListener::bind(at).with_context(|| {
        format!("serving metrics at {at}: choose another address with --metrics")
    })?;
    let bound = listener.local_addr()?;
    let listener = Arc::new(listener);
    for _ in 0..THREADS {
        let (listener, metrics) = (listener.clone(), metrics.clone());
        let name = "metrics".to_owned();
        std::thread::Builder::new().name(name).spawn(move || answer_all(&listener, &metrics))?;
    }
    Ok(bound)
}

fn answer_all(listener: &TcpListener, metrics: &Mutex<Metrics>) {
    for stream in listener.incoming() {
        match stream {
            // A client that goes away is its own matter.
            Ok(stream) => drop(answer(stream, metrics)),
            // Descriptors come back.
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

fn answer(mut stream: TcpStream, metrics: &Mutex<Metrics>) -> Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let request = request(&mut stream)?;
    let request = String::from_utf8_lossy(&request);
    let (method, path) = asked(&request);
    let (status, kind, body) = match (method, path) {
        ("GET" | "HEAD", "/metrics") => {
            let format = Format::asked(&accepted(&request));
            let metrics = metrics.lock().unwrap_or_else(PoisonError::into_inner);
            let body = match format {
                Format::OpenMetrics => metrics.text().into_bytes(),
                Format::Protobuf => metrics.protobuf(),
            };
            ("200 OK", format.content_type(), body)
        }
        _ => ("404 Not Found", "text/plain; charset=utf-8", b"metrics are at /metrics\n".into()),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Vary: Accept\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    if method != "HEAD" {
        stream.write_all(&body)?;
    }
    Ok(())
}

/// Method, and path without its query, which a scraper's configuration may have.
fn asked(request: &str) -> (&str, &str) {
    let mut words = request.lines().next().unwrap_or_default().split(' ');
    match [words.next(), words.next(), words.next(), words.next()] {
        [Some(method), Some(target), Some("HTTP/1.1" | "HTTP/1.0"), None] => {
            (method, target.split('?').next().unwrap_or_default())
        }
        _ => ("", ""),
    }
}

fn request(stream: &mut TcpStream) -> Result<Vec<u8>> {
    let until = Instant::now() + PATIENCE;
    let mut request = Vec::new();
    let mut part = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < MOST_REQUEST {
        let left = until.saturating_duration_since(Instant::now());
        ensure!(!left.is_zero(), "no request in {PATIENCE:?}");
        stream.set_read_timeout(Some(left))?;
        let length = stream.read(&mut part)?;
        if length == 0 {
            break;
        }
        request.extend_from_slice(&part[..length]);
    }
    Ok(request)
}

/// The values of all Accept headers.
fn accepted(request: &str) -> String {
    let of_line = |line: &str| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("accept").then(|| value.trim().to_owned())
    };
    request.lines().skip(1).filter_map(of_line).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(request: &str) -> String {
        let at =
            serve("127.0.0.1:0".parse().unwrap(), Arc::new(Mutex::new(Metrics::new()))).unwrap();
        let mut stream = TcpStream::connect(at).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn metrics_are_served_as_openmetrics() {
        let answer = ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        assert!(answer.contains("openmetrics-text") && answer.ends_with("# EOF\n"), "{answer}");
    }

    #[test]
    fn a_query_changes_nothing_and_head_has_no_body() {
        assert!(ask("GET /metrics?job=web HTTP/1.1\r\n\r\n").ends_with("# EOF\n"));
        let head = ask("HEAD /metrics HTTP/1.1\r\n\r\n");
        assert!(head.starts_with("HTTP/1.1 200 OK") && head.ends_with("\r\n\r\n"), "{head}");
        for other in ["GET /metrics/", "GET /?/metrics", "POST /metrics", "GET"] {
            let answer = ask(&format!("{other} HTTP/1.1\r\n\r\n"));
            assert!(answer.starts_with("HTTP/1.1 404"), "{other}: {answer}");
        }
    }

    #[test]
    fn a_scraper_that_asks_for_protobuf_gets_it() {
        let kind = Format::Protobuf.content_type();
        let at =
            serve("127.0.0.1:0".parse().unwrap(), Arc::new(Mutex::new(Metrics::new()))).unwrap();
        let mut stream = TcpStream::connect(at).unwrap();
        write!(stream, "GET /metrics HTTP/1.1\r\naccept: {kind}\r\nAccept: */*;q=0.1\r\n\r\n")
            .unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.contains(&format!("Content-Type: {kind}\r\n")), "{answer}");
        assert!(answer.contains("transom_tcp_rtt_seconds") && !answer.contains("# TYPE"));
    }

    #[test]
    fn a_client_that_dawdles_does_not_keep_others_waiting_for_long() {
        let at =
            serve("127.0.0.1:0".parse().unwrap(), Arc::new(Mutex::new(Metrics::new()))).unwrap();
        let dawdling = [(); 8].map(|()| {
            let mut slow = TcpStream::connect(at).unwrap();
            std::thread::spawn(move || {
                // Until it is left.
                while slow.write_all(b"x").is_ok() {
                    std::thread::sleep(Duration::from_millis(100));
                }
            })
        });
        let mut stream = TcpStream::connect(at).unwrap();
        // As long as Prometheus waits.
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        for each in dawdling {
            each.join().unwrap();
        }
    }

    #[test]
    fn nothing_else_is() {
        for request in ["GET / HTTP/1.1\r\n\r\n", "POST /metrics HTTP/1.1\r\n\r\n", "\r\n\r\n"] {
            assert!(ask(request).starts_with("HTTP/1.1 404"), "{request}");
        }
    }

    #[test]
    fn an_address_in_use_is_named() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = taken.local_addr().unwrap();
        let refusal = serve(at, Arc::new(Mutex::new(Metrics::new()))).unwrap_err();
        assert!(format!("{refusal:#}").contains(&format!("{at}: choose another")), "{refusal:#}");
    }
}
