//! A recording comes from the device to this host: trace, clocks beside it, and what it holds.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use transom_android::{Installed, Lying, Relation, Relations};
use transom_output::{Output, Replace, is_file_or_new, note};
use transom_trace::Reader;

use crate::recorded::{print_losses_of, size};

/// Clocks of computers are within some tens of these.
const TELLING_PPM: f64 = 10.0;

/// `walk.parquet` has its clocks in `walk.clock.json`.
pub fn beside(trace: &Path) -> PathBuf {
    trace.with_extension("clock.json")
}

/// Refuses a file that could not be written in the end, before anything is begun or ended for it.
///
/// # Errors
/// It or its clocks are there and are not to be replaced, or it can be no file.
pub fn check_output(path: &Path, replace: Replace) -> Result<()> {
    ensure!(is_file_or_new(path), "{} is no file: name one with -o", path.display());
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    tempfile::tempfile_in(folder)
        .with_context(|| format!("cannot write to {}", folder.display()))?;
    for path in [path.to_owned(), beside(path)] {
        ensure!(
            matches!(replace, Replace::Always) || !path.exists(),
            "{} exists already: give another name with -o, or --force",
            path.display()
        );
    }
    Ok(())
}

/// Fetches it to `to`, and removes it from the device once it is here and can be read.
///
/// # Errors
/// It did not come whole, or cannot be written here: it is still on the device.
pub fn fetch(installed: &Installed, lying: &Lying, to: &Path, replace: Replace) -> Result<()> {
    let after = Relation::measure(installed)?;
    let mut output = Output::open(to, &[], replace)?;
    let length = installed.fetch(lying, &mut output, &mut |bytes| show(bytes, lying))?;
    clear();
    output.finish()?;
    let events = count(to).with_context(|| {
        format!("what came from the device cannot be read; it is still there: {}", lying.name())
    })?;
    let clocks =
        Relations { before: lying.clocks(), after: Some(after), restarted: lying.was_restarted() };
    let text = format!("{:#}\n", clocks.as_json(installed.device.serial(), lying));
    Output::write_all_to(&beside(to), &[to], replace, text.as_bytes())?;
    installed.remove(lying)?;
    note!("transom: {events} events, {} in {}", size(length), to.display());
    tell(lying, &clocks, to);
    Ok(())
}

/// Events of a trace, all of which are read.
fn count(trace: &Path) -> Result<u64> {
    let mut events = 0;
    for event in Reader::open(trace)? {
        event?;
        events += 1;
    }
    Ok(events)
}

fn tell(lying: &Lying, clocks: &Relations, to: &Path) {
    match lying.done() {
        Some(done) => print_losses_of(done),
        None => note!("transom: the recorder did not come to its end: {}", why(lying)),
    }
    if let Some(after) = &clocks.after {
        note!("transom: {}, in {}", after.words(), beside(to).display());
    }
    if clocks.restarted {
        note!("transom: it was restarted since: its boot clock is another one, and has no offset");
    }
    // Of a short recording it says nothing.
    if let Some((drift, error)) = clocks.drift_ppm().filter(|(_, error)| *error < TELLING_PPM) {
        note!("transom: its clock gained {drift:.1} ppm on this host's, ± {error:.1} ppm");
    }
}

/// Why a recorder ended before its time; what it wrote is there.
pub fn why(lying: &Lying) -> String {
    let errors = lying.errors();
    let last = errors.lines().last().unwrap_or_default();
    let last = last.strip_prefix("transom: ").unwrap_or(last);
    match lying {
        _ if lying.was_restarted() => "the device was restarted".to_owned(),
        _ if errors.contains("No space left on device") => {
            format!("the device is full ({last}); --max-size or --rate write less")
        }
        _ if last.is_empty() => "it was killed".to_owned(),
        _ => last.to_owned(),
    }
}

fn show(bytes: u64, lying: &Lying) {
    if std::io::stderr().is_terminal() {
        let all = lying.bytes().unwrap_or(0);
        let _ = write!(std::io::stderr(), "\r\x1b[Kfetching {} of {}", size(bytes), size(all));
    }
}

fn clear() {
    if std::io::stderr().is_terminal() {
        let _ = write!(std::io::stderr(), "\r\x1b[K");
    }
}
