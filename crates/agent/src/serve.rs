//! Serves /metrics, and nothing else, to whoever may connect to the address.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::metrics::Metrics;

/// A client that is slower is left.
const PATIENCE: Duration = Duration::from_secs(2);
const MOST_REQUEST: usize = 8192;

/// Listens, and answers in a thread of its own until the process ends. Returns the address, whose
/// port the kernel may have chosen.
///
/// # Errors
/// The address cannot be listened on.
pub fn serve(at: SocketAddr, metrics: Arc<Mutex<Metrics>>) -> Result<SocketAddr> {
    let listener = TcpListener::bind(at).with_context(|| {
        format!("serving metrics at {at}: choose another address with --metrics")
    })?;
    let bound = listener.local_addr()?;
    std::thread::Builder::new().name("metrics".into()).spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client that goes away is its own matter.
            let _ = answer(stream, &metrics);
        }
    })?;
    Ok(bound)
}

fn answer(mut stream: TcpStream, metrics: &Mutex<Metrics>) -> Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut request = Vec::new();
    let mut part = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < MOST_REQUEST {
        let length = stream.read(&mut part)?;
        if length == 0 {
            break;
        }
        request.extend_from_slice(&part[..length]);
    }
    let first = request.split(|&b| b == b'\r').next().unwrap_or_default();
    let (status, body) = match first {
        b"GET /metrics HTTP/1.1" | b"GET /metrics HTTP/1.0" => {
            let text = metrics.lock().unwrap_or_else(PoisonError::into_inner).text();
            ("200 OK", text)
        }
        _ => ("404 Not Found", "metrics are at /metrics\n".to_owned()),
    };
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    Ok(())
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
