//! The program `adb`, and the devices that it sees.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow, bail};

use crate::device::Device;

const REMEDY: &str = "install it (Debian: apt install adb; else Android's platform-tools)";

/// A device that adb lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    pub serial: String,
    /// `device` for one that can be used.
    pub state: String,
    /// As adb writes it, `Pixel_8`; empty if it does not.
    pub model: String,
}

#[derive(Clone, Debug)]
pub struct Adb {
    program: PathBuf,
}

impl Adb {
    /// In the PATH, else where Android's SDK has it.
    ///
    /// # Errors
    /// It is nowhere; the message names the remedy.
    pub fn find() -> Result<Adb> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let kits = ["ANDROID_HOME", "ANDROID_SDK_ROOT"].into_iter().filter_map(std::env::var_os);
        let folders = std::env::split_paths(&path)
            .chain(kits.map(|kit| Path::new(&kit).join("platform-tools")));
        let mut programs = folders.map(|folder| folder.join("adb"));
        let program = programs
            .find(|program| program.is_file())
            .with_context(|| format!("adb is not in the PATH: {REMEDY}"))?;
        Ok(Adb { program })
    }

    /// adb with nothing to read.
    pub(crate) fn command<W: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = W>) -> Command {
        let mut command = Command::new(&self.program);
        command.args(words).stdin(Stdio::null());
        command
    }

    pub(crate) fn name(&self) -> String {
        self.program.display().to_string()
    }

    /// # Errors
    /// adb cannot be run, or cannot say.
    pub fn devices(&self) -> Result<Vec<Listed>> {
        Ok(listed(&self.list(&[])?, &self.list(&["-l"])?))
    }

    fn list(&self, more: &[&str]) -> Result<String> {
        let output = self.command([&["devices"], more].concat()).output();
        let output = output.with_context(|| format!("cannot run {}", self.name()))?;
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            bail!("adb cannot list its devices: {}", last_line(&errors));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// The device that is meant: by its serial number, else by ANDROID_SERIAL, else the only one.
    ///
    /// # Errors
    /// There is none, or several, or it cannot be used; the message says why and what helps.
    pub fn choose(&self, serial: Option<&str>) -> Result<Device> {
        let of_environment = std::env::var("ANDROID_SERIAL").ok().filter(|it| !it.is_empty());
        let serial = serial.map(str::to_owned).or(of_environment);
        let listed = pick(self.devices()?, serial.as_deref())?;
        Ok(Device::new(self.clone(), listed))
    }
}

pub(crate) fn last_line(text: &str) -> String {
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no reason told").to_owned()
}

/// From `adb devices`, where a tab ends the serial number, which may have spaces, and from
/// `adb devices -l`, which has the models.
fn listed(list: &str, long: &str) -> Vec<Listed> {
    let devices = list.lines().filter_map(|line| line.split_once('\t'));
    let parsed = devices.map(|(serial, state)| {
        let (serial, state) = (serial.trim(), state.trim());
        let begin = format!("{serial:<22} {state}");
        let details = long.lines().find_map(|line| line.strip_prefix(&begin)).unwrap_or_default();
        let mut words = details.split_whitespace();
        let model = words.find_map(|word| word.strip_prefix("model:")).unwrap_or_default();
        Listed { serial: serial.to_owned(), state: state.to_owned(), model: model.to_owned() }
    });
    parsed.collect()
}

fn pick(mut all: Vec<Listed>, serial: Option<&str>) -> Result<Listed> {
    let names = all.iter().map(Listed::to_string).collect::<Vec<_>>().join(", ");
    let found = match serial {
        Some(serial) => {
            let place = all.iter().position(|one| one.serial == serial);
            let others = if names.is_empty() { "none".to_owned() } else { names };
            let place = place
                .with_context(|| format!("adb sees no device {serial}; those it sees: {others}"))?;
            all.swap_remove(place)
        }
        None if all.len() > 1 => bail!("adb sees several devices, name one with --serial: {names}"),
        None => all.pop().context(
            "adb sees no device: connect the phone by USB, with USB debugging on in its developer \
             options, or over the network with `adb connect ADDRESS`",
        )?,
    };
    match why_not(&found) {
        Some(why) => Err(anyhow!("{} cannot be used: {why}", found.serial)),
        None => Ok(found),
    }
}

