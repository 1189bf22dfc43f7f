//! `transom-fleet follow`: copies the fleet's signed policies into a folder of this host, for
//! `transom tune follow`, which has no network client and believes signatures only.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use transom_output::{Output, Replace, note};
use transom_rollout::{CURRENT, Current, Unverified, generation_name};

use crate::bucket::{Bucket, Retries, runtime};
use crate::policy::metrics::OfCopies;
use crate::policy::store::{self, Found, Look};
use crate::ship::pace::random;

/// Copy the fleet's signed policies into a folder, for `transom tune follow`
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Where the fleet's policies are, below `policy/`
    #[arg(long, value_name = "s3://BUCKET/PREFIX|file:///DIR")]
    from: String,
    /// Folder for the copies, which is made if it is not there
    #[arg(long, value_name = "FOLDER")]
    to: PathBuf,
    /// How often to look; each time is a quarter shorter or longer, so that hosts do not ask at once
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = interval)]
    every: Duration,
    /// Keep metrics in this file, for the text collector of Prometheus' node exporter
    #[arg(long, value_name = "FILE.prom", overrides_with = "metrics")]
    metrics: Option<PathBuf>,
    /// Copy what is there, and end
    #[arg(long)]
    once: bool,
}

const EXAMPLES: &str = "\
Keys, region and endpoint come from where AWS's own programs take them, as for `ship`; to read below
policy/ is all that they need to allow. Nothing is believed here: `transom tune follow` checks the
signatures.

Examples:
  transom-fleet follow --from s3://tables/fleet --to /var/lib/transom-policy
  transom-fleet follow --from file:///srv/tables --to policy --once";

fn interval(text: &str) -> Result<Duration> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[number.len()..] {
        "" | "s" => 1,
        "m" | "min" => 60,
        "h" => 3600,
        _ => bail!("'{text}' has no unit that is known: write 30s, 5min or 1h"),
    };
    let seconds = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    let seconds = seconds.filter(|seconds| (1..=86_400).contains(seconds));
    seconds.map(Duration::from_secs).with_context(|| format!("'{text}': give 1s to 24h"))
}

/// # Errors
/// The places cannot be opened; with `--once`, it could not be copied.
pub fn run(args: &Args) -> Result<ExitCode> {
    let bucket = Bucket::open(&args.from, Retries::None)?;
    let shown = args.to.display();
    std::fs::create_dir_all(&args.to).with_context(|| format!("making the folder {shown}"))?;
    let metrics = args.metrics.clone().map(OfCopies::at).transpose()?;
    let (folder, tags) = (args.to.clone(), HashMap::new());
    let mut copier = Copier { bucket, folder, tags, shown: None, metrics };
    let runtime = runtime()?;
    if args.once {
        let copied = runtime.block_on(copier.look())?;
        copier.show(copied.as_ref());
        return Ok(ExitCode::SUCCESS);
    }
    note!("copying the policies of {} to {shown}", copier.bucket.address);
    runtime.block_on(copier.forever(args.every))
}

struct Copier {
    bucket: Bucket,
    folder: PathBuf,
    /// Which version of each file was copied.
    tags: HashMap<String, String>,
    /// The generation that was told of last.
    shown: Option<u64>,
    metrics: Option<OfCopies>,
}

impl Copier {
    async fn forever(&mut self, every: Duration) -> Result<ExitCode> {
        let mut trouble = String::new();
        loop {
            match self.look().await {
                Ok(copied) => {
                    if !trouble.is_empty() {
                        note!("{} answers again", self.bucket.address);
                        trouble.clear();
                    }
                    self.show(copied.as_ref());
                }
                Err(error) => {
                    let line = format!("{error:#}");
                    if line != trouble {
                        note!("{line}; {} stays as it is", self.folder.display());
                        trouble = line;
                    }
                }
            }
            tokio::time::sleep(every.mul_f64(0.75 + random() / 2.0)).await;
        }
    }

    /// What `current` says, if it is another one than before. It comes last: it names no generation
    /// that is not there.
    async fn look(&mut self) -> Result<Option<Unverified>> {
        if !self.tags.keys().all(|name| self.folder.join(name).is_file()) {
            // Somebody has removed a copy: all are asked for anew.
            self.tags.clear();
        }
        let current = match self.newer(CURRENT).await? {
            Look::Found(current) => current,
            Look::Known => return Ok(None),
            Look::Absent => bail!(self.is_absent(CURRENT)),
        };
        let named = Current::unverified(&current.bytes)
            .with_context(|| format!("{}/policy/{CURRENT}", self.bucket.address))?;
        let numbers = [named.generation, named.before];
        let names: Vec<String> =
            numbers.into_iter().filter(|number| *number != 0).map(generation_name).collect();
        for name in &names {
            match self.newer(name).await? {
                Look::Found(found) => self.put(name.clone(), &found)?,
                // Nobody changes a generation: a copy is as good as what was removed there.
                Look::Absent if !self.folder.join(name).is_file() => bail!(self.is_absent(name)),
                Look::Known | Look::Absent => {}
            }
        }
        self.put(CURRENT.to_owned(), &current)?;
        self.tags.retain(|name, _| name == CURRENT || names.contains(name));
        if self.shown.replace(named.generation) != Some(named.generation) {
            note!("generation {} is in {}", named.generation, self.folder.display());
        }
        Ok(Some(named))
    }

    /// Policies are worth more than what is told of them: it goes on, and says so once.
    fn show(&mut self, copied: Option<&Unverified>) {
        let Some(metrics) = &self.metrics else { return };
        if let Err(error) = metrics.show(copied) {
            note!("{error:#}; policies are copied all the same");
            self.metrics = None;
        }
    }

    /// A file, or that it is the one that was copied.
    async fn newer(&self, name: &str) -> Result<Look> {
        store::look(&self.bucket, name, self.tags.get(name).map(String::as_str)).await
    }

    fn is_absent(&self, name: &str) -> String {
        format!("{}/policy/{name} is not there", self.bucket.address)
    }

    fn put(&mut self, name: String, found: &Found) -> Result<()> {
        put(&self.folder.join(&name), &found.bytes)?;
        if let Some(tag) = found.tag() {
            self.tags.insert(name, tag.to_owned());
        }
        Ok(())
    }
}

fn put(path: &Path, bytes: &[u8]) -> Result<()> {
    let is_there = std::fs::read(path).is_ok_and(|there| there == bytes);
    if is_there { Ok(()) } else { Output::write_all_to(path, &[], Replace::Always, bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units_and_bounds() {
        assert_eq!(interval("30s").unwrap(), Duration::from_secs(30));
        assert_eq!(interval("5min").unwrap(), Duration::from_secs(300));
        assert_eq!(interval("7").unwrap(), Duration::from_secs(7));
        for text in ["0s", "2d", "s", "-1s", "25h", "1.5s"] {
            assert!(interval(text).is_err(), "{text}");
        }
    }
}
