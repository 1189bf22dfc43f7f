use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use transom_analysis::select;
use transom_event::Names;
use transom_view::report::{
    Before, FigureOptions, Output, PageMeta, Selection, Trace, default_page, write,
};

use crate::chosen::ChosenArgs;
use crate::filters::duration;
use crate::load::{Loaded, load};
use crate::naming::NamingArgs;
use crate::range::RangeArgs;
use crate::whatif::add_lever;
use transom_output::{is_file_or_new, say};

/// Makes one web page of a trace, or of two.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  transom report upload.parquet --open
  transom report upload.parquet --connection iperf3 --from 3s --to 12s
  transom report upload.parquet --names
  transom report upload.parquet --whatif
  transom report cubic.parquet bbr.parquet -o compared.html
  transom report client.parquet server.parquet     # both ends of the same connections")]
pub struct Args {
    /// A trace file made by `transom record`; with a second one, both are compared, or joined where
    /// they hold the two ends of the same connections
    #[arg(required = true, num_args = 1..=2, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Compare two traces even if they hold the two ends of the same connections
    #[arg(long)]
    compare: bool,

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

    #[command(flatten)]
    chosen: ChosenArgs,

    #[command(flatten)]
    range: RangeArgs,

    /// Also what other settings would have done to the connection with the most bytes of each trace,
    /// simulated for this long at most [9s]; needs transom-simulate
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "9s", value_parser = duration, conflicts_with_all = ["from", "to"])]
    whatif: Option<Duration>,

    /// Draw at most this many connections, those with most bytes first
    #[arg(long, value_name = "N", default_value_t = 50)]
    top: usize,

    /// Show the page in the browser
    #[arg(long)]
    open: bool,

    #[command(flatten)]
    naming: NamingArgs,
}

pub fn run(args: Args) -> Result<ExitCode> {
    let page = match args.output {
        Some(path) => path,
        None => default_page(&args.files)?,
    };
    let mut traces: Vec<Trace> =
        args.files.iter().map(|file| trace(file, &args.range)).collect::<Result<_>>()?;
    let names = args.naming.names()?;
    for analysis in traces.iter_mut().flat_map(|trace| &mut trace.analyses) {
        analysis.name_ends(&names);
    }
    if let Some(budget) = args.whatif {
        for (trace, file) in traces.iter_mut().zip(&args.files) {
            what_helps(trace, &args.chosen, budget).with_context(|| file.display().to_string())?;
        }
    }
    let output = Output {
        inputs: args.files.clone(),
        page,
        force: args.force,
        svg: args.svg,
        png: args.png,
        png_width: args.png_width,
        figures: FigureOptions { rtt: args.rtt },
    };
    let connections = args.chosen.selectors();
    let selection = Selection { connections, top: args.top, compare: args.compare };
    let names: Vec<_> = args.files.iter().map(|file| file.display().to_string()).collect();
    let written = write(&traces, &selection, &output).with_context(|| names.join(", "))?;
    // The page itself may go to the standard output.
    if is_file_or_new(&output.page) {
        say!("{}", output.page.display())?;
        if written.len() > 1 {
            let figures = written.len() - 1;
            say!("and {figures} figure{}", if figures == 1 { "" } else { "s" })?;
        }
    }
    if args.open {
        show(&output.page)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// One page of these events, and of what is known from before them.
///
/// # Errors
/// It cannot be written, or another file is there.
pub fn write_page(
    loaded: Loaded,
    before: HashMap<u64, Before>,
    page: &Path,
    names: &Names,
) -> Result<()> {
    let meta = page_meta(Path::new("traces of the agent"), &loaded);
    let output = Output {
        inputs: Vec::new(),
        page: page.to_owned(),
        force: false,
        svg: None,
        png: None,
        png_width: 1440,
        figures: FigureOptions { rtt: false },
    };
    let selection = Selection { connections: Vec::new(), top: 50, compare: false };
    let mut trace = Trace { before, ..Trace::new(loaded.recording, meta) };
    trace.analyses.iter_mut().for_each(|analysis| analysis.name_ends(names));
    write(&[trace], &selection, &output)?;
    if is_file_or_new(page) {
        say!("{}", page.display())?;
    }
    Ok(())
}

fn trace(file: &Path, range: &RangeArgs) -> Result<Trace> {
    let loaded = load(file)?;
    let meta = page_meta(file, &loaded);
    let recording =
        range.cut(loaded.recording, &loaded.meta).with_context(|| file.display().to_string())?;
    Ok(Trace::new(recording, meta))
}

/// Adds to the verdict of one of the chosen connections what other settings would have done.
fn what_helps(trace: &mut Trace, chosen: &ChosenArgs, budget: Duration) -> Result<()> {
    let chosen = select(&trace.analyses, &chosen.selectors())?;
    let cookies: Vec<u64> = chosen.iter().map(|it| it.cookie).collect();
    let analyses = trace.analyses.iter_mut().filter(|it| cookies.contains(&it.cookie));
    add_lever(&trace.recording, &mut analyses.collect::<Vec<_>>(), budget)?;
    Ok(())
}

/// What the page says of the recording as a whole.
fn page_meta(file: &Path, loaded: &Loaded) -> PageMeta {
    let (meta, recording) = (&loaded.meta, &loaded.recording);
    PageMeta {
        boot_id: meta.boot_id.clone(),
        realtime_offset_ns: meta.realtime_offset_ns,
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
