//! `transom android`: a phone is watched over adb, with everything else on this host.

mod check;
mod fetch;
mod pull;
mod record;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::Subcommand;
use transom_android::{Adb, Device, Facts, Installed, Program, Root, ondevice};
use transom_output::{note, say};

use crate::recorded::size;

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "Examples:
  transom android check
  transom android record -o walk.parquet --for 60s --port 443
  transom android record --detach                    the phone may be unplugged
  transom android pull -o walk.parquet               fetches it later
  transom android run -- log --interface wlan0";

#[derive(Subcommand)]
enum Command {
    /// Say what the device is, and what Transom can do on it
    Check(Target),
    /// Put the program on the device, to stay
    Push(Push),
    /// Record on the device, and fetch the trace
    Record(Box<record::Args>),
    /// List the recordings that lie on the device, or fetch one
    Pull(pull::Args),
    /// Run any command of transom on the device, with its output here
    Run(Run),
    /// What runs on the device: started by the others
    #[command(hide = true)]
    OnDevice(OnDevice),
}

#[derive(clap::Args)]
struct Target {
    /// The device, as `adb devices` names it [default: ANDROID_SERIAL, else the only one]
    #[arg(long, value_name = "SERIAL")]
    serial: Option<String>,
    /// The static program for the device [default: transom-aarch64 or -x86_64 beside this one]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

#[derive(clap::Args)]
struct Push {
    /// Take it away again; recordings stay
    #[arg(long)]
    remove: bool,
    #[command(flatten)]
    target: Target,
}

#[derive(clap::Args)]
struct Run {
    /// As after `transom`; files are in /data/local/tmp
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
    #[command(flatten)]
    target: Target,
}

#[derive(clap::Args)]
struct OnDevice {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

pub fn run(args: Args) -> Result<ExitCode> {
    match args.command {
        Command::Check(target) => check::run(&target),
        Command::Push(args) => push(&args),
        Command::Record(args) => record::run(&args),
        Command::Pull(args) => pull::run(&args),
        Command::Run(args) => run_there(&args),
        Command::OnDevice(args) => ondevice::run(&args.words),
    }
}

impl Target {
    fn device(&self) -> Result<Device> {
        Adb::find()?.choose(self.serial.as_deref())
    }

    fn program(&self, facts: &Facts) -> Result<Program> {
        Program::choose(self.program.as_deref(), facts)
    }

    /// The program on the device, for as long as this command needs it.
    fn borrow<'a>(&self, device: &'a Device) -> Result<Installed<'a>> {
        let program = self.program(&device.facts()?)?;
        Installed::borrow(device, device.root()?, &program)
    }

    /// Does something with the program there, which goes again if it was not there before.
    fn with_program<T>(
        &self,
        device: &Device,
        work: impl FnOnce(&Installed) -> Result<T>,
    ) -> Result<T> {
        let installed = self.borrow(device)?;
        let done = work(&installed);
        // Where adb is gone, the next command takes it away.
        let given_back = installed.give_back();
        let done = done?;
        given_back?;
        Ok(done)
    }
}

fn push(args: &Push) -> Result<ExitCode> {
    let device = args.target.device()?;
    if args.remove {
        let was_there = transom_android::remove(&device)?;
        let what = if was_there { "transom was taken away" } else { "there was no transom" };
        say!("{}: {what}", device.serial())?;
        return Ok(ExitCode::SUCCESS);
    }
    let facts = device.facts()?;
    let program = args.target.program(&facts)?;
    let installed = Installed::push(&device, Root::None, &program)?;
    let how = if installed.was_there { "is there already" } else { "is there" };
    say!(
        "{}: {}/transom {how}: {}, {}, SHA-256 compared",
        device.serial(),
        transom_android::FOLDER,
        size(program.length),
        program.path.display(),
    )?;
    if facts.is_32_bit() {
        note!("transom: its user space is 32-bit, its kernel is not: that is enough");
    }
    Ok(ExitCode::SUCCESS)
}

fn run_there(args: &Run) -> Result<ExitCode> {
    use std::io::IsTerminal;
    let first = args.command.first().context("no command")?;
    ensure!(first != "android", "`android` runs on the host: name another command");
    let device = args.target.device()?;
    let is_screen = first == "top" && std::io::stdin().is_terminal();
    let code = args.target.with_program(&device, |installed| {
        warn_without_root(installed);
        if is_screen {
            transom_android::on_terminal(installed, &args.command)
        } else {
            transom_android::attend(installed, &args.command)
        }
    })?;
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

fn warn_without_root(installed: &Installed) {
    if !installed.root.is_there() {
        note!("transom: no root on {}: see `transom android check`", installed.device.serial());
    }
}
