//! What the head of a program says: for which machine it is, and whether it needs a loader.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

/// Machines that Transom is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    Aarch64,
    X86_64,
}

/// What `uname -m` says, and what that means for us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    pub machine: Machine,
    /// A name that a 64-bit kernel tells 32-bit programs.
    pub is_compat: bool,
}

impl Machine {
    pub const fn name(self) -> &'static str {
        match self {
            Machine::Aarch64 => "aarch64",
            Machine::X86_64 => "x86_64",
        }
    }

    /// As `make dist` names its tarballs.
    pub const fn tarball(self) -> &'static str {
        match self {
            Machine::Aarch64 => "linux-arm64",
            Machine::X86_64 => "linux-amd64",
        }
    }

    pub fn of_this_program() -> Option<Machine> {
        Named::of(std::env::consts::ARCH).ok().map(|named| named.machine)
    }
}

impl Named {
    /// # Errors
    /// Transom is not built for it.
    pub fn of(uname: &str) -> Result<Named> {
        let (machine, is_compat) = match uname {
            "aarch64" => (Machine::Aarch64, false),
            "x86_64" => (Machine::X86_64, false),
            // `armv7l` of a 32-bit kernel looks no different, but its program will not run there.
            "armv8l" => (Machine::Aarch64, true),
            "i686" => (Machine::X86_64, true),
            _ => bail!(
                "the device is a '{uname}': Transom needs a 64-bit kernel, arm64 (aarch64) or x86_64"
            ),
        };
        Ok(Named { machine, is_compat })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elf {
    pub machine: Machine,
    /// The loader of a program that is not static.
    pub interpreter: Option<String>,
}

const EM_X86_64: u16 = 62;
const EM_AARCH64: u16 = 183;
const PT_INTERP: u32 = 3;

impl Elf {
    /// # Errors
    /// It is no program for one of our machines.
    pub fn of(path: &Path, bytes: &[u8]) -> Result<Elf> {
        let name = path.display();
        ensure!(bytes.starts_with(b"\x7fELF"), "{name} is no program (it has no ELF header)");
        let is_64_little = bytes.get(4..6) == Some(&[2, 1]);
        ensure!(is_64_little, "{name} is no 64-bit little-endian program");
        let cut = || format!("{name} is cut: its ELF header is not whole");
        let number = u16_at(bytes, 18).with_context(cut)?;
        let machine = match number {
            EM_AARCH64 => Machine::Aarch64,
            EM_X86_64 => Machine::X86_64,
            _ => bail!("{name} is for another machine (ELF number {number}): arm64 or x86_64"),
        };
        let interpreter = interpreter(bytes).with_context(cut)?;
        Ok(Elf { machine, interpreter })
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?)).ok()
}

/// The path in PT_INTERP; `None` if the program is cut.
#[allow(clippy::option_option)] // "cut" and "has none" are different answers
fn interpreter(bytes: &[u8]) -> Option<Option<String>> {
    let table = u64_at(bytes, 32)?;
    let (size, count) = (usize::from(u16_at(bytes, 54)?), usize::from(u16_at(bytes, 56)?));
    for number in 0..count {
        let header = bytes.get(table.checked_add(size * number)?..)?;
        if header.get(..4)? == PT_INTERP.to_le_bytes() {
            let (start, length) = (u64_at(header, 8)?, u64_at(header, 32)?);
            let path = bytes.get(start..start.checked_add(length)?)?;
            let path = path.strip_suffix(b"\0").unwrap_or(path);
            return Some(Some(String::from_utf8_lossy(path).into_owned()));
        }
    }
    Some(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Vec<u8> {
        std::fs::read("/proc/self/exe").unwrap()
    }

    #[test]
    fn this_test_is_a_program_of_this_machine_and_its_loader_is_found() {
        let elf = Elf::of(Path::new("own"), &own()).unwrap();
        assert_eq!(Some(elf.machine), Machine::of_this_program());
        let is_static = cfg!(target_feature = "crt-static");
        assert_eq!(elf.interpreter.is_none(), is_static);
        assert!(elf.interpreter.is_none_or(|loader| Path::new(&loader).exists()));
    }

    #[test]
    fn a_program_of_another_machine_is_told_by_its_number() {
        let mut bytes = own();
        bytes[18..20].copy_from_slice(&40u16.to_le_bytes());
        let said = Elf::of(Path::new("t"), &bytes).unwrap_err().to_string();
        assert!(said.contains("t is for another machine (ELF number 40)"), "{said}");
    }

    #[test]
    fn a_cut_program_is_refused_wherever_it_is_cut() {
        let bytes = own();
        for length in 0..800 {
            // The headers of a loader's path come first, so a long enough rest is whole.
            let _ = Elf::of(Path::new("t"), &bytes[..length]);
        }
        assert!(Elf::of(Path::new("t"), &bytes[..63]).is_err());
        assert!(
            Elf::of(Path::new("t"), b"#!/bin/sh").unwrap_err().to_string().contains("no program")
        );
    }
}
