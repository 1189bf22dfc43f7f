//! `transom-fleet explain`: why a customer was slow: them, their network, or us.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use transom_output::{plain, say};
use transom_spool::Time;

use crate::ask::{self, Tables, text, time};
use crate::questions::{self, Question};

mod drill;
pub mod judge;
mod other_end;

use drill::Hosts;
use judge::{Answer, Count, Finding, Row, Shares, Side};

/// Say what held a customer's connections back: them, their network, or us
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// An address of the customer, or its prefix: a /24, or a /48 of IPv6
    #[arg(long, value_name = "ADDRESS")]
    customer: String,
    /// Where the tables are
    #[arg(long, value_name = "s3://BUCKET/PREFIX|file:///DIR")]
    from: String,
    /// The ten minutes before and after a time in UTC (14:03, 2026-11-23T14:03), or how long ago (90m)
    #[arg(long, value_name = "TIME", conflicts_with_all = ["since", "until"])]
    at: Option<String>,
    /// From this time on
    #[arg(long, value_name = "TIME", default_value = "1h")]
    since: String,
    /// Up to this time [default: now]
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Show what the kernel decided about the slowest connections, and ask their hosts through this
    /// Zenoh router for what was not shipped (docs/drill.md)
    #[arg(long, value_name = "ENDPOINT")]
    drill: Option<String>,
    /// Zenoh's configuration for it: TLS
    #[arg(long, value_name = "FILE", requires = "drill")]
    drill_config: Option<PathBuf>,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
DuckDB's program reads the tables: `duckdb` in PATH, or the one that TRANSOM_DUCKDB names.

Examples:
  transom-fleet explain --customer 198.51.100.7 --at 14:03 --from s3://tables/fleet
  transom-fleet explain --customer 198.51.100.7 --at 2026-11-23T14:03 --from s3://tables/fleet \\
      --drill tls/router.example:7447 --drill-config drill.json5
  transom-fleet explain --customer 2001:db8:7::/48 --since 6h --from file:///srv/tables";

const AROUND_US: i64 = 10 * 60 * 1_000_000;
const SLOWEST: &str = "5";

