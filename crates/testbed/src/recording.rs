//! `transom` itself, as a user runs it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;
use transom_event::{CaState, Endpoints, Event, Kind, LossCause, Open, fields};
use transom_output::program::code_of;
use transom_trace::{Footer, Format, Meta, Reader};

use super::machine::hides_process_one;
use super::program::copy;
use super::witness::interrupt;
use super::{Namespace, find_program, wait_for};

/// The program under test.
pub fn transom() -> Command {
    let mut command = Command::new(find_program("transom").expect("cargo builds it for its tests"));
    command.stdin(Stdio::null());
    command
}

/// Whether a [`Kind::CaState`] is a change into this state.
pub fn enters(state: CaState) -> impl Fn(&&Event) -> bool {
    move |event| fields::ca_states(event.aux)[1] == Some(state)
}

/// `transom` in another folder.
pub fn copy_transom(to: &Path) {
    let built = find_program("transom").expect("cargo builds it for its tests");
    copy(&built, to);
    // `transom lab` looks for it beside itself.
    let folder = if to.is_dir() { Some(to) } else { to.parent() };
    if let (Some(lab), Some(folder)) = (find_program("transom-lab"), folder) {
        copy(&lab, folder);
    }
}

/// `transom` as a user without any privilege runs it, in this folder, which all may enter then.
pub fn transom_of_nobody(folder: &Path) -> Command {
    const NOBODY: u32 = 65534;
    let program = folder.join("transom");
    copy_transom(&program);
    std::fs::set_permissions(folder, PermissionsExt::from_mode(0o755)).expect("our folder");
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).uid(NOBODY).gid(NOBODY).current_dir(folder);
    command
}

/// A `transom record` that runs.
pub struct Recording {
    child: Child,
    file: PathBuf,
    _directory: TempDir,
}

impl Recording {
    /// Starts one, and returns when its probes are attached.
    pub fn start(arguments: &[&str]) -> Recording {
        Recording::start_as(&mut transom(), arguments)
    }

    /// The same with a variable in its environment.
    pub fn start_with(variable: (&str, &str), arguments: &[&str]) -> Recording {
        Recording::start_as(transom().env(variable.0, variable.1), arguments)
    }

    /// The same in a network namespace.
    pub fn start_inside(namespace: &Namespace, arguments: &[&str]) -> Recording {
        let mut transom = transom();
        namespace.take(&mut transom);
        Recording::start_as(&mut transom, arguments)
    }

    /// The same by another command line: what stands before `record`.
    pub fn start_as(transom: &mut Command, arguments: &[&str]) -> Recording {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("trace.parquet");
        let child = transom
            .arg("record")
            .arg("-o")
            .arg(&file)
            .args(arguments)
            .stderr(Stdio::piped())
            .spawn()
            .expect("transom runs");
        let mut recording = Recording { child, file, _directory: directory };
        // The file is created when the probes are in place.
        wait_for("the recorder to start", || {
            if let Some(status) = recording.child.try_wait().expect("our child") {
                panic!("the recorder ended with {status}: {}", recording.errors());
            }
            recording.file.exists()
        });
        recording
    }

    pub fn file(&self) -> &Path {
        &self.file
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: the child is ours and not yet waited for.
        unsafe { libc::kill(self.child.id() as i32, signal) };
    }

    /// The events of what it has written until now, which it does twice a second.
    pub fn so_far(&self) -> Vec<Event> {
        let reader = Reader::open(&self.file).into_iter().flatten();
        reader.map_while(Result::ok).collect()
    }

    fn errors(&mut self) -> String {
        let mut text = String::new();
        if let Some(stderr) = &mut self.child.stderr {
            let _ = stderr.read_to_string(&mut text);
        }
        text
    }

    /// Waits for its end; exit status (as a shell says it) and standard error.
    pub fn wait(&mut self) -> (i32, String) {
        let errors = self.errors();
        (code_of(self.child.wait().expect("our child")).into(), errors)
    }

