//! Connections that were there before the probes: the kernel walks over them
//! and reports each as an `open` and a `state` event.

use std::path::Path;

use anyhow::{Context, Result};
use libbpf_rs::Object;
use transom_machine::objects::program;
use transom_machine::{iterator, namespace};

use crate::filter::Filter;
use crate::survey::Survey;
use transom_output::note;

/// Asks for the connections of every network namespace, or the filter's. Whenever so many were told,
/// `drain` takes what was.
pub(crate) fn report(
    object: &Object,
    survey: &Survey,
    filter: &Filter,
    step: u32,
    drain: &mut dyn FnMut() -> Result<()>,
) -> Result<()> {
    if survey.chosen("existing").is_none() {
        return Ok(());
    }
    let mut run = |name: &str, inside: Option<&Path>| walk(object, name, inside, step, drain);
    run("existing_owners", None).context("looking for owners of sockets")?;
    let only = filter.netns.as_deref().map(namespace::path).transpose()?;
    let only = only.map(|path| namespace::inode(&path)).transpose()?.map(u64::from);
    let here = namespace::own().ok().map(u64::from);
    for (inode, path) in namespace::all() {
        if only.is_some_and(|wanted| wanted != inode) {
            continue;
        }
        if Some(inode) == here {
            run("existing_connections", None).context("looking for connections")?;
        } else if let Err(error) = run("existing_connections", Some(&path)) {
            // A namespace may go while we look; one that stays is worth a word.
            if path.exists() {
                note!("transom: connections in {} are not listed: {error:#}", path.display());
            }
        }
    }
    Ok(())
}

/// What it finds becomes events; it writes a byte for each connection.
fn walk(
    object: &Object,
    name: &str,
    inside: Option<&Path>,
    step: u32,
    drain: &mut dyn FnMut() -> Result<()>,
) -> Result<()> {
    let link = program(object, name)?.attach()?;
    iterator::run_in_steps(&link, inside, step as usize, |_| drain())
}
