//! One page over HTTP, rendered when it is asked for and older than its time.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::{Mutex, Semaphore};

/// A client that is slower is left.
const PATIENCE: Duration = Duration::from_secs(5);
/// And no more than so many are waited for at once.
const MOST_CLIENTS: usize = 64;

type Render = dyn Fn() -> String + Send + Sync;

pub struct Page {
    pub render: Box<Render>,
    pub lasts: Duration,
    pub last: Mutex<Option<(Instant, Bytes)>>,
}

impl Page {
    /// Everyone who asks meanwhile waits for the same one.
    async fn now(self: &Arc<Page>) -> Bytes {
        let mut last = self.last.lock().await;
        if let Some((at, page)) = &*last
            && at.elapsed() < self.lasts
        {
            return page.clone();
        }
        let this = self.clone();
        let rendered = tokio::task::spawn_blocking(move || Bytes::from((this.render)())).await;
        let page = rendered.unwrap_or_else(|_| Bytes::from_static(b"rendering the page failed"));
        *last = Some((Instant::now(), page.clone()));
        page
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
            let service = service_fn(|request| answer(request, page.clone()));
            // A client that goes away is its own matter.
            let _ = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(PATIENCE)
                .keep_alive(false)
                .serve_connection(TokioIo::new(stream), service)
                .await;
            drop(place);
        });
    }
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
