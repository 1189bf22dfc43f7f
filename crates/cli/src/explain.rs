//! `transom explain`: what held each connection of a trace file back.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, ensure};
use transom_analysis::{Analysis, analyse, select, text};

use crate::ask;
use crate::chosen::ChosenArgs;
use crate::columns::columns;
use crate::filters::duration;
use crate::load::{Loaded, load};
use crate::naming::NamingArgs;
use crate::range::RangeArgs;
use crate::whatif::add_lever;

/// Reads a trace file and says, for each connection, what limited it and for
/// how long, what happened to it, and what to do about it.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  transom explain upload.parquet
  transom explain upload.parquet --connection iperf3
  transom explain upload.parquet --connection :https --names
  transom explain upload.parquet --connection :5201 --whatif
  transom explain upload.parquet --connection :5201 --from 3s --to 12s
  transom explain upload.parquet --json --connection 10.0.0.1-10.0.0.2:5201")]
pub struct Args {
    /// Trace file, as `transom record` writes it; or a table of connections of `transom agent`
    file: PathBuf,
    /// One JSON array of everything found, for programs
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    chosen: ChosenArgs,
    #[command(flatten)]
    range: RangeArgs,
    /// Also what other settings would have done to the connection with the most bytes, simulated
    /// for this long at most [9s]; needs transom-simulate
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "9s", value_parser = duration, conflicts_with_all = ["from", "to"])]
    whatif: Option<Duration>,
    /// Also connections of a few bytes, which otherwise share one line
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    naming: NamingArgs,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if ask::is_table_of_connections(&args.file) {
        ensure!(
            !args.chosen.is_given() && !args.range.is_given() && args.whatif.is_none(),
            "{} has a row per connection, not its events: `transom ask` chooses among them",
            args.file.display()
        );
        return ask::explain(&args.file, args.json, &args.naming.names()?);
    }
    let Loaded { recording, meta, .. } = load(&args.file)?;
    let recording =
        args.range.cut(recording, &meta).with_context(|| args.file.display().to_string())?;
    let analyses = analyse(&recording);
    let chosen = select(&analyses, &args.chosen.selectors())
        .with_context(|| args.file.display().to_string())?;
    let mut chosen: Vec<Analysis> = chosen.into_iter().cloned().collect();
    let mut among: Vec<&mut Analysis> = chosen.iter_mut().collect();
    let lever = args.whatif.map(|budget| add_lever(&recording, &mut among, budget)).transpose()?;
    let mut out = transom_output::standard_output();
    if args.json {
        let mut all = serde_json::to_value(&chosen)?;
        if let Some(lever) = lever {
            let of = all.as_array_mut().into_iter().flatten();
            for one in of.filter(|one| one["cookie"] == lever["cookie"]) {
                one["whatif"] = lever.clone();
            }
        }
        serde_json::to_writer(&mut out, &all).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        let names = args.naming.names()?;
        chosen.iter_mut().for_each(|analysis| analysis.name_ends(&names));
        let all = args.all || args.chosen.is_given();
        let columns = columns(&out).unwrap_or(text::ANY_WIDTH);
        out.write_all(text::explain(&chosen, all, columns).as_bytes())?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
