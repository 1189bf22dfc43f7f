//! One device, and what it says of itself.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::adb::{Adb, Listed, last_line};
use crate::call::{Call, Next, marked};
use crate::root::Root;
use crate::selinux::Selinux;

/// How long a device may be silent before it counts as gone. A phone that asks its user whether
/// `su` is allowed waits for half a minute.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Device {
    adb: Adb,
    listed: Listed,
}

/// What a script said.
#[derive(Clone, Debug)]
pub struct Answer {
    pub out: String,
    pub err: String,
    pub code: i32,
}

impl Answer {
    pub fn is_good(&self) -> bool {
        self.code == 0
    }

    /// The last line of its complaints, else of what it said.
    pub fn complaint(&self) -> String {
        last_line(if self.err.trim().is_empty() { &self.out } else { &self.err })
    }
}

impl Device {
    pub(crate) fn new(adb: Adb, listed: Listed) -> Device {
        Device { adb, listed }
    }

    pub fn serial(&self) -> &str {
        &self.listed.serial
    }

    pub(crate) fn adb(&self, words: &[&str]) -> Command {
        self.adb.command([&["-s", self.serial()], words].concat())
    }

    /// Runs a script without a terminal.
    pub(crate) fn call(&self, script: &str) -> Result<Call> {
        Call::start(self.adb(&["shell", "-T", &marked(script)]), false)
    }

    /// The same with this program's standard output.
    pub(crate) fn call_with_output(&self, script: &str) -> Result<Call> {
        let mut adb = self.adb(&["shell", "-T", &marked(script)]);
        adb.stdout(Stdio::inherit());
        Call::start(adb, true)
    }

    /// Runs a script to its end.
    ///
    /// # Errors
    /// The device is lost or does not answer. A script that fails is an answer.
    pub(crate) fn shell(&self, script: &str) -> Result<Answer> {
        self.shell_within(PATIENCE, script)
    }

    /// The same, of a device that may be silent for so long.
    pub(crate) fn shell_within(&self, patience: Duration, script: &str) -> Result<Answer> {
        let mut call = self.call(script)?;
        call.close_input();
        let (mut out, mut err) = (String::new(), String::new());
        loop {
            match call.next(patience).with_context(|| self.serial().to_owned())? {
                Next::Out(line) => out += &(line + "\n"),
                Next::Err(line) => err += &(line + "\n"),
                Next::Ended(code) => return Ok(Answer { out, err, code }),
                Next::Silent => bail!(
                    "{} has not answered for {} s: see `adb devices`",
                    self.serial(),
                    patience.as_secs()
                ),
            }
        }
    }

    /// What the device is.
    ///
    /// # Errors
    /// It is lost.
    pub fn facts(&self) -> Result<Facts> {
        let answer = self.shell(FACTS)?;
        Ok(Facts::of(&answer.out))
    }

    /// # Errors
    /// It is lost.
    pub fn root(&self) -> Result<Root> {
        Root::of(self)
    }
}

/// Everything a shell can tell, each with its key. What a device lacks is told as nothing.
const FACTS: &str = r#"
tell() { key=$1; shift; echo "$key=$("$@" 2>/dev/null)"; }
tell machine uname -m
tell kernel uname -r
tell system uname -o
tell manufacturer getprop ro.product.manufacturer
tell model getprop ro.product.model
tell android getprop ro.build.version.release
tell sdk getprop ro.build.version.sdk
tell abis getprop ro.product.cpu.abilist
tell debuggable getprop ro.debuggable
tell page_size getconf PAGE_SIZE
tell enforcing getenforce
tell enforce cat /sys/fs/selinux/enforce
tell context cat /proc/self/attr/current
tell free df -k /data/local/tmp
"#;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    told: BTreeMap<String, String>,
}

impl Facts {
    pub(crate) fn of(text: &str) -> Facts {
        let mut told: BTreeMap<String, String> = BTreeMap::new();
        let mut last = String::new();
        for line in text.lines() {
            // Only a known key begins a new answer: `df` has several lines.
            let known =
                line.split_once('=').filter(|(key, _)| FACTS.contains(&format!("\ntell {key} ")));
            match known {
                Some((key, value)) => {
                    last = key.to_owned();
                    told.insert(last.clone(), value.trim_end_matches('\0').trim().to_owned());
                }
                None => *told.entry(last.clone()).or_default() += &format!("\n{line}"),
            }
        }
        Facts { told }
    }

