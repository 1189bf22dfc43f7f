//! The kernel's types: whether they are told, and whether they are this kernel's.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use libbpf_rs::btf::Btf;
use libbpf_rs::query::BtfInfoIter;

use crate::survey::{Fact, fact};

/// Where the kernel tells its types.
pub const BTF_PATH: &str = "/sys/kernel/btf/vmlinux";

pub(crate) const BTF: &str = "BTF";

/// What the kernel itself says its types are; nothing without the privilege to ask.
fn of_the_kernel() -> Option<Vec<u8>> {
    BtfInfoIter::default().find(|btf| btf.name == "vmlinux").map(|btf| btf.btf)
}

/// Programs are loaded with what this file says. The kernel looks them up in its own: those of
/// another kernel would be attached elsewhere, or nowhere.
pub(crate) fn btf() -> Fact {
    let covered = format!("something is mounted over the kernel's own: umount {BTF_PATH}");
    let wrong = |found: &str| fact(BTF, false, found.to_owned(), &covered);
    match fs::read(BTF_PATH) {
        Err(error) if error.kind() == ErrorKind::NotFound => fact(
            BTF,
            false,
            "missing".into(),
            "the kernel must be built with CONFIG_DEBUG_INFO_BTF=y (Debian's since 11, Android's since 6.1)",
        ),
        Err(error) => wrong(&format!("unreadable: {error}")),
        Ok(told) => match of_the_kernel() {
            Some(own) if own != told => wrong("not that of the running kernel"),
            None if Btf::from_path(Path::new(BTF_PATH)).is_err() => wrong("damaged"),
            _ => fact(BTF, true, BTF_PATH.into(), ""),
        },
    }
}
