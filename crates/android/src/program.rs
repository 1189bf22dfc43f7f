//! Our program for the device: which file it is, how it gets there, and when it goes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::FOLDER;
use crate::adb::last_line;
use crate::checksum;
use crate::device::{Answer, Device, Facts};
use crate::elf::{Elf, Machine, Named};
use crate::ondevice;
use crate::root::Root;
use crate::shell::{joined, quoted};

/// A file of this host that the device may run.
#[derive(Clone, Debug)]
pub struct Program {
    pub path: PathBuf,
    pub length: u64,
    sum: String,
    elf: Elf,
}

impl Program {
    /// The given one, else that of the device's machine beside this program, else this program.
    ///
    /// # Errors
    /// There is none, or the given one is for another machine.
    pub fn choose(given: Option<&Path>, facts: &Facts) -> Result<Program> {
        let machine = Named::of(facts.machine())?.machine;
        if let Some(path) = given {
            return Program::read(path, machine);
        }
        let own = std::env::current_exe().context("where this program lies")?;
        let places = places(&own, machine);
        if let Some(path) = places.iter().find(|path| path.is_file()) {
            return Program::read(path, machine);
        }
        if Machine::of_this_program() == Some(machine) {
            return Program::read(&own, machine);
        }
        let looked: Vec<String> = places.iter().map(|path| path.display().to_string()).collect();
        bail!(
            "the device is an {name}, and there is no program for it here: give bin/transom of \
             Transom's {tarball} tarball (`make dist`) with --program, or put it at {}",
            looked.join(" or "),
            name = machine.name(),
            tarball = machine.tarball(),
        )
    }

    fn read(path: &Path, machine: Machine) -> Result<Program> {
        let bytes =
            std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let elf = Elf::of(path, &bytes)?;
        ensure!(
            elf.machine == machine,
            "{} is a program for {}, and the device is an {}: give the one of the {} tarball",
            path.display(),
            elf.machine.name(),
            machine.name(),
            machine.tarball()
        );
        let (length, sum) = checksum::copy(&mut bytes.as_slice(), &mut std::io::sink())?;
        Ok(Program { path: path.to_owned(), length, sum, elf })
    }

    /// A program that is not static runs only where its loader is, which is on no Android.
    fn needs_no_loader_of(&self, device: &Device) -> Result<()> {
        let Some(loader) = &self.elf.interpreter else { return Ok(()) };
        let is_there = device.shell(&format!("[ -e {} ]", quoted(loader)))?.is_good();
        ensure!(
            is_there,
            "{} is linked dynamically and the device has no {loader}: give the static program of \
             the {} tarball with --program",
            self.path.display(),
            self.elf.machine.tarball()
        );
        Ok(())
    }
}

/// Where a program for the device's machine may lie.
fn places(own: &Path, machine: Machine) -> [PathBuf; 2] {
    let name = format!("transom-{}", machine.name());
    let folder = own.parent().unwrap_or(Path::new("/"));
    let share = folder.parent().unwrap_or(Path::new("/")).join("share/transom");
    [folder.join(&name), share.join(&name)]
}

/// Our program on the device.
pub struct Installed<'a> {
    pub device: &'a Device,
    pub root: Root,
    /// Whether it was there already, the same.
    pub was_there: bool,
}

/// It lies beside a program that a command brought for itself, so that the last one takes it away.
const BORROWED: &str = "transom.borrowed";

