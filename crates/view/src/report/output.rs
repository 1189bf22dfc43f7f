//! All that `transom report` writes for one recording.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use transom_output::{Output as File, Replace};

use super::rows::Key;
use super::{FigureOptions, Selection, Trace, figure, file_stem, page, png};

/// What the first bytes of every page of ours hold.
const SIGNATURE: &str = "<meta name=\"generator\" content=\"transom report";

/// Where the page and the pictures go.
#[derive(Clone, Debug, Default)]
pub struct Output {
    /// Files that were read, which no output may replace.
    pub inputs: Vec<PathBuf>,
    pub page: PathBuf,
    /// Replace `page` even if it is no report.
    pub force: bool,
    /// Directories, made when they are not there.
    pub svg: Option<PathBuf>,
    pub png: Option<PathBuf>,
    /// Pixels across a PNG.
    pub png_width: u32,
    pub figures: FigureOptions,
}

/// Writes the page and one picture per selected connection; returns what it
/// wrote, the page first.
///
/// # Errors
/// An unknown connection, a place that cannot be written, a page of somebody else.
pub fn write(traces: &[Trace], selection: &Selection, output: &Output) -> Result<Vec<PathBuf>> {
    let html = page(traces, selection)?;
    let inputs: Vec<&Path> = output.inputs.iter().map(PathBuf::as_path).collect();
    let replace = if output.force { Replace::Always } else { Replace::Ours(SIGNATURE) };
    File::write_all_to(&output.page, &inputs, replace, html.as_bytes())?;
    let mut written = vec![output.page.clone()];
    if output.svg.is_none() && output.png.is_none() {
        return Ok(written);
    }
    let directories = [&output.svg, &output.png];
    for directory in directories.into_iter().flatten() {
        std::fs::create_dir_all(directory)
            .with_context(|| format!("cannot make the directory {}", directory.display()))?;
    }
    for (at, (trace, chosen)) in traces.iter().zip(selection.choose(traces)?).enumerate() {
        let key = Key { trace: at, traces: traces.len() };
        for (rank, analysis) in chosen.into_iter().enumerate() {
            let picture = figure(&trace.recording, analysis, output.figures);
            let stem = key.of(file_stem(rank + 1, analysis));
            if let Some(directory) = &output.svg {
                written.push(put(directory, &stem, "svg", &inputs, picture.as_bytes())?);
            }
            if let Some(directory) = &output.png {
                let bytes = png(&picture, output.png_width)?;
                written.push(put(directory, &stem, "png", &inputs, &bytes)?);
            }
        }
    }
    Ok(written)
}

fn put(
    directory: &Path,
    stem: &str,
    extension: &str,
    inputs: &[&Path],
    bytes: &[u8],
) -> Result<PathBuf> {
    let path = directory.join(format!("{stem}.{extension}"));
    File::write_all_to(&path, inputs, Replace::Always, bytes)?;
    Ok(path)
}

/// The page of trace files when no other was named: beside the first, as `.html`.
///
/// # Errors
/// A trace is itself named so.
pub fn default_page(traces: &[PathBuf]) -> Result<PathBuf> {
    let stems: Vec<&OsStr> =
        traces.iter().map(|trace| trace.file_stem().unwrap_or_default()).collect();
    let first = traces.first().map(PathBuf::as_path).unwrap_or_else(|| Path::new("report"));
    let mut page = stems.join(OsStr::new("-"));
    page.push(".html");
    let page = first.with_file_name(page);
    if traces.contains(&page) {
        bail!("{} would be replaced by its own report: name one with --output", page.display());
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_trace_has_a_page_of_its_own_also_where_its_name_is_no_utf8() {
        use std::os::unix::ffi::OsStrExt;
        let named = |name: &[u8]| PathBuf::from(OsStr::from_bytes(name));
        for (traces, page) in [
            (vec![named(b"in/caf\xe9.parquet")], named(b"in/caf\xe9.html")),
            (vec![named(b"caf\xe8.parquet"), named(b"b.arrow")], named(b"caf\xe8-b.html")),
        ] {
            assert_eq!(default_page(&traces).unwrap(), page);
        }
    }
}
