//! A device for adb: Android's own adbd on this machine (scripts/adbd-device.sh), behind a path of
//! ours, and a host with adb that knows no other device.

use std::fs;
use std::path::{Path as FilePath, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use tempfile::TempDir;
use transom_testbed::{Namespace, Path, find_program, skip, transom, wait_for};

pub const ADBD_PORT: u16 = 5555;
const ADB_PORT: &str = "5038";

fn root() -> PathBuf {
    FilePath::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Where `scripts/adbd.sh` has put it.
fn adbd() -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    // target/PROFILE/deps/TEST.
    let folder = own.ancestors().nth(3)?.join("adbd").join(std::env::consts::ARCH);
    folder.join("complete").exists().then_some(folder)
}

/// Whether adb, adbd and root are there; if not, the test is noted as skipped.
pub fn can_run() -> bool {
    let has_tools = ["root", "adb", "strip"].into_iter().all(transom_testbed::has);
    if has_tools && adbd().is_none() {
        skip("adbd", "scripts/adbd.sh has not fetched it");
    }
    has_tools && adbd().is_some()
}

/// Leaves a test that cannot run here.
#[macro_export]
macro_rules! needs_adb {
    () => {
        if !$crate::device::can_run() {
            return;
        }
    };
}

/// Our program without its debug information, which is nine tenths of it.
pub fn program() -> &'static FilePath {
    static FILE: OnceLock<PathBuf> = OnceLock::new();
    FILE.get_or_init(|| {
        let file = FilePath::new(env!("CARGO_TARGET_TMPDIR")).join("transom-of-device");
        let built = find_program("transom").expect("cargo builds it for its tests");
        let done = Command::new("strip").arg("-o").arg(&file).arg(built).status();
        assert!(done.expect("strip").success());
        file
    })
}

/// Who adbd and its shells are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum User {
    Root,
    ShellWithSu,
    Shell,
}

pub struct Device {
    address: String,
    port: u16,
    namespace: String,
    data: Data,
    pub user: User,
    /// What comes before the script: `setarch …`.
    within: &'static [&'static str],
    adbd: Option<Child>,
}

/// What is mounted as /data.
pub enum Data {
    Folder(TempDir),
    /// A file system of so many bytes, which goes with adbd.
    Size(u64),
}

impl Data {
    fn word(&self) -> String {
        match self {
            Data::Folder(folder) => folder.path().to_str().expect("text").to_owned(),
            Data::Size(bytes) => bytes.to_string(),
        }
    }
}

impl Device {
    fn new(
        path: &Path,
        port: u16,
        data: Data,
        user: User,
        within: &'static [&'static str],
    ) -> Device {
        let namespace = path.right.name().to_owned();
        let mut device = Device {
            address: format!("10.77.0.2:{port}"),
            port,
            namespace,
            data,
            user,
            within,
            adbd: None,
        };
        device.start(&path.right);
        device
    }

    /// Starts adbd, again after [`Device::kill`].
    pub fn start(&mut self, namespace: &Namespace) {
        let script = root().join("scripts/adbd-device.sh");
        let words = [self.within, &[script.to_str().expect("text")]].concat();
        let mut command = namespace.command(words[0]);
        command.args(&words[1..]).arg(adbd().expect("it was asked for")).arg(self.port.to_string());
        command.arg(self.data.word());
        match self.user {
            User::Root => &mut command,
            User::ShellWithSu => command.args(["2000", "su"]),
            User::Shell => command.arg("2000"),
        };
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.adbd = Some(command.spawn().expect("the script"));
        wait_for("adbd to listen", || {
            let filter = format!("sport = :{}", self.port);
            let words = ["netns", "exec", &self.namespace, "ss", "-Hltn", &filter];
            let listening = Command::new("ip").args(words).output().expect("ss");
            !listening.stdout.is_empty()
        });
    }

    pub fn serial(&self) -> &str {
        &self.address
    }

    pub fn pid(&self) -> u32 {
        self.adbd.as_ref().expect("it runs").id()
    }

    /// adbd and every connection of it are gone at once.
    pub fn kill(&mut self) {
        if let Some(mut adbd) = self.adbd.take() {
            let _ = adbd.kill();
            let _ = adbd.wait();
        }
    }

    /// What lies in /data/local/tmp.
    pub fn files(&self) -> Vec<String> {
        let Data::Folder(folder) = &self.data else { panic!("a file system of its own") };
        let entries = fs::read_dir(folder.path().join("local/tmp")).expect("its folder");
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.kill();
        // What outlives adbd, when a test fails.
        let words = ["netns", "pids", &self.namespace];
        let left = Command::new("ip").args(words).output().expect("ip");
        for pid in String::from_utf8_lossy(&left.stdout).split_whitespace() {
            let pid = pid.parse().ok().and_then(rustix::process::Pid::from_raw);
            let _ =
                pid.map(|pid| rustix::process::kill_process(pid, rustix::process::Signal::KILL));
        }
    }
}

