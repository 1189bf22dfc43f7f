//! Runs the commands of pages in a shell of their own, and holds what they print against the page.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;

use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;
use transom_testbed::{copy_transom, find_program};

use crate::shown::{Shown, differs, root, share_found, shown};

/// One at a time: they measure, and the machine is small.
static ONE: Mutex<()> = Mutex::new(());

/// What a text that depends on the run must have in common with the page's: phrases.
const ENOUGH: f64 = 0.6;

/// Pages whose commands are run one after the other in one place.
pub struct Scene {
    pub pages: &'static [&'static str],
    /// Shell, before all.
    pub setup: &'static str,
    pub steps: &'static [Step],
    pub needs_root: bool,
}

/// What the commands that begin with some words need.
pub struct Step {
    pub command: &'static str,
    /// Shell, before it.
    pub before: &'static str,
    pub run: Run,
    /// It prints other words in each run: most phrases must be the page's, not every line.
    pub varies: bool,
}

impl Step {
    pub const fn new(command: &'static str, before: &'static str, run: Run) -> Step {
        Step { command, before, run, varies: false }
    }

    pub const fn varying(self) -> Step {
        Step { varies: true, ..self }
    }
}

pub enum Run {
    AsShown,
    /// It has no end: what stands before it interrupts it (`interrupt`).
    Interrupted,
    /// Shell that runs it in the page's place.
    As(&'static str),
    /// Not run, and why.
    Not(&'static str),
}

impl Scene {
    fn commands(&self) -> Vec<Shown> {
        let all = self.pages.iter().flat_map(|page| shown(&root().join(page)));
        all.filter(|shown| shown.is_run).collect()
    }

    fn step(&self, shown: &Shown) -> Option<&Step> {
        self.steps.iter().find(|step| shown.command.starts_with(step.command))
    }

    /// The script: each command's output goes to a file of its number.
    fn script(&self, commands: &[Shown]) -> String {
        let stage = if self.needs_root { include_str!("stage.sh") } else { "sudo() { \"$@\"; }" };
        let mut script = format!("{stage}\n{{\n:\n{}\n}} >setup 2>&1\n", self.setup);
        for (number, shown) in commands.iter().enumerate() {
            let step = self.step(shown);
            let command = &shown.command;
            let command = match step.map(|step| &step.run) {
                Some(Run::Not(_)) => continue,
                Some(Run::As(other)) => (*other).to_owned(),
                Some(Run::Interrupted) => {
                    format!("timeout --signal=INT 60 {}", command.trim_start_matches("sudo "))
                }
                _ => command.clone(),
            };
            let before = step.map_or("", |step| step.before);
            writeln!(script, "{{\n:\n{before}\n}} >>setup 2>&1\n{{\n{command}\n}} >{number} 2>&1")
                .unwrap();
        }
        script
    }

    /// Runs all, and says each difference.
    pub fn play(&self) {
        self.play_with(|_| ());
    }

    /// The same in a folder that `prepare` has filled.
    pub fn play_with(&self, prepare: fn(&Path)) {
        let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let commands = self.commands();
        let folder = folder();
        prepare(folder.path());
        play(folder.path(), &self.script(&commands), self.needs_root);
        let mut wrong = String::new();
        for (number, shown) in commands.iter().enumerate() {
            let step = self.step(shown);
            if let Some(Run::Not(why)) = step.map(|step| &step.run) {
                println!("{}: not run, {why}: {}", shown.place, shown.command);
                continue;
            }
            let real = fs::read_to_string(folder.path().join(number.to_string())).ok();
            let text = real.map(|text| text.replace(&format!("{}/", folder.path().display()), ""));
            let lines: Option<Vec<String>> =
                text.map(|text| text.lines().map(str::to_owned).collect());
            let problem = match &lines {
                None => Some("it was not reached".to_owned()),
                Some(_) if shown.output.is_empty() => None,
                Some(real) if step.is_some_and(|step| step.varies) => {
                    let share = share_found(&shown.output, real);
                    (share < ENOUGH).then(|| format!("{:.0} % of the phrases", 100.0 * share))
                }
                Some(real) => differs(&shown.output, real),
            };
            if let Some(problem) = problem {
                let real = lines.unwrap_or_default().join("\n");
                let Shown { place, command, .. } = shown;
                write!(wrong, "\n{place}: {command}: {problem}; it printed\n{real}\n").unwrap();
            }
        }
        let setup = fs::read_to_string(folder.path().join("setup")).unwrap_or_default();
        assert!(wrong.is_empty(), "{wrong}\nbefore the commands:\n{setup}");
    }
}

/// With our program in `bin`, also for users that may read nothing of ours.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(folder.path().join("bin")).unwrap();
    copy_transom(&folder.path().join("bin/transom"));
    folder
}

fn play(folder: &Path, script: &str, has_mounts: bool) {
    let path = std::env::var("PATH").unwrap();
    let built = find_program("transom").expect("cargo builds it for its tests");
    let built = built.parent().expect("a folder").display();
    let mut shell = Command::new(if has_mounts { "unshare" } else { "bash" });
    if has_mounts {
        shell.args(["-m", "--propagation", "private", "bash"]);
    }
    let status = shell
        .args(["-c", script])
        // The other programs of Transom are beside the one that is built.
        .env("PATH", format!("{}/bin:{path}:{built}", folder.display()))
        .env("ROOT", root())
        .current_dir(folder)
        .stdin(Stdio::null())
        .process_group(0)
        .spawn()
        .and_then(|mut child| {
            let status = child.wait();
            // What it left in the background: servers, uploads.
            let group = Pid::from_child(&child);
            let _ = kill_process_group(group, Signal::KILL);
            status
        });
    status.expect("a shell");
}
