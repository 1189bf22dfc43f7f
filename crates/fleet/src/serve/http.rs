//! One page over HTTP, rendered when it is asked for and older than its time.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bytes::Bytes;
use futures_util::future::select;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, Notify, Semaphore};

/// A client that is slower is left.
const PATIENCE: Duration = Duration::from_secs(5);
/// So is one that has not read its answer in this time: a page of 100 kB at 80 kbit/s.
const LONGEST_READING: Duration = Duration::from_secs(10);
/// And no more than so many are waited for at once.
const MOST_CLIENTS: usize = 64;

const FAILED: Bytes = Bytes::from_static(b"rendering the page failed");

type Render = dyn Fn() -> String + Send + Sync;

pub struct Page {
    render: Box<Render>,
    lasts: Duration,
    last: Arc<Mutex<Option<(Instant, Bytes)>>>,
}

impl Page {
    /// Each that is rendered is shown for so long.
    pub fn new(render: impl Fn() -> String + Send + Sync + 'static, lasts: Duration) -> Arc<Page> {
        Arc::new(Page { render: Box::new(render), lasts, last: Arc::default() })
    }

    /// Everyone who asks meanwhile waits for the same one.
    async fn now(self: &Arc<Page>) -> Bytes {
        let mut last = self.last.clone().lock_owned().await;
        if let Some((at, page)) = &*last
            && at.elapsed() < self.lasts
        {
            return page.clone();
        }
        let this = self.clone();
        // A task of its own: whoever asked may leave, and the next one has what was begun.
        let rendering = tokio::spawn(async move {
            let rendered = tokio::task::spawn_blocking(move || Bytes::from((this.render)())).await;
            let page = rendered.unwrap_or(FAILED);
            *last = Some((Instant::now(), page.clone()));
            page
        });
        rendering.await.unwrap_or(FAILED)
    }
}

/// Until the process ends; `listening` is told the address, whose port the kernel may have chosen.
///
/// # Errors
/// The address cannot be listened on.
pub async fn serve(
    at: SocketAddr,
    page: Arc<Page>,
    listening: impl FnOnce(SocketAddr),
) -> Result<Infallible> {
    let refused = || format!("listening at {at}: choose another address with --listen");
    let listener = TcpListener::bind(at).await.with_context(refused)?;
    listening(listener.local_addr()?);
    let places = Arc::new(Semaphore::new(MOST_CLIENTS));
    loop {
        let place = places.clone().acquire_owned().await?;
        let Ok((stream, _)) = listener.accept().await else {
            // Descriptors come back.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let page = page.clone();
        tokio::spawn(async move {
            answer_one(stream, &page).await;
            drop(place);
        });
    }
}

async fn answer_one(stream: TcpStream, page: &Arc<Page>) {
    let is_answered = Notify::new();
    let service = service_fn(async |request| {
        let response = answer(request, page.clone()).await;
        is_answered.notify_one();
        response
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    let too_long = async {
        is_answered.notified().await;
        tokio::time::sleep(LONGEST_READING).await;
    };
    // A client that goes away is its own matter.
    let _ = select(pin!(connection), pin!(too_long)).await;
}

async fn answer(
    request: Request<Incoming>,
    page: Arc<Page>,
) -> Result<Response<Full<Bytes>>, http::Error> {
    let builder = Response::builder()
        .header("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
        .header("X-Content-Type-Options", "nosniff")
        .header("Cache-Control", "no-store");
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        let builder = builder.status(StatusCode::METHOD_NOT_ALLOWED).header("Allow", "GET, HEAD");
        return builder.body(Full::default());
    }
    if request.uri().path() != "/" {
        let body = Full::from("the page is at /\n");
        return builder.status(StatusCode::NOT_FOUND).body(body);
    }
    builder.header("Content-Type", "text/html; charset=utf-8").body(Full::new(page.now().await))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::mpsc;
    use std::thread::sleep;

    use super::*;

    /// By a thread that goes on until the process ends.
    fn served(render: impl Fn() -> String + Send + Sync + 'static) -> SocketAddr {
        let page = Page::new(render, Duration::from_secs(60));
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            let at = "127.0.0.1:0".parse().unwrap();
            let serving = serve(at, page, move |at| tell.send(at).unwrap());
            crate::bucket::runtime().unwrap().block_on(serving).map(|_| ())
        });
        told.recv().unwrap()
    }

    fn ask(at: SocketAddr) -> TcpStream {
        let mut stream = TcpStream::connect(at).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        stream
    }

    fn read(mut stream: TcpStream) -> String {
        stream.set_read_timeout(Some(3 * LONGEST_READING)).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn a_page_whose_asker_has_left_is_the_one_that_the_next_asker_gets() {
        let begun = AtomicU32::new(0);
        let at = served(move || {
            let number = begun.fetch_add(1, Ordering::Relaxed) + 1;
            sleep(Duration::from_secs(2));
            format!("page {number}")
        });
        let first = ask(at);
        sleep(Duration::from_millis(100));
        drop(first);
        sleep(Duration::from_millis(400));
        let answer = read(ask(at));
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("page 1"), "{answer}");
    }

    #[test]
    fn clients_that_do_not_read_their_answers_do_not_keep_all_places() {
        // More than the kernel takes for somebody who does not read.
        let length = 16 << 20;
        let at = served(move || "x".repeat(length));
        let idle: Vec<TcpStream> = (0..MOST_CLIENTS).map(|_| ask(at)).collect();
        assert!(read(ask(at)).len() > length);
        drop(idle);
    }
}
