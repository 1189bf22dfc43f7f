//! `--whatif` of other commands: what other settings would have done to a connection they show.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use transom_analysis::{Analysis, Recording};
use transom_predict::{Effort, Watch as _, fit, text, usual, whatif};

use super::chosen::whole;
use super::engine::Engine;

/// Adds it to the verdict of the connection that carried most of these, and returns it with its
/// numbers, for programs.
///
/// # Errors
/// If the simulator is missing, or the user interrupts. A connection that nothing can be said of is
/// no error: its verdict says why.
pub fn add_lever(
    recording: &Recording,
    among: &mut [&mut Analysis],
    budget: Duration,
) -> Result<Value> {
    let engine = Engine::find()?;
    let Some(analysis) = among.iter_mut().max_by_key(|it| it.bytes()) else {
        return Ok(Value::Null);
    };
    let connection = recording.connection(analysis.cookie).context("the recording has it")?;
    let models = match fit(connection, analysis, recording) {
        Ok(models) => models,
        Err(unfit) => {
            analysis.verdict.lever = Some(text::unpredicted(&unfit.0));
            return Ok(json!({ "cookie": analysis.cookie, "unfit": unfit.0 }));
        }
    };
    let (measured, changes) = (whole(connection, analysis), usual(&models[0]));
    let effort = Effort { budget, ..Effort::default() };
    match whatif(&models, &measured, &changes, &engine, &engine, effort) {
        Ok(result) => {
            analysis.verdict.lever = Some(text::lever(&result.model, &result));
            Ok(json!({ "cookie": analysis.cookie, "result": result }))
        }
        Err(interrupted) if engine.stops() => Err(interrupted),
        Err(failed) => {
            let why = format!("{failed:#}.");
            analysis.verdict.lever = Some(text::unpredicted(&why));
            Ok(json!({ "cookie": analysis.cookie, "failed": why }))
        }
    }
}
