//! What `build.rs` makes of the programs in `bpf/`: of each, the object, and the types it shares
//! with user space. And what every user of an object asks of it.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, ensure};
use libbpf_rs::{
    Link, Map, MapCore, MapFlags, MapMut, Object, ObjectBuilder, OpenObject, ProgramMut,
};
use miniz_oxide::inflate::decompress_to_vec_zlib;

macro_rules! objects {
    ($($name:ident)*) => {$(
        pub mod $name {
            #[allow(clippy::all, dead_code, unused, non_camel_case_types)]
            mod skeleton {
                include!(concat!(env!("OUT_DIR"), "/", stringify!($name), ".skel.rs"));
            }

            pub use skeleton::types;

            pub(super) static COMPRESSED: &[u8] =
                include_bytes!(concat!(env!("OUT_DIR"), "/", stringify!($name), ".bpf.o.z"));

            /// # Errors
            /// No memory.
            pub fn open() -> libbpf_rs::Result<libbpf_rs::OpenObject> {
                super::open(COMPRESSED)
            }
        }
    )*};
}

objects! { monitor journal feature processes steady policy divert sieve agent }

/// libbpf keeps no reference to the bytes that it opens.
fn open(compressed: &[u8]) -> libbpf_rs::Result<OpenObject> {
    let object = decompress_to_vec_zlib(compressed)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
    ObjectBuilder::default().open_memory(&object)
}

/// Keeps libbpf's own messages, the verifier's among them, off the terminal unless
/// `TRANSOM_DEBUG` is set.
pub fn quiet_libbpf() {
    if std::env::var_os("TRANSOM_DEBUG").is_none() {
        libbpf_rs::set_print(None);
    }
}

/// Writes the constants that an object's programs are loaded with.
///
/// # Errors
/// The object has none, or in another layout.
pub fn put_settings(open: &mut OpenObject, settings: &[u8]) -> Result<()> {
    let map = open.maps_mut().find(|map| map.name() == ".rodata.settings");
    let mut map = map.context("the BPF object has no settings")?;
    let bytes = map.initial_value_mut().context("the BPF object's settings are closed")?;
    ensure!(bytes.len() == settings.len(), "the BPF object's settings have another layout");
    bytes.copy_from_slice(settings);
    Ok(())
}

/// # Errors
/// The object has no program of this name.
pub fn program<'a>(object: &'a Object, name: &str) -> Result<ProgramMut<'a>> {
    let mut programs = object.progs_mut();
    programs.find(|program| program.name() == name).with_context(|| format!("no program {name}"))
}

/// Probes on their way out: on a busy machine the kernel may take more than a second for each, in
/// which nobody would read the ring.
#[derive(Default)]
pub struct Detaching(Option<JoinHandle<()>>);

impl Detaching {
    pub fn begin(links: impl IntoIterator<Item = Link>) -> Detaching {
        let keep = |link: Link| link.as_fd().try_clone_to_owned().ok();
        // The last descriptor of a link is the one whose closing waits.
        let last: Vec<OwnedFd> = links.into_iter().filter_map(keep).collect();
        // Without a thread they are closed here.
        Detaching(thread::Builder::new().name("detach".into()).spawn(move || drop(last)).ok())
    }

    pub fn is_over(&self) -> bool {
        self.0.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Until they are gone: before Linux 6.10 a program cannot be attached again earlier.
    pub fn wait(&mut self) {
        if let Some(thread) = self.0.take() {
            drop(thread.join());
        }
    }
}

/// # Errors
/// As [`program`].
pub fn program_fd<'a>(object: &'a Object, name: &str) -> Result<BorrowedFd<'a>> {
    let fd = program(object, name)?.as_fd().as_raw_fd();
    // SAFETY: the descriptor is the object's, and open as long as that.
    Ok(unsafe { BorrowedFd::borrow_raw(fd) })
}

/// # Errors
/// The object has no map of this name.
pub fn map<'a>(object: &'a Object, name: &str) -> Result<Map<'a>> {
    object.maps().find(|map| map.name() == name).with_context(|| format!("no map {name}"))
}

/// # Errors
/// As [`map`].
pub fn map_mut<'a>(object: &'a mut Object, name: &str) -> Result<MapMut<'a>> {
    object.maps_mut().find(|map| map.name() == name).with_context(|| format!("no map {name}"))
}

/// What the CPUs have counted together in one 64-bit slot of a per-CPU array.
///
/// # Errors
/// The kernel refuses, or there is no such slot.
pub fn per_cpu_sum(map: &impl MapCore, slot: u32) -> Result<u64> {
    let values = map.lookup_percpu(&slot.to_ne_bytes(), MapFlags::ANY)?;
    let values = values.with_context(|| format!("no slot {slot} in {:?}", map.name()))?;
    let each = values.iter().filter_map(|value| value[..8].try_into().ok());
    Ok(each.map(u64::from_ne_bytes).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The types of the running kernel, in which these fields have other names.
    fn types_without(fields: &[&str]) -> tempfile::NamedTempFile {
        let mut types = std::fs::read("/sys/kernel/btf/vmlinux").unwrap();
        for field in fields {
            let name = [b"\0", field.as_bytes(), b"\0"].concat();
            let at = types.windows(name.len()).position(|bytes| bytes == name);
            types[at.expect("the kernel has such a field") + 1] = b'-';
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), types).unwrap();
        file
    }

    #[test]
    fn a_kernel_without_ipv6_or_namespaces_or_cgroups_of_sockets_takes_the_programs() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        quiet_libbpf();
        let without = ["skc_v6_daddr", "skc_v6_rcv_saddr", "skc_net", "sk_cgrp_data", "level"];
        let types = types_without(&without);
        let of_monitor = ["tp_state", "existing_connections"];
        for (compressed, programs) in [
            (agent::COMPRESSED, None),
            (policy::COMPRESSED, None),
            (monitor::COMPRESSED, Some(of_monitor)),
        ] {
            let object = decompress_to_vec_zlib(compressed).unwrap();
            let mut builder = ObjectBuilder::default();
            builder.btf_custom_path(types.path()).unwrap();
            let mut open = builder.open_memory(&object).unwrap();
            for mut program in open.progs_mut() {
                let wanted = |names: [&str; 2]| names.iter().any(|name| program.name() == *name);
                let loads = programs.is_none_or(wanted);
                program.set_autoload(loads);
            }
            open.load().unwrap();
        }
    }
}
