//! Serves /metrics, and nothing else, to whoever may connect to the address.

mod client;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::metrics::Metrics;
use client::Client;

/// So many may not have asked yet, and so many not have taken their answer: beyond, the oldest of
/// them is left, so that those who are slow or silent keep nobody from an answer.
const MOST_ASKING: usize = 64;
const MOST_TAKING: usize = 8;
/// So many come in before those that are there have their turn.
const MOST_AT_ONCE: usize = 16;

/// Listens, and answers in a thread of its own until the process ends. Returns the address, whose
/// port the kernel may have chosen.
///
/// # Errors
/// The address cannot be listened on.
pub fn serve(at: SocketAddr, metrics: Arc<Mutex<Metrics>>) -> Result<SocketAddr> {
    let listener = TcpListener::bind(at).with_context(|| {
        format!("serving metrics at {at}: choose another address with --metrics")
    })?;
    listener.set_nonblocking(true)?;
    let bound = listener.local_addr()?;
    let mut server = Server { listener, metrics, clients: Vec::new() };
    let serve = move || {
        loop {
            if server.turn().is_err() {
                // Descriptors and memory come back.
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    };
    std::thread::Builder::new().name("metrics".to_owned()).spawn(serve)?;
    Ok(bound)
}

struct Server {
    listener: TcpListener,
    metrics: Arc<Mutex<Metrics>>,
    /// The oldest first.
    clients: Vec<Client>,
}

impl Server {
    /// Waits until somebody has something for us, and serves whoever has.
    fn turn(&mut self) -> io::Result<()> {
        let ready = self.wait()?;
        let now = Instant::now();
        let mut of_clients = ready.iter().skip(1);
        self.clients.retain_mut(|client| {
            let is_ready = of_clients.next().is_some_and(|&is_ready| is_ready);
            if is_ready { client.goes_on(&self.metrics, now) } else { client.until > now }
        });
        let accepted = if ready[0] { self.accept(now) } else { Ok(()) };
        self.leave_oldest(|client| !client.is_taking(), MOST_ASKING);
        self.leave_oldest(Client::is_taking, MOST_TAKING);
        accepted
    }

    /// Whether the listener is ready, and each client.
    fn wait(&self) -> io::Result<Vec<bool>> {
        let mut all = vec![PollFd::new(&self.listener, PollFlags::IN)];
        all.extend(self.clients.iter().map(|client| {
            let what = if client.is_taking() { PollFlags::OUT } else { PollFlags::IN };
            PollFd::from_borrowed_fd(client.stream.as_fd(), what)
        }));
        let first = self.clients.iter().map(|client| client.until).min();
        let left = first.map(|until| until.saturating_duration_since(Instant::now()));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        poll(&mut all, left.as_ref())?;
        Ok(all.iter().map(|one| !one.revents().is_empty()).collect())
    }

    fn accept(&mut self, now: Instant) -> io::Result<()> {
        for _ in 0..MOST_AT_ONCE {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            };
            stream.set_nonblocking(true)?;
            let mut client = Client::new(stream, now);
            // Most have asked by now.
            if client.goes_on(&self.metrics, now) {
                self.clients.push(client);
            }
        }
        Ok(())
    }

    fn leave_oldest(&mut self, of: impl Fn(&Client) -> bool, most: usize) {
        let mut over = self.clients.iter().filter(|client| of(client)).count().saturating_sub(most);
        self.clients.retain(|client| {
            let is_left = over > 0 && of(client);
            over -= usize::from(is_left);
            !is_left
        });
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::*;
    use crate::accept::Format;

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
    fn metrics_are_served_as_openmetrics_to_those_that_ask_for_it() {
        let answer = ask("GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        assert!(answer.contains("openmetrics-text") && answer.ends_with("# EOF\n"), "{answer}");
        let answer = ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(answer.contains("text/plain; version=0.0.4"), "{answer}");
        assert!(answer.contains("# TYPE transom_agent_lost_rows_total counter"), "{answer}");
    }

    #[test]
    fn a_query_changes_nothing_and_head_has_no_body() {
        for asked in ["/metrics?job=web", "http://[::1]:9464/metrics", "HTTP://x/metrics?job=web"] {
            let accept = "Accept: application/openmetrics-text";
            let answer = ask(&format!("GET {asked} HTTP/1.1\r\n{accept}\r\n\r\n"));
            assert!(answer.ends_with("# EOF\n"), "{asked}: {answer}");
        }
        let head = ask("HEAD /metrics HTTP/1.1\r\n\r\n");
        assert!(head.starts_with("HTTP/1.1 200 OK") && head.ends_with("\r\n\r\n"), "{head}");
        for other in ["GET /metrics/", "GET /?/metrics", "GET http:///", "POST /metrics", "GET"] {
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
        assert!(scraped(at).starts_with("HTTP/1.1 200 OK"));
        for each in dawdling {
            each.join().unwrap();
        }
    }

    /// What a client gets that asks now, as long as Prometheus waits.
    fn scraped(at: SocketAddr) -> String {
        let mut stream = TcpStream::connect(at).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn clients_that_say_nothing_keep_nobody_waiting_however_many_they_are() {
        let at =
            serve("127.0.0.1:0".parse().unwrap(), Arc::new(Mutex::new(Metrics::new()))).unwrap();
        let mut silent = Vec::new();
        for _ in 0..5 {
            silent.extend((0..60).map(|_| TcpStream::connect(at).unwrap()));
            assert!(scraped(at).starts_with("HTTP/1.1 200 OK"));
            // It is there before the last of them is left.
            let last = silent.last_mut().unwrap();
            last.set_nonblocking(true).unwrap();
            assert_eq!(last.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        }
        // Those that there is no room for are left before their time is over.
        silent[0].set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        assert_eq!(silent[0].read(&mut [0]).unwrap(), 0);
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