impl<'a> Installed<'a> {
    /// Puts it there to stay.
    ///
    /// # Errors
    /// The device takes it not, or runs it not: what and why.
    pub fn push(device: &'a Device, root: Root, program: &Program) -> Result<Installed<'a>> {
        let installed = Installed::borrow(device, root, program)?;
        device.shell(&format!("rm -f {FOLDER}/{BORROWED}"))?;
        Ok(installed)
    }

    /// Puts it there for one command, if it is not there: [`Installed::give_back`].
    ///
    /// # Errors
    /// As [`Installed::push`].
    pub fn borrow(device: &'a Device, root: Root, program: &Program) -> Result<Installed<'a>> {
        let installed = Installed::put(device, root, program);
        if installed.is_err() {
            // The first error is the one to tell.
            let _ = give_back(device);
        }
        installed
    }

    fn put(device: &'a Device, root: Root, program: &Program) -> Result<Installed<'a>> {
        program.needs_no_loader_of(device)?;
        let found = device.shell(&format!(
            "cd {FOLDER} || exit 9; rm -f transom.new.*; [ -e transom ] || : >{BORROWED}; \
             {SUM} transom"
        ))?;
        if found.code == 9 {
            bail!("{}: it has no {FOLDER}: {}", device.serial(), found.complaint());
        }
        let was_there = found.out.starts_with(&program.sum);
        let installed = Installed { device, root, was_there };
        if !was_there {
            installed.send(program)?;
        }
        installed.try_it(program)?;
        Ok(installed)
    }

    fn send(&self, program: &Program) -> Result<()> {
        let new = format!("{FOLDER}/transom.new.{}", std::process::id());
        let result = self.send_as(program, &new);
        if result.is_err() {
            // The first error is the one to tell.
            let _ = self.device.shell(&format!("rm -f {new}"));
        }
        result
    }

    fn send_as(&self, program: &Program, new: &str) -> Result<()> {
        let device = self.device;
        let path = program.path.to_str().context("the program's path is no text")?;
        let output = device.adb(&["push", path, new]).output().context("cannot run adb")?;
        if !output.status.success() {
            // adb says it on either.
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8_lossy(&said);
            let error = said.lines().find(|line| line.contains("error")).unwrap_or(&said);
            bail!("{}", refusal(error, device));
        }
        let there = device.shell(&format!("chmod 755 {new} && wc -c <{new} && {SUM} {new}"))?;
        let mut words = there.out.split_whitespace();
        let length = words.next().and_then(|word| word.parse().ok());
        // A device without `sha256sum` tells its length alone; the program is tried anyway.
        let sum_is_right = words.next().is_none_or(|sum| sum == program.sum);
        ensure!(there.code == 0 || there.code == 127, "{}: {}", device.serial(), there.complaint());
        ensure!(
            length == Some(program.length) && sum_is_right,
            "{}: what arrived is not {}: {} of {} bytes; try again, or another cable",
            device.serial(),
            program.path.display(),
            length.unwrap_or(0),
            program.length
        );
        let moved = device.shell(&format!("mv -f {new} {FOLDER}/transom"))?;
        ensure!(moved.is_good(), "{}: {}", device.serial(), moved.complaint());
        Ok(())
    }

    fn try_it(&self, program: &Program) -> Result<()> {
        let answer = self.device.shell(&self.script(&["hello".to_owned()]))?;
        let said = answer.out.trim();
        if said == ondevice::hello() {
            return Ok(());
        }
        let path = program.path.display();
        if answer.is_good() || answer.code == 2 {
            bail!(
                "{path} is another version than this program, {}: give one of the same version",
                env!("CARGO_PKG_VERSION")
            );
        }
        bail!("{}: {FOLDER}/transom does not run there: {}", self.device.serial(), why(&answer));
    }

    /// A shell's words for one of [`ondevice`]'s verbs.
    pub(crate) fn script(&self, words: &[String]) -> String {
        self.root.script(&format!("{FOLDER}/transom android on-device {}", joined(words)))
    }

    /// Takes it away, if it was only borrowed and no recording lies there that needs it.
    ///
    /// # Errors
    /// The device is lost.
    pub fn give_back(self) -> Result<()> {
        give_back(self.device)
    }
}

/// Removes our program from a device, whoever put it there; recordings stay. Whether there was one.
///
/// # Errors
/// The device is lost.
pub fn remove(device: &Device) -> Result<bool> {
    let answer = device.shell(&format!(
        "cd {FOLDER} && rm -f transom.new.* {BORROWED} && [ -e transom ] && rm -f transom"
    ))?;
    Ok(answer.is_good())
}

fn give_back(device: &Device) -> Result<()> {
    // Of a device that was lost nobody waits for more.
    const PATIENCE: Duration = Duration::from_secs(5);
    let folder = ondevice::RECORDINGS;
    let script = format!(
        "cd {FOLDER} || exit; rmdir {folder} 2>/dev/null; \
         [ -e {BORROWED} ] && [ ! -e {folder} ] && rm -f transom {BORROWED}; true"
    );
    device.shell_within(PATIENCE, &script)?;
    Ok(())
}

const SUM: &str = "sha256sum";

/// Why a device did not take a file, and what helps.
fn refusal(adbs: &str, device: &Device) -> String {
    let serial = device.serial();
    if adbs.contains("No space left on device") {
        return format!(
            "{serial}: no space is left in {FOLDER}: remove something there; \
             `transom android pull --list` shows recordings of ours"
        );
    }
    if adbs.contains("Read-only file system") {
        return format!("{serial}: {FOLDER} is read-only: restart the phone, and unlock it once");
    }
    if adbs.contains("Permission denied") {
        return format!("{serial}: adb may not write to {FOLDER}: {}", last_line(adbs));
    }
    format!("{serial}: {}", last_line(adbs))
}

/// What a shell's exit code says of a program that did not run.
fn why(answer: &Answer) -> String {
    let said = answer.complaint();
    match answer.code {
        126 => format!("{said}; SELinux, or a file system without programs (noexec)"),
        132 => "it has an instruction that this processor lacks".into(),
        159 => "the kernel forbids it a system call (seccomp)".into(),
        _ if said.contains("xec format") || said.contains("not executable") => {
            format!("{said}; is the kernel 32-bit?")
        }
        code => format!("{said} (exit code {code})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(machine: &str, given: Option<&Path>) -> String {
        let facts = Facts::of(&format!("machine={machine}\n"));
        Program::choose(given, &facts).expect_err("there is none").to_string()
    }

    #[test]
    fn a_program_for_another_machine_is_refused_before_anything_is_sent() {
        let own = std::env::current_exe().unwrap();
        let (other, own_name) = match Machine::of_this_program() {
            Some(Machine::Aarch64) => ("x86_64", "aarch64"),
            _ => ("aarch64", "x86_64"),
        };
        let said = refused(other, Some(&own));
        assert!(said.contains(&format!("is a program for {own_name}")), "{said}");
        let said = refused(other, None);
        assert!(said.contains("--program") && said.contains("share/transom/transom-"), "{said}");
    }

    #[test]
    fn a_32_bit_kernel_is_refused_by_name() {
        assert!(refused("armv7l", None).contains("'armv7l'"));
    }
}
