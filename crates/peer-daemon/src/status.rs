//! `transom peer status`: asks the daemon of this network namespace.

use std::fs;
use std::io::{ErrorKind, IsTerminal as _, Read, Write};
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{SyncSender, channel};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use transom_machine::lock;

use crate::link::Event;
use crate::made::{self, Made};
use crate::place::{self, Holder, LOCK_PATIENCE};
use crate::shown::State;

#[derive(clap::Args)]
pub struct Args {
    /// Print JSON for programs
    #[arg(long)]
    json: bool,
    /// Print again each second
    #[arg(long)]
    watch: bool,
    /// Where the daemon answers [default: one place for each network namespace]
    #[arg(long, value_name = "FILE")]
    socket: Option<PathBuf>,
}

const PATIENCE: Duration = Duration::from_secs(3);

fn ask(socket: &Path) -> Result<String> {
    let shown = socket.display();
    let mut stream = match UnixStream::connect(socket) {
        Err(error)
            if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) =>
        {
            bail!("no daemon answers at {shown}: start one with `transom peer run`")
        }
        Err(error) if error.kind() == ErrorKind::PermissionDenied => bail!(
            "the daemon at {shown} belongs to {}: ask as that user, or as root",
            place::owner(socket)
        ),
        other => other.with_context(|| format!("asking at {shown}"))?,
    };
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut answer = String::new();
    stream
        .read_to_string(&mut answer)
        .with_context(|| format!("the daemon at {shown} does not answer"))?;
    Ok(answer)
}

pub fn run(args: Args) -> Result<ExitCode> {
    let socket = place::socket(args.socket)?;
    let on_screen = std::io::stdout().is_terminal();
    loop {
        let answer = ask(&socket)?;
        let mut out = transom_output::standard_output();
        if args.json {
            writeln!(out, "{answer}")?;
        } else {
            let state: State = serde_json::from_str(&answer)
                .context("the daemon answers in another form: is it of another version?")?;
            if args.watch && on_screen {
                // Home, and nothing below.
                write!(out, "\x1b[H\x1b[J")?;
            }
            write!(out, "{}", state.table())?;
        }
        out.flush()?;
        if !args.watch {
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// The daemon's end. The file goes when this is dropped, and folders that were made for it.
pub struct Listener {
    socket: PathBuf,
    made: Made,
}

impl Listener {
    /// Takes the place, if no living daemon has it; what a killed one left is removed.
    pub fn start(socket: &Path, events: SyncSender<Event>) -> Result<Listener> {
        let shown = socket.display();
        if let Some(notes) = place::notes() {
            made::sweep(notes);
        }
        let (_one_at_a_time, made) = place::hold(socket)?;
        match fs::symlink_metadata(socket) {
            Ok(there) if !there.file_type().is_socket() => {
                bail!("{shown} is no socket: name another place with --socket")
            }
            Ok(_) => match place::holder(socket) {
                Holder::Gone => {}
                Holder::Lives => {
                    bail!("a daemon runs here already and answers at {shown}: stop it first")
                }
                Holder::Hidden => bail!(
                    "{shown} belongs to {}, whose daemon may run: remove it if none does, or name \
                     another place with --socket",
                    place::owner(socket)
                ),
            },
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("looking at {shown}"));
            }
            _ => {}
        }
        match fs::remove_file(socket) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("removing {shown}"));
            }
            _ => {}
        }
        let listener =
            UnixListener::bind(socket).with_context(|| format!("listening at {shown}"))?;
        place::restrict(socket)?;
        place::sweep(place::folder(socket));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answer, waiting) = channel();
                if events.send(Event::Asked(answer)).is_err() {
                    return;
                }
                let _ = answer_with(stream, waiting.recv_timeout(PATIENCE).ok());
            }
        });
        Ok(Listener { socket: socket.to_owned(), made })
    }
}

fn answer_with(mut stream: UnixStream, text: Option<String>) -> std::io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(text.unwrap_or_default().as_bytes())
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Who takes a place there at the same moment makes the folder again.
        let _alone = lock::hold_folder(place::folder(&self.socket), LOCK_PATIENCE);
        let _ = fs::remove_file(&self.socket);
        self.made.remove();
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::sync::mpsc::sync_channel;
    use std::thread;

    use super::*;

    fn start(socket: &Path) -> Result<Listener> {
        Listener::start(socket, sync_channel(1).0)
    }

    #[test]
    fn a_daemon_waits_for_one_that_takes_its_place_at_the_moment_and_not_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("peer-4026531840.sock");
        let other = lock::hold_folder(folder.path(), LOCK_PATIENCE).unwrap();
        let refusal = format!("{:#}", start(&socket).err().unwrap());
        assert!(refusal.contains("fuser") && !socket.exists(), "{refusal}");
        thread::scope(|scope| {
            scope.spawn(move || {
                thread::sleep(Duration::from_millis(100));
                drop(other);
            });
            let _daemon = start(&socket).unwrap();
            assert!(socket.exists());
        });
    }

    #[test]
    fn a_place_is_taken_from_nobody_who_lives_and_from_no_other_file() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("peer.sock");
        let refusal = |socket: &Path| start(socket).err().unwrap().to_string();
        {
            // It answers nobody, as one that was stopped.
            let _lives = UnixListener::bind(&socket).unwrap();
            assert!(refusal(&socket).contains("a daemon runs here already"));
        }
        drop(start(&socket).unwrap());
        assert!(!socket.exists(), "what a killed one left was taken");
        fs::write(&socket, "precious").unwrap();
        assert!(refusal(&socket).contains("is no socket"));
        assert_eq!(fs::read(&socket).unwrap(), b"precious");
    }

    #[test]
    fn folders_that_were_made_for_a_socket_go_with_it_and_others_stay() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("new/of/peer.sock");
        let daemon = start(&socket).unwrap();
        assert!(socket.exists());
        drop(daemon);
        assert!(!folder.path().join("new").exists());
        let too_long = folder.path().join("new").join("p".repeat(120));
        assert!(start(&too_long).is_err() && !folder.path().join("new").exists());
        let daemon = start(&socket).unwrap();
        fs::write(folder.path().join("new/precious"), "of another").unwrap();
        drop(daemon);
        assert!(folder.path().join("new/precious").exists());
        assert!(!socket.parent().unwrap().exists());
        let beside = folder.path().join("new/peer.sock");
        drop(start(&beside).unwrap());
        assert!(!beside.exists() && folder.path().join("new").exists(), "it was there before");
    }

    /// Nobody but its owner learns whether a daemon listens at it.
    #[test]
    fn what_another_user_s_daemon_left_is_told_as_his() {
        transom_testbed::needs_root!();
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let socket = folder.path().join("peer.sock");
        drop(UnixListener::bind(&socket).unwrap());
        place::restrict(&socket).unwrap();
        let as_nobody = || {
            // SAFETY: no memory. Of this thread alone, which ends after it.
            assert_eq!(unsafe { libc::syscall(libc::SYS_setresuid, 65534, 65534, 65534) }, 0);
            let refusal = start(&socket).err().unwrap().to_string();
            (refusal, ask(&socket).unwrap_err().to_string())
        };
        let (refusal, asked) = thread::scope(|scope| scope.spawn(as_nobody).join().unwrap());
        assert!(refusal.contains("belongs to user 0, whose daemon may run"), "{refusal}");
        assert!(asked.contains("belongs to user 0: ask as that user"), "{asked}");
    }
}
