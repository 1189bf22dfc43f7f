//! Connections that were there before the probes: the kernel walks over them
//! and reports each as an `open` and a `state` event.

use std::path::Path;

use anyhow::{Context, Result};
use libbpf_rs::{Link, Object};
use transom_machine::objects::program;
use transom_machine::{iterator, namespace};

use crate::filter::Filter;
use crate::survey::Survey;
use transom_output::note;

/// Those of every network namespace, or the filter's, that are still to be told.
pub(crate) struct Existing {
    owners: Link,
    connections: Link,
    /// The inode of the namespace.
    only: Option<u64>,
}

impl Existing {
    /// `None` where this kernel cannot walk over them.
    pub fn of(object: &Object, survey: &Survey, filter: &Filter) -> Result<Option<Existing>> {
        if survey.chosen("existing").is_none() {
            return Ok(None);
        }
        let owners = program(object, "existing_owners")?.attach();
        let connections = program(object, "existing_connections")?.attach();
        let only = filter.netns.as_deref().map(namespace::path).transpose()?;
        let only = only.map(|path| namespace::inode(&path)).transpose()?;
        Ok(Some(Existing {
            owners: owners.context("looking for owners of sockets")?,
            connections: connections.context("looking for connections")?,
            only: only.map(u64::from),
        }))
    }

    /// What is found becomes events. Whenever so many connections were told, `drain` takes what was.
    pub fn tell(self, step: usize, drain: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        // They write a byte for each connection.
        let mut run = |link: &Link, inside: Option<&Path>| {
            iterator::run_in_steps(link, inside, step, |_| drain())
        };
        run(&self.owners, None).context("looking for owners of sockets")?;
        let here = namespace::own().ok().map(u64::from);
        for (inode, path) in namespace::all() {
            if self.only.is_some_and(|wanted| wanted != inode) {
                continue;
            }
            if Some(inode) == here {
                run(&self.connections, None).context("looking for connections")?;
            } else if let Err(error) = run(&self.connections, Some(&path)) {
                // A namespace may go while we look; one that stays is worth a word.
                if path.exists() {
                    note!("transom: connections in {} are not listed: {error:#}", path.display());
                }
            }
        }
        Ok(())
    }
}
