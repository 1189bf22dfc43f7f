//! `ip` and `tc` with many lines at once.

use std::io::Write;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// # Errors
/// With the line that `ip` stumbled over and what it said.
pub fn ip(namespace: Option<&str>, lines: &[String]) -> Result<()> {
    feed("ip", namespace, &[], lines)
}

/// [`ip`] of lines that name no family and mean IPv6.
///
/// # Errors
/// The same.
pub fn ip6(namespace: Option<&str>, lines: &[String]) -> Result<()> {
    feed("ip", namespace, &["-6"], lines)
}

/// # Errors
/// With the line that `tc` stumbled over and what it said.
pub fn tc(namespace: Option<&str>, lines: &[String]) -> Result<()> {
    feed("tc", namespace, &[], lines)
}

fn feed(program: &str, namespace: Option<&str>, options: &[&str], lines: &[String]) -> Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    let mut command = Command::new(program);
    if let Some(name) = namespace {
        command.args(["-n", name]);
    }
    command.args(options).args(["-batch", "-"]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("cannot run '{program}'"))?;
    let mut input = child.stdin.take().context("standard input is piped")?;
    // A program that ends at a bad line does not read the rest: its own words are the error.
    let _ = input.write_all((lines.join("\n") + "\n").as_bytes());
    drop(input);
    let output = child.wait_with_output().with_context(|| format!("waiting for '{program}'"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let place = namespace.map(|name| format!("-n {name} ")).unwrap_or_default();
    match guilty(&said, lines) {
        Some(line) => bail!("{program} {place}{line}: {}", words(&said)),
        None => bail!("{program} {place}-batch: {}", words(&said)),
    }
}

/// The line that `Command failed -:3` names.
fn guilty<'a>(said: &str, lines: &'a [String]) -> Option<&'a str> {
    let number = said.split("Command failed -:").nth(1)?;
    let digits: String = number.chars().take_while(char::is_ascii_digit).collect();
    let index = digits.parse::<usize>().ok()?.checked_sub(1)?;
    lines.get(index).map(String::as_str)
}

fn words(said: &str) -> String {
    let lines = said.lines().filter(|line| !line.starts_with("Command failed")).map(str::trim);
    lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_that_failed_is_named() {
        let lines = vec!["link set lo up".to_owned(), "link set wlan7 up".to_owned()];
        let said = "Cannot find device \"wlan7\"\nCommand failed -:2\n";
        assert_eq!(guilty(said, &lines), Some("link set wlan7 up"));
        assert_eq!(words(said), "Cannot find device \"wlan7\"");
    }

    #[test]
    fn a_number_beyond_the_lines_names_none() {
        assert_eq!(guilty("Command failed -:9", &["link".to_owned()]), None);
    }
}
