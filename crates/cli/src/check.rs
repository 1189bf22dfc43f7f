use std::collections::HashSet;
use std::io;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use serde_json::json;
use transom_control::backend::{self, Backend};
use transom_monitor::{Choice, ProcessOne, Survey};
use transom_output::say;

/// How long process 1 has to run by itself, which it does not often.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(clap::Args)]
pub struct Args {
    /// Print JSON for programs
    #[arg(long)]
    json: bool,
}

/// Exit code 0 when the monitor can run, 1 when only polling is left.
pub fn run(args: Args) -> Result<ExitCode> {
    let mut survey = Survey::take();
    if survey.can_monitor {
        survey.fit();
        survey.facts.push(ProcessOne::test(PATIENCE)?.fact());
    }
    let (lever, lacks) = backend::survey();
    if args.json {
        let mut all = as_json(&survey);
        all["tune"] = json!({ "backend": lever.name(), "refused": lacks });
        say!("{all:#}")?;
    } else {
        print(&survey)?;
        print_lever(lever, &lacks)?;
    }
    Ok(if survey.can_monitor { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn as_json(survey: &Survey) -> serde_json::Value {
    let facts = survey.facts.iter().map(|fact| {
        json!({ "name": fact.name, "ok": fact.ok, "found": fact.found, "remedy": fact.remedy })
    });
    let probes = survey.choices.iter().map(|choice| {
        json!({
            "purpose": choice.purpose.name,
            "yields": choice.purpose.yields,
            "tier": choice.chosen.map(|candidate| candidate.tier.name()),
            "programs": choice.chosen.map(|candidate| candidate.programs),
            "limit": choice.chosen.map(|candidate| candidate.limit),
            "refused": choice.refused.iter().map(|(candidate, why)| {
                json!({ "tier": candidate.tier.name(), "why": why })
            }).collect::<Vec<_>>(),
        })
    });
    json!({
        "kernel": survey.kernel,
        "can_monitor": survey.can_monitor,
        "facts": facts.collect::<Vec<_>>(),
        "probes": probes.collect::<Vec<_>>(),
    })
}

fn print(survey: &Survey) -> io::Result<()> {
    say!("kernel {}\n", survey.kernel)?;
    for fact in &survey.facts {
        let mark = if fact.ok { "ok" } else { "--" };
        say!("{mark}  {:<14} {}", fact.name, fact.found)?;
        if !fact.remedy.is_empty() {
            say!("    {:<14} {}", "", fact.remedy)?;
        }
    }
    say!("\n    {:<17} {:<11} yields", "probe", "tier")?;
    for choice in &survey.choices {
        print_choice(choice)?;
    }
    if !survey.can_monitor {
        say!("\nThe monitor cannot run here. What is left is polling TCP_INFO through sock_diag:")?;
        say!(
            "`transom record`, `flight record`, `log`, `top` and `agent` do that by themselves and say so."
        )?;
    }
    Ok(())
}

fn print_lever(lever: Backend, lacks: &[String]) -> io::Result<()> {
    let mark = if lever == Backend::None { "--" } else { "ok" };
    say!("\n    {:<17} {:<11} yields", "lever", "back end")?;
    say!("{mark}  {:<17} {:<11} {}", "tune", lever.name(), lever.yields())?;
    for why in lacks {
        say!("    {:<29} not by {why}", "")?;
    }
    Ok(())
}

fn print_choice(choice: &Choice) -> io::Result<()> {
    let (mark, tier) = match choice.chosen {
        Some(candidate) => ("ok", candidate.tier.name()),
        None => ("--", "none"),
    };
    say!("{mark}  {:<17} {tier:<11} {}", choice.purpose.name, choice.purpose.yields)?;
    if let Some(limit) = choice.chosen.map(|c| c.limit).filter(|limit| !limit.is_empty()) {
        say!("    {:<29} limit: {limit}", "")?;
    }
    let mut said = HashSet::new();
    // Another program of the same tier shows the same.
    let is_other = |tier| choice.chosen.is_none_or(|chosen| chosen.tier != tier);
    for (candidate, why) in choice.refused.iter().filter(|(of, _)| is_other(of.tier)) {
        if said.insert((candidate.tier.name(), why)) {
            say!("    {:<29} not by {}: {why}", "", candidate.tier)?;
        }
    }
    Ok(())
}
