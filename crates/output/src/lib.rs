//! What commands write, and where: files that are whole or not there ([`Output`]), lines on the
//! standard output that may be closed or full ([`say!`], [`standard_output`]), and notes on the standard error that
//! nobody has to read ([`note!`]), with what others wrote made [`plain`]; how a program begins ([`run`])
//! and ends ([`exit`]), becomes another one ([`Companion`]), or tells the end of one that it was given
//! ([`program`]); and the small files that it is given ([`text_of`]), with what is wrong in them
//! ([`in_plain_words`]).

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod companion;
mod exit;
mod file;
pub mod folders;
mod given;
mod plain;
pub mod program;
pub mod unfinished;
mod words;

use std::fmt::Arguments;
use std::io::Write;

pub use companion::Companion;
pub use exit::{StandardOutput, exit, run, standard_output};
pub use file::{Output, Replace, is_file_or_new, is_standard_output, pipe_or_device};
pub use given::{bytes_up_to, text_of, text_up_to};
pub use plain::plain;
pub use words::in_plain_words;

/// Writes a line to the standard output.
///
/// # Errors
/// Those of the standard output: it is closed (`| head -1`) or full. `println!` would panic.
#[macro_export]
macro_rules! say {
    ($($words:tt)*) => {{
        use ::std::io::Write as _;
        ::std::writeln!($crate::standard_output(), $($words)*)
    }};
}

/// Writes lines that quote what others wrote to the standard output, without anything that a
/// terminal would obey.
///
/// # Errors
/// If the output is closed or full.
pub fn say_plain(lines: &str) -> std::io::Result<()> {
    say!("{}", plain::plain_lines(lines.trim_end()))
}

/// Writes a line to the standard error, without anything that a terminal would obey: errors quote
/// what others wrote. If that is closed or full, the line is lost and nothing else is.
#[macro_export]
macro_rules! note {
    ($($words:tt)*) => {
        $crate::write_note(::std::format_args!($($words)*))
    };
}

#[doc(hidden)]
pub fn write_note(words: Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "{}", plain::plain_lines(&words.to_string()));
}