    fn told(&self, key: &str) -> Option<&str> {
        self.told.get(key).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// As `uname -m` says.
    pub fn machine(&self) -> &str {
        self.told("machine").unwrap_or("unknown")
    }

    pub fn kernel(&self) -> &str {
        self.told("kernel").unwrap_or("unknown")
    }

    /// `Google Pixel 8`; `None` if it is no Android.
    pub fn model(&self) -> Option<String> {
        let words = [self.told("manufacturer"), self.told("model")];
        let words: Vec<&str> = words.into_iter().flatten().collect();
        (!words.is_empty()).then(|| words.join(" "))
    }

    /// `Android 14 (API 34)`.
    pub fn system(&self) -> String {
        match (self.told("android"), self.told("sdk")) {
            (Some(release), Some(sdk)) => format!("Android {release} (API {sdk})"),
            (Some(release), None) => format!("Android {release}"),
            _ => format!("no Android: {}", self.told("system").unwrap_or("unknown")),
        }
    }

    /// Whether only 32-bit programs are meant to run, though the kernel has 64 bits.
    pub fn is_32_bit(&self) -> bool {
        self.told("abis").is_some_and(|abis| !abis.contains("64"))
            || matches!(self.machine(), "armv8l" | "i686")
    }

    /// Bytes; `None` if the device has no `getconf`.
    pub fn page_size(&self) -> Option<u64> {
        self.told("page_size")?.parse().ok()
    }

    /// Whether `adb root` would give root.
    pub fn is_debuggable(&self) -> bool {
        self.told("debuggable") == Some("1")
    }

    pub fn selinux(&self) -> Selinux {
        Selinux::of(self.told("enforcing"), self.told("enforce"), self.told("context"))
    }

    /// Free bytes where our files go.
    pub fn free(&self) -> Option<u64> {
        let last = self.told("free")?.lines().last()?;
        // Name, size, used, available, share, mount; a long name may have a line of its own.
        let words: Vec<&str> = last.split_whitespace().collect();
        let available = words.get(words.len().checked_sub(3)?)?;
        Some(available.parse::<u64>().ok()? << 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PHONE: &str = "machine=aarch64
kernel=6.1.75-android14-11-g0123456789ab
system=Toybox
manufacturer=Google
model=Pixel 8
android=15
sdk=35
abis=arm64-v8a
debuggable=0
page_size=4096
enforcing=Enforcing
enforce=
context=u:r:shell:s0\0
free=Filesystem      1K-blocks    Used Available Use% Mounted on
/dev/block/dm-48 113225708 9876543 103349165   9% /data/user/0
";

    #[test]
    fn a_phone_tells_all() {
        let facts = Facts::of(PHONE);
        assert_eq!(facts.model().as_deref(), Some("Google Pixel 8"));
        assert_eq!(facts.system(), "Android 15 (API 35)");
        assert_eq!(facts.page_size(), Some(4096));
        assert_eq!(facts.free(), Some(103_349_165 << 10));
        assert_eq!(facts.selinux().words(), "enforcing, u:r:shell:s0");
        assert!(!facts.is_32_bit() && !facts.is_debuggable());
    }

    #[test]
    fn a_user_space_of_32_bits_is_seen_by_its_list_of_abis() {
        let facts = Facts::of("machine=armv8l\nabis=armeabi-v7a,armeabi\n");
        assert!(facts.is_32_bit());
    }

    #[test]
    fn a_linux_without_getprop_is_no_android() {
        let facts = Facts::of("machine=x86_64\nkernel=6.18\nsystem=GNU/Linux\nmodel=\nandroid=\n");
        assert_eq!((facts.model(), facts.page_size(), facts.free()), (None, None, None));
        assert_eq!(facts.system(), "no Android: GNU/Linux");
        assert_eq!(facts.selinux().words(), "none");
    }
}
