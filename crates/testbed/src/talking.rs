//! A program that runs beside a test and says on its standard error what it does.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};

use super::PATIENCE;

/// Killed when it is dropped.
pub struct Talking {
    child: Child,
    said: Receiver<String>,
}

impl Talking {
    /// Runs, and has said these words, when this returns.
    pub fn start(command: &mut Command, ready: &str) -> Talking {
        let talking = Talking::spawn(command);
        talking.wait_for_words(ready);
        talking
    }

    /// Was begun, and may have said nothing yet.
    pub fn spawn(command: &mut Command) -> Talking {
        let mut child = command.stderr(Stdio::piped()).spawn().expect("it can be run");
        let (say, said) = channel();
        let errors = BufReader::new(child.stderr.take().expect("a pipe"));
        std::thread::spawn(move || {
            for line in errors.lines().map_while(Result::ok) {
                let _ = say.send(line);
            }
        });
        Talking { child, said }
    }

    /// The next line that contains these words.
    ///
    /// # Panics
    /// It ends before, or says nothing for as long as anything is waited for.
    pub fn wait_for_words(&self, words: &str) -> String {
        let mut before = Vec::new();
        loop {
            let line = self.said.recv_timeout(PATIENCE);
            let line = line.unwrap_or_else(|_| panic!("it never said '{words}' but {before:?}"));
            if line.contains(words) {
                return line;
            }
            before.push(line);
        }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: a child that was not waited for.
        unsafe { libc::kill(self.child.id() as i32, signal) };
    }

    /// After this signal, which it must end by.
    pub fn end(&mut self, signal: i32) -> ExitStatus {
        self.signal(signal);
        self.wait()
    }

    /// When it ends by itself.
    pub fn wait(&mut self) -> ExitStatus {
        self.child.wait().expect("a child")
    }
}

impl Drop for Talking {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
