//! Builds every situation, records it, and compares the verdicts with what was built.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::Parser;
use transom_situations::batch;
use transom_situations::catalogue::{self, Part, Situation};
use transom_situations::score::{Said, Score, ask, matrix, shuffled};

/// Builds connections whose cause is known, over real kernels, and says how often the verdict
/// names it.
///
/// Examples:
///   situations                      all of them, traces in target/situations
///   situations --only policer       those whose name begins so
///   situations --score              of the traces that are there, run nothing
#[derive(Parser)]
#[command(verbatim_doc_comment)]
struct Args {
    /// Only those whose name begins with this
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Only those with this cause
    #[arg(long, value_name = "CAUSE")]
    cause: Vec<String>,
    /// Folder for the traces
    #[arg(short, long, default_value = "target/situations", value_name = "DIR")]
    output: PathBuf,
    /// The program under test [default: transom beside this program]
    #[arg(long, value_name = "PROGRAM")]
    transom: Option<PathBuf>,
    /// How many run at a time
    #[arg(long, default_value_t = 4, value_name = "N")]
    jobs: usize,
    /// Judge the traces that are there; run nothing
    #[arg(long)]
    score: bool,
    /// Only this part, e.g. while the rules are tuned
    #[arg(long, value_enum, default_value_t = Parts::All)]
    part: Parts,
    /// Situations drawn with this seed in the place of those of the files
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// How many are drawn
    #[arg(long, default_value_t = 48, value_name = "N", requires = "seed")]
    count: usize,
    /// Print what is drawn as TOML; run nothing
    #[arg(long, requires = "seed")]
    list: bool,
    /// With the labels of other situations: the control, whose score must fall to chance
    #[arg(long)]
    shuffle: bool,
    /// Also what was said of those that are right
    #[arg(short, long)]
    verbose: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Parts {
    Tuned,
    Aside,
    Drawn,
    Unseen,
    All,
}

fn main() -> Result<ExitCode> {
    let args = Args::parse();
    let transom = match &args.transom {
        Some(path) => path.clone(),
        None => std::env::current_exe()?.with_file_name("transom"),
    };
    ensure!(transom.exists(), "{} is not there: build it, or --transom", transom.display());
    let wanted = |s: &Situation| {
        let named = args.only.iter().any(|name| s.name.starts_with(name.as_str()));
        let of_part = match args.part {
            Parts::All => true,
            Parts::Tuned => s.part() == Part::Tuned,
            Parts::Aside => s.part() == Part::Aside,
            Parts::Drawn => s.part() == Part::Drawn,
            Parts::Unseen => s.part() == Part::Unseen,
        };
        let caused = args.cause.is_empty() || args.cause.contains(&s.causes[0]);
        of_part && caused && (named || args.only.is_empty())
    };
    if let Some(seed) = args.seed.filter(|_| args.list) {
        print!("{}", catalogue::written(seed, args.count));
        return Ok(ExitCode::SUCCESS);
    }
    let known = match args.seed {
        Some(seed) => catalogue::drawn(seed, args.count)?,
        None => catalogue::all()?,
    };
    let situations: Vec<Situation> = known.into_iter().filter(wanted).collect();
    ensure!(!situations.is_empty(), "no situation has such a name, or none in this part");
    if !args.score {
        std::fs::create_dir_all(&args.output)?;
        let all = situations.iter().map(|one| (one, trace(&args, one))).collect();
        batch::build(all, &transom, args.jobs)?;
    }
    let (there, missing): (Vec<_>, Vec<_>) =
        situations.iter().partition(|s| trace(&args, s).exists());
    for one in missing {
        println!(
            "{:9} {:36} has no trace: never recorded, or the machine was too busy",
            "left out", one.name
        );
    }
    let asked = there.into_iter().map(|s| ask(s, &transom, &trace(&args, s)));
    let said: Vec<Said> = asked.collect::<Result<_>>()?;
    let said = if args.shuffle { shuffled(&said) } else { said };
    tell(&said, args.verbose);
    Ok(ExitCode::SUCCESS)
}

fn trace(args: &Args, situation: &Situation) -> PathBuf {
    args.output.join(format!("{}.parquet", situation.name))
}

fn tell(said: &[Said], verbose: bool) {
    for one in said {
        let mark = if one.is_right() {
            "right"
        } else if one.is_not_told() {
            "undetermined"
        } else {
            "WRONG"
        };
        if verbose || !one.is_right() {
            println!(
                "{mark:9} {:36} {} said {}\n          {}",
                one.name, one.wanted[0], one.cause, one.text
            );
        }
    }
    let titles = [
        (Part::Tuned, "tuned on"),
        (Part::Aside, "kept aside at first, tuned on since"),
        (Part::Drawn, "drawn, tuned on since"),
        (Part::Unseen, "drawn when the rules were done"),
    ];
    for (which, title) in titles {
        let part: Vec<&Said> = said.iter().filter(|one| one.part == which).collect();
        if !part.is_empty() {
            let score = Score::of(part.iter().copied());
            println!("\n{} situations {title}: {score}\n\n{}", part.len(), matrix(&part));
        }
    }
}
