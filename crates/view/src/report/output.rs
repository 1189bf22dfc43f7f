//! All that `transom report` writes for one recording.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::{FigureOptions, Selection, Trace, figure, file_stem, page, png, save, save_page};

/// Where the page and the pictures go.
#[derive(Clone, Debug, Default)]
pub struct Output {
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
pub fn write(trace: &Trace, selection: &Selection, output: &Output) -> Result<Vec<PathBuf>> {
    let html = page(trace, selection)?;
    save_page(&output.page, &html, output.force)?;
    let mut written = vec![output.page.clone()];
    if output.svg.is_none() && output.png.is_none() {
        return Ok(written);
    }
    let directories = [&output.svg, &output.png];
    for directory in directories.into_iter().flatten() {
        std::fs::create_dir_all(directory)
            .with_context(|| format!("cannot make the directory {}", directory.display()))?;
    }
    for (rank, analysis) in selection.choose(&trace.analyses)?.into_iter().enumerate() {
        let picture = figure(&trace.recording, analysis, output.figures);
        let stem = file_stem(rank + 1, analysis);
        if let Some(directory) = &output.svg {
            written.push(put(directory, &stem, "svg", picture.as_bytes())?);
        }
        if let Some(directory) = &output.png {
            written.push(put(directory, &stem, "png", &png(&picture, output.png_width)?)?);
        }
    }
    Ok(written)
}

fn put(directory: &Path, stem: &str, extension: &str, bytes: &[u8]) -> Result<PathBuf> {
    let path = directory.join(format!("{stem}.{extension}"));
    save(&path, bytes)?;
    Ok(path)
}

/// The page of a trace file when no other was named: beside it, as `.html`.
///
/// # Errors
/// The trace is itself named `.html`.
pub fn default_page(trace: &Path) -> Result<PathBuf> {
    let page = trace.with_extension("html");
    if page == trace {
        bail!("{} would be replaced by its own report: name one with --output", trace.display());
    }
    Ok(page)
}