/// A host and a device on a path of 1 ms each way, connected.
pub struct Desk {
    // Its adb server ends before the path goes.
    pub host: Host,
    pub device: Device,
    pub path: Path,
}

impl Desk {
    pub fn new() -> Desk {
        Desk::with(Data::Folder(tempfile::tempdir().expect("a folder")), User::Root)
    }

    pub fn with(data: Data, user: User) -> Desk {
        Desk::of(data, user, &[])
    }

    /// A device that these words start: `setarch …`.
    pub fn within(words: &'static [&'static str]) -> Desk {
        Desk::of(Data::Folder(tempfile::tempdir().expect("a folder")), User::Root, words)
    }

    fn of(data: Data, user: User, within: &'static [&'static str]) -> Desk {
        let path = Path::new(Duration::from_millis(1));
        let device = Device::new(&path, ADBD_PORT, data, user, within);
        let host = Host::new(&path.left);
        host.connect(&device);
        Desk { host, device, path }
    }

    pub fn another_device(&self) -> Device {
        let data = Data::Folder(tempfile::tempdir().expect("a folder"));
        let device = Device::new(&self.path, ADBD_PORT + 1, data, User::Root, &[]);
        self.host.connect(&device);
        device
    }

    /// adbd again, and adb connected to it.
    pub fn restart(&mut self) {
        self.device.start(&self.path.right);
        self.reconnect();
    }

    pub fn reconnect(&self) {
        self.host.adb(&["disconnect", self.device.serial()]);
        self.host.connect(&self.device);
    }

    /// `transom android WORDS…` on the host, to its end.
    pub fn android(&self, words: &[&str]) -> Output {
        self.command(words).output().expect("transom runs")
    }

    pub fn command(&self, words: &[&str]) -> Command {
        self.host.command(&self.path.left, words)
    }

    /// The same, which must succeed; its two outputs.
    pub fn done(&self, words: &[&str]) -> (String, String) {
        let output = self.android(words);
        let texts = texts(&output);
        assert!(output.status.success(), "{words:?}: {texts:?}");
        texts
    }

    /// What it says when it refuses, which it must.
    pub fn refusal(&self, words: &[&str]) -> String {
        let output = self.android(words);
        let (_, errors) = texts(&output);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {errors}");
        errors
    }
}

pub fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

pub struct Host {
    namespace: String,
    home: TempDir,
}

impl Host {
    pub fn new(namespace: &Namespace) -> Host {
        let home = tempfile::tempdir().expect("a folder");
        Host { namespace: namespace.name().to_owned(), home }
    }

    pub fn folder(&self) -> &FilePath {
        self.home.path()
    }

    fn own(&self, command: &mut Command) {
        command.env("HOME", self.home.path()).env("ANDROID_ADB_SERVER_PORT", ADB_PORT);
        command
            .env_remove("ANDROID_SERIAL")
            .env_remove("ANDROID_HOME")
            .env_remove("ANDROID_SDK_ROOT");
        command.current_dir(self.home.path()).stdin(Stdio::null());
    }

    /// `transom android WORDS…` in its namespace, with the small program for the device.
    pub fn command(&self, namespace: &Namespace, words: &[&str]) -> Command {
        let mut command = transom();
        let (group, words) = words.split_first().expect("a subcommand");
        command.args(["android", group]);
        if !words.contains(&"--program") {
            command.arg("--program").arg(program());
        }
        command.args(words);
        self.own(&mut command);
        namespace.take(&mut command);
        command
    }

    pub fn adb(&self, words: &[&str]) -> String {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace, "adb"]).args(words);
        self.own(&mut command);
        String::from_utf8_lossy(&command.output().expect("adb").stdout).into_owned()
    }

    fn connect(&self, device: &Device) {
        wait_for("adb to connect", || {
            self.adb(&["connect", device.serial()]);
            self.adb(&["devices"]).contains(&format!("{}\tdevice", device.serial()))
        });
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.adb(&["kill-server"]);
    }
}
