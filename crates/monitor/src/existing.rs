//! Connections that were there before the probes: the kernel walks over them
//! and reports each as an `open` and a `state` event.

use std::fs::{self, File};
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, FromRawFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, Result};
use libbpf_rs::{Iter, Object, ProgramMut, libbpf_sys};

use crate::filter::{Filter, netns_inode, netns_path};
use crate::namespace;
use crate::survey::Survey;

/// Asks for the connections of every network namespace, or the filter's.
pub(crate) fn report(object: &Object, survey: &Survey, filter: &Filter) -> Result<()> {
    if survey.chosen("existing").is_none() {
        return Ok(());
    }
    run(object, "existing_owners").context("looking for owners of sockets")?;
    let only = filter.netns.as_deref().map(netns_path).transpose()?;
    let only = only.map(|path| netns_inode(&path)).transpose()?.map(u64::from);
    let here = fs::metadata("/proc/self/ns/net").map(|metadata| metadata.ino()).ok();
    for (inode, path) in namespace::all() {
        if only.is_some_and(|wanted| wanted != inode) {
            continue;
        }
        if Some(inode) == here {
            run(object, "existing_connections").context("looking for connections")?;
        } else if let Err(error) = run_inside(&path, object) {
            // A namespace may go while we look; one that stays is worth a word.
            if path.exists() {
                eprintln!("transom: connections in {} are not listed: {error:#}", path.display());
            }
        }
    }
    Ok(())
}

fn program<'a>(object: &'a Object, name: &str) -> Result<ProgramMut<'a>> {
    let mut programs = object.progs_mut();
    programs.find(|program| program.name() == name).with_context(|| format!("no program {name}"))
}

fn run(object: &Object, name: &str) -> Result<()> {
    let link = program(object, name)?.attach()?;
    drain(&mut Iter::new(&link)?)
}

/// The iterator looks at the namespace of the thread that opens it.
fn run_inside(path: &Path, object: &Object) -> Result<()> {
    let link = program(object, "existing_connections")?.attach()?;
    let fd = link.as_fd().as_raw_fd();
    namespace::inside(path, move || -> Result<()> {
        // SAFETY: the caller keeps `link` until this thread is joined.
        let iterator = unsafe { libbpf_sys::bpf_iter_create(fd) };
        if iterator < 0 {
            return Err(std::io::Error::last_os_error().into());
        }
        // SAFETY: the kernel has just given us this descriptor.
        drain(&mut unsafe { File::from_raw_fd(iterator) })
    })?
}

fn drain(from: &mut impl Read) -> Result<()> {
    let mut nothing = [0; 64];
    while from.read(&mut nothing)? > 0 {}
    Ok(())
}
