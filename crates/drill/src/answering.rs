//! `transom-drill answer`: answers what is asked about the connections of this host.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use transom_output::note;
use transom_spool::host_name;
use zenoh::query::Query;
use zenoh::{Config, Session, Wait};

use crate::pace::Pace;
use crate::question::{Question, Want};
use crate::reply::MOST_FILE_KIB;
use crate::session::{self, failed};
use crate::{rendered, ring};

/// Answer what is asked about this host's connections, from what its agent keeps
#[derive(clap::Args)]
#[command(after_help = "\
Dials a Zenoh router, so that nothing listens here. docs/drill.md says who may ask then.

Examples:
  transom-drill answer --router tls/router.example:7447 --config /etc/transom/drill.json5")]
pub struct Args {
    /// Zenoh router to dial
    #[arg(long, value_name = "ENDPOINT", conflicts_with = "listen")]
    router: Vec<String>,
    /// Wait here for those who ask instead, without a router
    #[arg(long, value_name = "ENDPOINT")]
    listen: Vec<String>,
    /// Zenoh's configuration: TLS
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Without TLS, for everybody who reaches the router
    #[arg(long)]
    plain: bool,
    /// What this machine is called in the tables [default: its host name]
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Folder that the agent writes to
    #[arg(long, value_name = "DIR", default_value = "/var/lib/transom/spool")]
    spool: PathBuf,
    /// Largest page or file that is sent, KiB
    #[arg(long, value_name = "KIB", default_value_t = 16_384,
          value_parser = clap::value_parser!(u64).range(64..=MOST_FILE_KIB))]
    largest: u64,
}

/// That wait; more are refused.
const WAITING: usize = 16;
const QUESTIONS_PER_MINUTE: u32 = 120;
const FILES_PER_MINUTE: u32 = 6;

/// # Errors
/// The spool cannot be read, or Zenoh's configuration is wrong.
pub fn run(args: &Args) -> Result<ExitCode> {
    let host = host_name(args.host.as_deref())?;
    std::fs::read_dir(&args.spool).with_context(|| {
        format!(
            "reading the spool {}: is this user in the agent's group (transom)?",
            args.spool.display()
        )
    })?;
    let file = args.config.as_deref();
    let (config, at) = match args.listen.is_empty() {
        true => (session::client(&args.router, file, session::Wait::Ever)?, "connect/endpoints"),
        false => (session::listener(&args.listen, file)?, "listen/endpoints"),
    };
    let endpoints = session::endpoints(&config, at);
    session::ensure_protected(&endpoints, args.plain)?;
    let ended = session::ended()?;
    let (inlet, questions) = sync_channel(WAITING);
    note!("answering for {host}, at {}; Ctrl-C ends", endpoints.join(", "));
    let opening = open(config, session::key(&host), inlet);
    let mut host = Answerer::new(host, args);
    host.answer_until(&ended, &questions);
    if opening.is_finished() {
        let session = opening.join().map_err(|_| anyhow!("Zenoh panicked"))??;
        session.close().wait().map_err(failed)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// On a thread: a client of Zenoh waits there until a router is found.
fn open(config: Config, key: String, inlet: SyncSender<Query>) -> JoinHandle<Result<Session>> {
    std::thread::spawn(move || {
        let session = zenoh::open(config).wait().map_err(failed)?;
        let take = move |query: Query| {
            if let Err(TrySendError::Full(query)) = inlet.try_send(query) {
                let said = format!("busy: {WAITING} questions wait");
                let _ = query.reply_err(said).wait();
            }
        };
        session
            .declare_queryable(&key)
            .complete(true)
            .callback(take)
            .background()
            .wait()
            .map_err(failed)?;
        note!("a router is there: questions come by {key}");
        Ok(session)
    })
}

struct Answerer {
    host: String,
    spool: PathBuf,
    most_bytes: u64,
    questions: Pace,
    files: Pace,
}

impl Answerer {
    fn new(host: String, args: &Args) -> Answerer {
        let now = Instant::now();
        Answerer {
            host,
            spool: args.spool.clone(),
            most_bytes: args.largest << 10,
            questions: Pace::new(QUESTIONS_PER_MINUTE, now),
            files: Pace::new(FILES_PER_MINUTE, now),
        }
    }

    fn answer_until(&mut self, ended: &AtomicBool, questions: &Receiver<Query>) {
        while !ended.load(Ordering::Relaxed) {
            match questions.recv_timeout(Duration::from_millis(100)) {
                Ok(query) => self.reply_to(&query),
                Err(RecvTimeoutError::Timeout) => {}
                // It could not be opened, which its thread says.
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
    }

    fn reply_to(&mut self, query: &Query) {
        let bytes = query.payload().map(|payload| payload.to_bytes()).unwrap_or_default();
        let sent = match self.answer(&bytes) {
            Ok(answer) => query.reply(query.key_expr(), answer).wait(),
            Err(error) => {
                note!("refused: {error:#}");
                query.reply_err(format!("{error:#}")).wait()
            }
        };
        if let Err(error) = sent {
            note!("an answer could not be sent: {error}");
        }
    }

    /// # Errors
    /// Which are sent to whoever asks.
    fn answer(&mut self, bytes: &[u8]) -> Result<Vec<u8>> {
        let now = Instant::now();
        ensure!(
            self.questions.allows(now),
            "busy: at most {QUESTIONS_PER_MINUTE} questions a minute are answered"
        );
        let question = Question::parse(bytes)?;
        let Question { cookie, want, .. } = question;
        if want == Want::Decisions {
            let reply = ring::reply(&self.spool, &self.host, &question)?;
            note!("asked for decisions of #{cookie}: {}", reply.decisions.len());
            return Ok(serde_json::to_vec(&reply)?);
        }
        ensure!(
            self.files.allows(now),
            "busy: at most {FILES_PER_MINUTE} files a minute are made: ask again in ten seconds"
        );
        let file = rendered::file(&self.spool, &question, self.most_bytes)?;
        let want = format!("{want:?}").to_lowercase();
        note!("asked for {want} of #{cookie}: {} bytes", file.len());
        Ok(file)
    }
}