    /// Interrupts it and reads what it wrote; nothing may be lost, but what the kernel counts of
    /// probes inside themselves: that count is of the whole machine (docs/limits.md), so with other
    /// tests beside it says nothing of this recording. And what this machine's kernel hides.
    pub fn finish(mut self) -> Trace {
        interrupt(&self.child);
        let (code, errors) = self.wait();
        assert_eq!(code, 0, "the recorder failed: {errors}");
        let trace = Trace::read(&self.file);
        let own = trace
            .lost_by(|cause| !matches!(cause, Some(LossCause::Recursion | LossCause::UnseenSend)));
        assert_eq!(own, 0, "events were lost: {errors}");
        let unseen = trace.unseen_sends();
        assert!(unseen == 0 || hides_process_one(), "{unseen} segments left unseen: {errors}");
        trace
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a trace file holds, in the order of time.
#[derive(Debug)]
pub struct Trace {
    pub events: Vec<Event>,
    pub meta: Meta,
    pub footer: Option<Footer>,
    pub format: Format,
    pub cut: bool,
}

impl Trace {
    pub fn read(file: &Path) -> Trace {
        let mut reader = Reader::open(file).expect("a trace file");
        let mut events: Vec<Event> =
            reader.by_ref().collect::<Result<_, _>>().expect("a whole trace file");
        events.sort_by_key(|event| event.time_ns);
        Trace {
            events,
            meta: reader.meta().clone(),
            footer: reader.footer().cloned(),
            format: reader.format(),
            cut: reader.is_cut(),
        }
    }

    pub fn of(&self, kind: Kind) -> Vec<&Event> {
        self.events.iter().filter(|event| event.kind == kind).collect()
    }

    pub fn count(&self, kind: Kind) -> u64 {
        self.of(kind).len() as u64
    }

    /// Events that could not be recorded, by the trace's own account.
    pub fn lost(&self) -> u64 {
        self.lost_by(|_| true)
    }

    /// Segments with new data that left unseen: on a machine that hides what happens in the time
    /// of process 1 there may be some.
    pub fn unseen_sends(&self) -> u64 {
        self.lost_by(|cause| cause == Some(LossCause::UnseenSend))
    }

    /// What happened to connections: an account of what was lost belongs to none.
    pub fn of_connections(&self) -> impl Iterator<Item = &Event> + Clone {
        self.events.iter().filter(|event| event.kind != Kind::Lost)
    }

    /// The processes that connections belonged to.
    pub fn owners(&self) -> BTreeSet<u32> {
        self.of_connections().map(|event| event.tgid).collect()
    }

    fn lost_by(&self, counts: impl Fn(Option<LossCause>) -> bool) -> u64 {
        let lost = self.of(Kind::Lost).into_iter();
        let counted = lost.filter(|event| counts(fields::lost(event.aux).0));
        counted.map(|event| u64::from(fields::lost(event.aux).1)).sum()
    }

    /// The connections, by cookie, as their first `open` tells them.
    pub fn connections(&self) -> BTreeMap<u64, Open> {
        let mut found = BTreeMap::new();
        for event in self.of(Kind::Open) {
            found.entry(event.cookie).or_insert(*event.open().expect("open has its body"));
        }
        found
    }

    pub fn endpoints(&self) -> Vec<Endpoints> {
        self.connections().values().map(Open::endpoints).collect()
    }

    /// Ports of the other ends, sorted.
    pub fn remote_ports(&self) -> Vec<u16> {
        let mut ports: Vec<u16> = self.endpoints().iter().map(|ends| ends.remote.port()).collect();
        ports.sort_unstable();
        ports
    }

    /// Only what one connection did.
    pub fn only(&self, cookie: u64) -> Vec<&Event> {
        self.events.iter().filter(|event| event.cookie == cookie).collect()
    }

    /// The connection whose own end has this port.
    pub fn cookie_at(&self, port: u16) -> u64 {
        let found = self.connections();
        let mut matching = found.iter().filter(|(_, open)| open.local_port == port);
        let (cookie, _) = matching.next().unwrap_or_else(|| panic!("no connection from {port}"));
        *cookie
    }
}
