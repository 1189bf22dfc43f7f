//! A script that runs on the device: what it says, line by line, and how it ends.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};

/// What the device's shell says last, with the exit code. adb ends with 0 also if it has lost the
/// device, so its own exit code says nothing.
const MARK: &str = "transom-ended ";

/// What adb says of a device before Android 7: its shell is a terminal, with neither an error output
/// of its own nor an exit code.
const NO_SHELL: &str = "target doesn't support PTY args";

/// The script with that line after it.
pub fn marked(script: &str) -> String {
    format!("({script}\n); echo {MARK}$? >&2")
}

pub enum Next {
    Out(String),
    Err(String),
    /// It ended with this code.
    Ended(i32),
    /// Nothing came in that time.
    Silent,
}

enum Stream {
    Out,
    Err,
}

pub struct Call {
    child: Child,
    stdin: Option<ChildStdin>,
    said: Receiver<(Stream, String)>,
    code: Option<i32>,
    last_error: String,
}

fn pass_on(
    stream: impl Read + Send + 'static,
    to: Sender<(Stream, String)>,
    which: fn() -> Stream,
) {
    std::thread::spawn(move || {
        let mut lines = BufReader::new(stream);
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
            let text = String::from_utf8_lossy(&line);
            let text = text.trim_end_matches(['\n', '\r']).to_owned();
            if to.send((which(), text)).is_err() {
                return;
            }
            line.clear();
        }
    });
}

impl Call {
    /// `adb shell` with a script that is [`marked`]. Its standard output is read here unless it
    /// was given another place. Ctrl-C is ours alone: adb is in a process group of its own.
    pub fn start(mut adb: Command, has_own_output: bool) -> Result<Call> {
        if !has_own_output {
            adb.stdout(Stdio::piped());
        }
        adb.stdin(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let program = adb.get_program().to_owned();
        let mut child =
            adb.spawn().with_context(|| format!("cannot run {}", program.to_string_lossy()))?;
        let (to, said) = channel();
        if let Some(out) = child.stdout.take() {
            pass_on(out, to.clone(), || Stream::Out);
        }
        if let Some(err) = child.stderr.take() {
            pass_on(err, to, || Stream::Err);
        }
        let stdin = child.stdin.take();
        Ok(Call { child, stdin, said, code: None, last_error: String::new() })
    }

    /// A line for the script to read. If it has ended, [`Call::next`] says how.
    pub fn tell(&mut self, line: &str) -> std::io::Result<()> {
        let Some(stdin) = &mut self.stdin else { return Ok(()) };
        match stdin.write_all(format!("{line}\n").as_bytes()) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            told => told,
        }
    }

    /// The script has nothing more to read.
    pub fn close_input(&mut self) {
        self.stdin = None;
    }

    /// What it says next.
    ///
    /// # Errors
    /// adb ended without a word of how the script did: [`Lost`].
    pub fn next(&mut self, patience: Duration) -> Result<Next> {
        loop {
            match self.said.recv_timeout(patience) {
                Ok((Stream::Out, line)) => return Ok(Next::Out(line)),
                Ok((Stream::Err, line)) => {
                    // Output that was said before the end may come after it.
                    if let Some(line) = self.without_mark(&line) {
                        return Ok(Next::Err(line));
                    }
                }
                Err(RecvTimeoutError::Timeout) => return Ok(Next::Silent),
                Err(RecvTimeoutError::Disconnected) => {
                    self.child.wait().context("waiting for adb")?;
                    return self.ended();
                }
            }
        }
    }

    /// Notes the exit code, if the line has it; what else is in it.
    fn without_mark(&mut self, line: &str) -> Option<String> {
        let (before, is_marked) = match line.split_once(MARK) {
            Some((before, code)) => {
                self.code = code.trim().parse().ok();
                (before, true)
            }
            None => (line, false),
        };
        if !before.is_empty() {
            self.last_error = before.to_owned();
        }
        (!is_marked || !before.is_empty()).then(|| before.to_owned())
    }

    fn ended(&self) -> Result<Next> {
        match self.code {
            Some(code) => Ok(Next::Ended(code)),
            None if self.last_error.contains(NO_SHELL) => Err(anyhow!(
                "adb can run no program on it that tells its exit code: Transom needs Android 7 or \
                 later"
            )),
            None => Err(anyhow!(Lost(self.last_error.clone()))),
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// adb lost the device; what it said of that.
#[derive(Debug)]
pub struct Lost(String);

impl std::error::Error for Lost {}

impl std::fmt::Display for Lost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("adb has lost the device")?;
        match self.0.as_str() {
            "" => {}
            reason => write!(f, " ({reason})")?,
        }
        f.write_str(": see `adb devices`")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(script: &str) -> Call {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]);
        Call::start(shell, false).unwrap()
    }

    /// All that is said, and the end.
    fn all_of(mut call: Call) -> (Vec<String>, Result<i32>) {
        let mut said = Vec::new();
        loop {
            match call.next(Duration::from_secs(10)) {
                Ok(Next::Out(line)) => said.push(format!("out {line}")),
                Ok(Next::Err(line)) => said.push(format!("err {line}")),
                Ok(Next::Silent) => {}
                Ok(Next::Ended(code)) => return (said, Ok(code)),
                Err(error) => return (said, Err(error)),
            }
        }
    }

    #[test]
    fn the_exit_code_is_the_scripts_even_if_its_last_line_has_no_end() {
        let (said, code) = all_of(call(&marked("printf half >&2; exit 7")));
        assert_eq!((said, code.unwrap()), (vec!["err half".to_owned()], 7));
    }

    #[test]
    fn an_end_without_a_code_is_a_lost_device() {
        let (said, end) = all_of(call("echo begun; echo 'error: closed' >&2; exit 0"));
        assert!(said.contains(&"out begun".to_owned()));
        assert!(end.unwrap_err().to_string().contains("error: closed"));
    }

    #[test]
    fn a_device_before_android_7_is_told_apart_from_a_lost_one() {
        let adbs = "echo \"error: target doesn't support PTY args -Tt\" >&2; exit 1";
        let said = all_of(call(adbs)).1.unwrap_err().to_string();
        assert!(said.contains("Android 7") && !said.contains("lost"), "{said}");
    }

    #[test]
    fn the_end_is_told_after_all_that_was_said() {
        let script = marked("(sleep 0.2; echo late) & exec 2>&1; echo early; exit 3");
        let (said, code) = all_of(call(&script));
        assert_eq!((said, code.unwrap()), (vec!["out early".to_owned(), "out late".to_owned()], 3));
    }

    #[test]
    fn lines_are_told_to_the_script_while_it_runs() {
        let mut talk = call(&marked("read word; echo got $word"));
        talk.tell("this").unwrap();
        assert!(
            matches!(talk.next(Duration::from_secs(10)), Ok(Next::Out(line)) if line == "got this")
        );
    }

    #[test]
    fn of_an_adb_that_hears_nothing_more_it_is_told_that_the_device_is_lost() {
        let mut talk = call("read word; echo got $word; echo 'error: closed' >&2");
        talk.tell("first").unwrap();
        talk.child.wait().unwrap();
        talk.tell("second").unwrap();
        let (said, end) = all_of(talk);
        assert!(said.contains(&"out got first".to_owned()), "{said:?}");
        let lost = end.unwrap_err().to_string();
        assert!(lost.contains("lost the device") && lost.contains("error: closed"), "{lost}");
    }
}