/// # Errors
/// The customer is no address, the tables cannot be read, or DuckDB is lacking.
pub fn run(args: &Args) -> Result<ExitCode> {
    let customer = questions::customer(&args.customer).context("--customer")?;
    let tables = Tables::of(&args.from, range(args)?)?;
    let ask = |name: &str, more: &[(&str, &str)]| -> Result<(Question, ask::Answer)> {
        let question = questions::named(name)?;
        let given = [("customer", customer.as_str())].into_iter().chain(more.iter().copied());
        let given: BTreeMap<String, String> =
            given.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let answer = tables.answer(&question, &given)?;
        Ok((question, answer))
    };
    let (_, beside) = ask("beside_others", &[])?;
    let rows = beside.rows.iter().map(|row| row_of(row)).collect::<Result<Vec<Row>>>()?;
    let answer = judge::judge(&rows);
    let shares = judge::shares(&rows);
    let (question, slowest) = ask("slow_connections", &[("rows", SLOWEST)])?;
    let (of_ends, mut ends) = ask("other_end", &[])?;
    other_end::keep(&mut ends, &slowest);
    let time = time::words(tables.begin, tables.end);
    let config = args.drill_config.as_deref();
    let hosts = args.drill.as_deref().map(|router| Hosts { router, config });
    let details = hosts.map(|hosts| drill::details(&tables, &slowest, &hosts)).transpose()?;
    let details = details.unwrap_or_default();
    if args.json {
        let mut slowest = text::objects(&slowest);
        other_end::told(&ends, &mut slowest);
        drill::told(&details, &mut slowest);
        let told = told(&customer, &tables, &answer, &shares, slowest);
        say!("{}", serde_json::to_string_pretty(&told)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let hosts = rows.iter().filter(|row| row.is_customer).map(|row| &row.host);
    let hosts = hosts.collect::<std::collections::BTreeSet<_>>().len();
    let all = shares[&Side::Us].customer.all;
    let [connections, at] = [(all, "connection"), (hosts as f64, "host")].map(counted);
    say!("{customer}, {time}: {connections} at {at}\n")?;
    say!("{}\n", sentence(&answer, &shares))?;
    print_shares(&shares)?;
    if !slowest.rows.is_empty() {
        say!("\nThe slowest:")?;
        // These are for other questions.
        text::table(&slowest.without(&["boot", "level", "chosen", "kind"]), &question)?;
    }
    other_end::print(&ends, &of_ends)?;
    drill::print(&details)?;
    Ok(ExitCode::SUCCESS)
}

fn counted((count, what): (f64, &str)) -> String {
    format!("{count} {what}{}", if count == 1.0 { "" } else { "s" })
}

fn range(args: &Args) -> Result<(Time, Time)> {
    let now = time::now();
    let Some(at) = &args.at else { return time::range(&args.since, args.until.as_deref(), now) };
    let at = time::moment(at, now).context("--at")?;
    Ok((Time(at.0 - AROUND_US), Time((at.0 + AROUND_US).min(now.0))))
}

fn row_of(row: &[Value]) -> Result<Row> {
    let [host, is_customer, verdict, ended, held_back_us] = row else {
        bail!("an answer of {} columns", row.len());
    };
    let number = |value: &Value| value.as_f64().context("a count that is no number");
    Ok(Row {
        host: host.as_str().unwrap_or_default().to_owned(),
        is_customer: number(is_customer)? == 1.0,
        verdict: verdict.as_str().unwrap_or_default().to_owned(),
        ended: number(ended)?,
        held_back_us: number(held_back_us).unwrap_or(0.0),
    })
}

fn sentence(answer: &Answer, shares: &BTreeMap<Side, Shares>) -> String {
    let found = match answer {
        Answer::CannotTell(why) => return format!("Cannot tell: {why}."),
        Answer::Nobody => {
            return "Nobody stands out: its connections were held back as those of others are."
                .into();
        }
        Answer::Found(found) => found,
    };
    let told = found.iter().map(|finding| {
        let (who, side) = match finding {
            Finding::Customer(side) => (name(*side).to_owned(), side),
            Finding::Hosts(side, hosts, _) => (format!("us: {}", few(hosts)), side),
        };
        let Shares { customer, others, .. } = &shares[side];
        let what = match side {
            Side::Them => "waited for the peer's window",
            Side::Network => "met losses, timeouts, queues or slow handshakes",
            Side::Us => "waited for a full send buffer here",
        };
        let of = |count: &Count| count.share().map_or("-".into(), percent);
        match finding {
            Finding::Customer(_) => {
                let (own, others) = (of(customer), of(others));
                format!("{who}. {own} of its connections {what}, {others} of the others' at the same hosts.")
            }
            Finding::Hosts(_, _, there) => {
                format!("{who}. {} of its connections there {what}, and so did everybody's.", of(there))
            }
        }
    });
    let mut told = told.collect::<Vec<_>>().join("\nAlso ");
    told[..1].make_ascii_uppercase();
    told
}

fn name(side: Side) -> &'static str {
    match side {
        Side::Them => "them",
        Side::Network => "their network",
        Side::Us => "us",
    }
}

/// Some of many.
fn few(hosts: &[String]) -> String {
    let shown = hosts.iter().take(5).map(|host| plain(host)).collect::<Vec<_>>().join(", ");
    let more = hosts.len().saturating_sub(5);
    if more > 0 { format!("{shown} and {more} more") } else { shown }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn print_shares(shares: &BTreeMap<Side, Shares>) -> Result<()> {
    let line = |name: &str, cells: [String; 3]| {
        let [customer, others, elsewhere] = cells;
        say!("{name:<16}{customer:>12}{others:>16}{elsewhere:>18}")
    };
    line("held back by", ["customer".into(), "others there".into(), "others elsewhere".into()])?;
    for (side, Shares { customer, others, elsewhere }) in shares {
        let share = |count: &Count| count.share().map_or("-".into(), percent);
        line(name(*side), [customer, others, elsewhere].map(share))?;
    }
    let Shares { customer, others, elsewhere } = &shares[&Side::Us];
    line("connections", [customer, others, elsewhere].map(|count| count.all.to_string()))?;
    Ok(())
}

fn told(
    customer: &str,
    tables: &Tables<'_>,
    answer: &Answer,
    shares: &BTreeMap<Side, Shares>,
    slowest: Value,
) -> Value {
    let word = |side: Side| match side {
        Side::Them => "them",
        Side::Network => "network",
        Side::Us => "us",
    };
    let count = |count: &Count| json!({ "connections": count.all, "held_back": count.held });
    let (verdict, why, findings) = match answer {
        Answer::CannotTell(why) => ("cannot_tell", Some(why), vec![]),
        Answer::Nobody => ("nobody", None, vec![]),
        Answer::Found(found) => {
            let of = |finding: &Finding| match finding {
                Finding::Customer(side) => {
                    json!({ "who": word(*side), "held_back_by": word(*side) })
                }
                Finding::Hosts(side, hosts, there) => json!({
                    "who": "us",
                    "held_back_by": word(*side),
                    "hosts": hosts,
                    "there": count(there),
                }),
            };
            (word(found[0].side()), None, found.iter().map(of).collect())
        }
    };
    let group = |(side, shares): (&Side, &Shares)| {
        let groups = json!({
            "customer": count(&shares.customer),
            "others_there": count(&shares.others),
            "others_elsewhere": count(&shares.elsewhere),
        });
        (word(*side).to_owned(), groups)
    };
    json!({
        "customer": customer,
        "since_us": tables.begin.0,
        "until_us": tables.end.0,
        "verdict": verdict,
        "why_not": why,
        "findings": findings,
        "shares": shares.iter().map(group).collect::<serde_json::Map<_, _>>(),
        "slowest": slowest,
    })
}
