//! How a script gets root on the device.

use anyhow::Result;

use crate::device::Device;
use crate::shell::quoted;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// adb's own daemon runs as root: `adb root` of a debug build.
    Adbd,
    /// `su -c SCRIPT`: Magisk, KernelSU and most others.
    Su,
    /// `su 0 sh -c SCRIPT`: the su of Android's debug builds.
    PlainSu,
    None,
}

impl Root {
    /// Tries each way. The phone may ask its user, so this may take as long as they do.
    pub(crate) fn of(device: &Device) -> Result<Root> {
        if device.shell("id -u")?.out.trim() == "0" {
            return Ok(Root::Adbd);
        }
        for way in [Root::Su, Root::PlainSu] {
            let script = format!("{} </dev/null", way.script("id -u"));
            if device.shell(&script)?.out.trim() == "0" {
                return Ok(way);
            }
        }
        Ok(Root::None)
    }

    /// The script, as root where there is a way.
    pub(crate) fn script(self, script: &str) -> String {
        match self {
            Root::Adbd | Root::None => script.to_owned(),
            Root::Su => format!("su -c {}", quoted(script)),
            Root::PlainSu => format!("su 0 sh -c {}", quoted(script)),
        }
    }

    pub fn is_there(self) -> bool {
        self != Root::None
    }

    pub const fn words(self) -> &'static str {
        match self {
            Root::Adbd => "yes, adb's daemon is root (adb root)",
            Root::Su => "yes, by su -c",
            Root::PlainSu => "yes, by su 0",
            Root::None => "no",
        }
    }
}
