//! A way to a server on which things happen.

use std::io::{Read, Result, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

#[derive(Clone, Copy, PartialEq)]
pub enum Trouble {
    None,
    /// 503
    Slower,
    /// 429
    TooMany,
    /// 500
    Internal,
    /// The server never sees the whole request.
    RequestCut,
    /// The server did it, and nobody hears of it.
    AnswerCut,
    Skewed,
    OtherRegion,
    Denied,
    /// 501
    Unsupported,
    /// 400
    Refused,
    /// The server does not see on which condition it is to write.
    Unconditional,
}

impl Trouble {
    fn answer(self) -> Option<(&'static str, &'static str)> {
        Some(match self {
            Trouble::Slower => ("503 Service Unavailable", "<Code>SlowDown</Code>"),
            Trouble::TooMany => ("429 Too Many Requests", ""),
            Trouble::Internal => ("500 Internal Server Error", "<Code>InternalError</Code>"),
            Trouble::Skewed => (
                "403 Forbidden",
                "<Code>RequestTimeTooSkewed</Code><Message>m</Message>\
                 <ServerTime>2026-11-24T12:00:00Z</ServerTime>",
            ),
            Trouble::OtherRegion => (
                "400 Bad Request",
                "<Code>AuthorizationHeaderMalformed</Code><Message>m</Message>\
                 <Region>eu-west-1</Region>",
            ),
            Trouble::Denied => ("403 Forbidden", "<Code>AccessDenied</Code><Message>m</Message>"),
            Trouble::Unsupported => (
                "501 Not Implemented",
                "<Code>NotImplemented</Code><Message>A header is not implemented</Message>",
            ),
            Trouble::Refused => {
                ("400 Bad Request", "<Code>InvalidRequest</Code><Message>m</Message>")
            }
            Trouble::None | Trouble::RequestCut | Trouble::AnswerCut | Trouble::Unconditional => {
                return None;
            }
        })
    }
}

pub struct Troubled {
    pub port: u16,
}

impl Troubled {
    /// What happens to the request of this number, from 0.
    pub fn before(
        server: u16,
        happens: impl Fn(u64) -> Trouble + Send + Sync + 'static,
    ) -> Troubled {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let happens = Arc::new(happens);
        std::thread::spawn(move || {
            for (n, stream) in listener.incoming().flatten().enumerate() {
                let happens = happens.clone();
                // One that was killed meanwhile is its own matter.
                std::thread::spawn(move || pass(stream, server, happens(n as u64)));
            }
        });
        Troubled { port }
    }
}

fn pass(mut client: TcpStream, server: u16, trouble: Trouble) -> Result<()> {
    let mut request = request(&mut client)?;
    if let Some((status, words)) = trouble.answer() {
        let body = format!("<Error>{words}</Error>");
        let length = body.len();
        return write!(
            client,
            "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
    }
    let mut to = TcpStream::connect(("127.0.0.1", server))?;
    if trouble == Trouble::RequestCut {
        return to.write_all(&request[..request.len() - 1]);
    }
    if trouble == Trouble::Unconditional {
        request = unconditional(&request);
    }
    to.write_all(&request)?;
    let mut answer = Vec::new();
    to.read_to_end(&mut answer)?;
    let length = if trouble == Trouble::AnswerCut { answer.len() / 2 } else { answer.len() };
    client.write_all(&answer[..length])
}

fn unconditional(request: &[u8]) -> Vec<u8> {
    let end = request.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let head = String::from_utf8_lossy(&request[..end]);
    let is_kept = |line: &&str| !line.to_lowercase().starts_with("if-");
    let head = head.split("\r\n").filter(is_kept).collect::<Vec<_>>().join("\r\n");
    [head.as_bytes(), &request[end..]].concat()
}

/// One request, told to close the connection after its answer.
fn request(client: &mut TcpStream) -> Result<Vec<u8>> {
    let mut request = Vec::new();
    let mut part = [0; 65_536];
    loop {
        if let Some(end) = request.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&request[..end]).to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.map_or(0, |text| text.trim().parse().unwrap());
            if request.len() >= end + 4 + length {
                request.splice(end..end, *b"\r\nConnection: close");
                return Ok(request);
            }
        }
        match client.read(&mut part)? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            length => request.extend_from_slice(&part[..length]),
        }
    }
}
