//! What the device is, and what works there.

use std::process::ExitCode;

use anyhow::Result;
use transom_android::{Device, FOLDER, Facts, Installed, Root, denials};
use transom_output::{plain, say};

use super::Target;
use crate::recorded::size;

/// Exit code 0 if the monitor can run there.
pub fn run(target: &Target) -> Result<ExitCode> {
    let device = target.device()?;
    let facts = device.facts()?;
    let root = device.root()?;
    tell(&device, &facts, root)?;
    let program = target.program(&facts)?;
    let installed = match Installed::borrow(&device, root, &program) {
        Ok(installed) => installed,
        Err(error) => {
            line(false, "program", &format!("does not run in {FOLDER}"))?;
            return Err(error);
        }
    };
    let found =
        if installed.was_there { "is there, and runs" } else { "can be put there, and runs" };
    line(true, "program", &format!("{FOLDER}/transom {found}"))?;
    say!()?;
    let code = transom_android::attend(&installed, &["check".to_owned()])?;
    if code != 0 && root.is_there() && facts.selinux().is_enforcing() {
        for denial in denials(&device, root)? {
            say!("SELinux denied transom {}", plain(&denial))?;
        }
    }
    installed.give_back()?;
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

fn line(is_good: bool, name: &str, found: &str) -> Result<()> {
    let mark = if is_good { "ok" } else { "--" };
    Ok(say!("{mark}  {name:<14} {}", plain(found))?)
}

fn remedy(text: &str) -> Result<()> {
    Ok(say!("    {:<14} {text}", "")?)
}

fn tell(device: &Device, facts: &Facts, root: Root) -> Result<()> {
    let model = facts.model().map_or_else(String::new, |model| format!("{model}, "));
    line(true, "device", &format!("{}: {model}{}", device.serial(), facts.system()))?;
    line(true, "kernel", &format!("{}, {}", facts.kernel(), facts.machine()))?;
    if facts.is_32_bit() {
        remedy("its user space is 32-bit: the kernel must have 64 bits")?;
    }
    if let Some(bytes) = facts.page_size() {
        line(true, "pages", &format!("{bytes} bytes"))?;
    }
    line(true, "SELinux", &facts.selinux().words())?;
    if let Some(free) = facts.free() {
        line(true, "free", &format!("{} in {FOLDER}", size(free)))?;
    }
    line(root.is_there(), "root", root.words())?;
    if !root.is_there() {
        remedy(if facts.is_debuggable() {
            "`adb root` gives it on this build"
        } else {
            "BPF needs it: a phone rooted with su (Magisk, KernelSU), or a debug build with adb root"
        })?;
        remedy("left without is polling, if the phone lets its shell ask for sockets")?;
    }
    Ok(())
}