/// Why a device in this state cannot be used, and what helps.
fn why_not(device: &Listed) -> Option<String> {
    let state = device.state.as_str();
    let why = match state {
        "device" => return None,
        "unauthorized" => {
            "it has not been told to trust this computer (unauthorized): unlock it and allow USB \
             debugging; `adb kill-server` makes it ask again"
        }
        "authorizing" | "connecting" => "the connection is not complete yet: try again",
        "offline" => {
            "it does not answer (offline): plug it in again, or `adb reconnect offline`, or \
             `adb disconnect` and `adb connect` over the network"
        }
        "recovery" | "rescue" | "sideload" | "bootloader" => {
            return Some(format!("it is in {state}: start Android (adb reboot)"));
        }
        _ if state.starts_with("no permissions") => {
            "this user may not open the USB device: install udev's rules (Debian: \
             android-sdk-platform-tools-common), join the group plugdev, and plug it in again"
        }
        _ => return Some(format!("adb says '{state}'")),
    };
    Some(why.to_owned())
}

impl std::fmt::Display for Listed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.serial)?;
        match (self.state.as_str(), self.model.as_str()) {
            ("device", "") => Ok(()),
            ("device", model) => write!(f, " ({model})"),
            (state, _) => write!(f, " ({state})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "List of devices attached
0A1B2C3D\tdevice
127.0.0.1:5555\toffline
4711\tno permissions (user in plugdev group; are your udev rules wrong?); see [http://developer.android.com/tools/device.html]
adb-35121JEHN28132-jr888A (2)._adb-tls-connect._tcp\tdevice
adb-35121JEHN28132-jr888A\toffline
";
    const LONG: &str = "List of devices attached
0A1B2C3D               device usb:1-2 product:shiba model:Pixel_8 device:shiba transport_id:4
127.0.0.1:5555         offline transport_id:5
4711                   no permissions (user in plugdev group; are your udev rules wrong?); see [http://developer.android.com/tools/device.html] usb:3-1 transport_id:6
adb-35121JEHN28132-jr888A (2)._adb-tls-connect._tcp device product:lynx model:Pixel_7a device:lynx transport_id:7
adb-35121JEHN28132-jr888A offline transport_id:8
";
    /// After an mDNS name conflict.
    const WITH_SPACE: &str = "adb-35121JEHN28132-jr888A (2)._adb-tls-connect._tcp";

    fn refusal(list: &str, serial: Option<&str>) -> String {
        pick(listed(list, LONG), serial).expect_err("it must be refused").to_string()
    }

    #[test]
    fn the_list_is_read_with_states_of_several_words() {
        let all = listed(LIST, LONG);
        let short: Vec<(&str, &str)> =
            all.iter().map(|one| (one.serial.as_str(), one.model.as_str())).collect();
        assert_eq!(short[..3], [("0A1B2C3D", "Pixel_8"), ("127.0.0.1:5555", ""), ("4711", "")]);
        assert_eq!(all[1].state, "offline");
        assert!(all[2].state.starts_with("no permissions (user in"), "{}", all[2].state);
        assert!(all[2].state.ends_with(".html]"), "{}", all[2].state);
    }

    #[test]
    fn a_serial_number_with_a_space_is_one() {
        let all = listed(LIST, LONG);
        assert_eq!((all[3].serial.as_str(), all[3].model.as_str()), (WITH_SPACE, "Pixel_7a"));
        assert_eq!((all[4].state.as_str(), all[4].model.as_str()), ("offline", ""));
        assert_eq!(pick(all, Some(WITH_SPACE)).unwrap().state, "device");
    }

    #[test]
    fn messages_of_adbs_server_are_no_devices() {
        let list =
            "* daemon not running; starting now at tcp:5037\n* daemon started successfully\n";
        assert_eq!(listed(&format!("{list}{LIST}"), LONG).len(), 5);
    }

    #[test]
    fn several_devices_are_named_and_one_is_taken_by_its_serial_number() {
        let said = refusal(LIST, None);
        for name in ["0A1B2C3D (Pixel_8)", "127.0.0.1:5555 (offline)", "--serial"] {
            assert!(said.contains(name), "{said}");
        }
        assert_eq!(pick(listed(LIST, LONG), Some("0A1B2C3D")).unwrap().model, "Pixel_8");
        assert!(
            refusal(LIST, Some("nobody")).contains("no device nobody; those it sees: 0A1B2C3D")
        );
    }

    #[test]
    fn each_state_that_prevents_use_is_told_with_its_remedy() {
        for (state, remedy) in [
            ("unauthorized", "allow USB"),
            ("offline", "plug it in again"),
            ("recovery", "adb reboot"),
            ("no permissions (missing udev rules?)", "plugdev"),
            ("a state of tomorrow", "'a state of tomorrow'"),
        ] {
            let said = refusal(&format!("X\t{state}\n"), None);
            assert!(said.contains(remedy), "{state}: {said}");
        }
        assert!(refusal("List of devices attached\n\n", None).contains("adb connect ADDRESS"));
    }
}
