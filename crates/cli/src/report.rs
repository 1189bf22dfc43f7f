use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result};
use transom_analysis::{Analysis, Limit, Recording, analyse};
use transom_view::report::{
    AllNotes, FigureOptions, Notes, Output, PageMeta, Selection, default_page, write,
};

use crate::load::{Loaded, load};
use transom_output::{is_file_or_new, say};

#[derive(clap::Args)]
pub struct Args {
    /// A trace file made by `transom record`
    file: PathBuf,

    /// Where to write the page [default: FILE with the extension .html]
    #[arg(short, long, value_name = "OUT.html")]
    output: Option<PathBuf>,

    /// Replace the output even if it is no Transom report
    #[arg(long)]
    force: bool,

    /// Also write one SVG figure per connection, 90 mm wide, into this directory
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,

    /// Also write one PNG figure per connection into this directory
    #[arg(long, value_name = "DIR")]
    png: Option<PathBuf>,

    /// Width of the PNG figures, pixels
    #[arg(long, value_name = "N", default_value_t = 1440, value_parser = clap::value_parser!(u32).range(100..=10000))]
    png_width: u32,

    /// Draw the round-trip time in the figures, too
    #[arg(long)]
    rtt: bool,

    /// Draw only these: a socket cookie, an MPTCP token, or part of a program name or of
    /// "local > remote"
    #[arg(long, value_name = "WHICH")]
    connection: Vec<String>,

    /// Draw at most this many connections, those with most bytes first
    #[arg(long, value_name = "N", default_value_t = 50)]
    top: usize,

    /// Show the page in the browser
    #[arg(long)]
    open: bool,
}

pub fn run(args: Args) -> Result<ExitCode> {
    let page = match args.output {
        Some(path) => path,
        None => default_page(&args.file)?,
    };
    let loaded = load(&args.file)?;
    let (meta, notes) = (page_meta(&args.file, &loaded), notes(&loaded.recording));
    let output = Output {
        inputs: vec![args.file.clone()],
        page,
        force: args.force,
        svg: args.svg,
        png: args.png,
        png_width: args.png_width,
        figures: FigureOptions { rtt: args.rtt },
    };
    let selection = Selection { connections: args.connection, top: args.top };
    let written = write(&loaded.recording, &meta, &notes, &selection, &output)?;
    // The page itself may go to the standard output.
    if is_file_or_new(&output.page) {
        say!("{}", output.page.display())?;
        if written.len() > 1 {
            say!("and {} figures", written.len() - 1)?;
        }
    }
    if args.open {
        show(&output.page)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What the page says of the recording as a whole.
fn page_meta(file: &Path, loaded: &Loaded) -> PageMeta {
    let (meta, recording) = (&loaded.meta, &loaded.recording);
    PageMeta {
        source: file.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        host: meta.host.clone(),
        kernel: meta.kernel.clone(),
        started_ns: (meta.realtime_offset_ns != 0)
            .then(|| recording.start_ns.saturating_add_signed(meta.realtime_offset_ns)),
        recorder: format!("transom {}", meta.transom_version),
        cut: recording.cut,
        sampling: meta.filters.clone(),
        lost: loaded.footer.as_ref().map(|footer| footer.lost.clone()).unwrap_or_default(),
    }
}

/// The verdict and the limits of each connection, by its cookie.
fn notes(recording: &Recording) -> AllNotes {
    let note = |analysis: Analysis| {
        let shares = Limit::ALL.iter().map(|&limit| (limit, analysis.limits.share(limit)));
        let limits = shares
            .filter(|&(_, share)| share > 0.0)
            .map(|(limit, share)| (limit.label().to_owned(), share))
            .collect();
        (analysis.cookie, Notes { verdict: analysis.verdict.text(), limits })
    };
    analyse(recording).into_iter().map(note).collect()
}

/// Hands the page to the desktop, which outlives us.
fn show(page: &Path) -> Result<()> {
    Command::new("xdg-open")
        .arg(page)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot run xdg-open; open {} yourself", page.display()))?;
    Ok(())
}
