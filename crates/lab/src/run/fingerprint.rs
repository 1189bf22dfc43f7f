//! What a finished run was of: everything that decides its numbers, as one SHA-256.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::experiment::Experiment;
use crate::manifest::{Machine, ProgramVersion};

/// The kernel and the programs that runs are made by.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Makers {
    kernel: String,
    /// SHA-256 of each program of ours.
    own: Vec<(String, String)>,
    /// Those of others, as they name their versions.
    others: Vec<ProgramVersion>,
}

impl Makers {
    /// # Errors
    /// If a program of ours cannot be read.
    pub fn of(own: &[PathBuf], others: Vec<ProgramVersion>) -> Result<Makers> {
        Ok(Makers { kernel: Machine::this().kernel, own: hashed(own)?, others })
    }

    /// In virtual time, this machine's kernel and its programs have no part in a run.
    ///
    /// # Errors
    /// As [`Makers::of`].
    pub fn of_virtual(own: &[PathBuf]) -> Result<Makers> {
        Ok(Makers { own: hashed(own)?, ..Makers::default() })
    }
}

/// SHA-256 of programs, by their names.
fn hashed(programs: &[PathBuf]) -> Result<Vec<(String, String)>> {
    let hashed = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok((name, of_file(path).with_context(|| format!("reading {}", path.display()))?))
    };
    programs.iter().map(hashed).collect()
}

/// Claims and figures are no part of it: they may change without a new run.
#[derive(Serialize)]
struct Decisive<'a> {
    makers: &'a Makers,
    backend: &'a str,
    seed: u64,
    duration_s: f64,
    record: bool,
    air: &'a Option<transom_emulator::plan::Air>,
    path: &'a crate::experiment::Path,
    hosts: &'a BTreeMap<String, crate::experiment::Host>,
    flows: &'a BTreeMap<String, crate::experiment::Flow>,
}

/// # Errors
/// If the experiment cannot be written as JSON.
pub fn fingerprint(
    experiment: &Experiment,
    backend: &str,
    seed: u64,
    makers: &Makers,
) -> Result<String> {
    let Experiment { duration_s, record, air, path, hosts, flows, .. } = experiment;
    let decisive = Decisive {
        makers,
        backend,
        seed,
        duration_s: *duration_s,
        record: *record,
        air,
        path,
        hosts,
        flows,
    };
    let whole = serde_json::to_value(&decisive).context("writing what is run as JSON")?;
    Ok(hex(&Sha256::digest(canonical(whole).to_string())))
}

/// Keys in their order; what is not given is left out, so that a new optional key of experiment
/// files does not make every finished run one of something else.
fn canonical(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let given = map.into_iter().filter(|(_, value)| !value.is_null());
            let sorted: BTreeMap<String, Value> =
                given.map(|(key, value)| (key, canonical(value))).collect();
            Value::Object(sorted.into_iter().collect())
        }
        Value::Array(list) => Value::Array(list.into_iter().map(canonical).collect()),
        plain => plain,
    }
}

/// SHA-256 of a file.
pub(crate) fn of_file(path: &Path) -> io::Result<String> {
    let (mut file, mut digest) = (File::open(path)?, Sha256::new());
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex(&digest.finalize())),
            n => digest.update(&buffer[..n]),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::made_up::EXPERIMENT as TEXT;

    fn of(text: &str, makers: &Makers) -> String {
        let loaded = crate::experiment::parse("x.toml".as_ref(), text.to_owned()).unwrap();
        fingerprint(&loaded.experiment, "emulator", 1, makers).unwrap()
    }

    fn makers() -> Makers {
        let program = |name: &str, version: &str| (name.to_owned(), version.to_owned());
        let others = vec![ProgramVersion { name: "iperf".into(), version: "2.1.8".into() }];
        Makers { kernel: "Linux 6.18".into(), own: vec![program("transom", "ab12")], others }
    }

    /// It is kept in folders of results: another value means that all of them are run again.
    #[test]
    fn it_is_the_same_on_every_machine_and_in_every_build() {
        assert_eq!(of(TEXT, &makers()), EXPECTED);
    }

    const EXPECTED: &str = "af4232deee4ef7b043eb417208f2fcc813184d1542e3b601d242b96bbd05fdc0";

    #[test]
    fn it_tells_kernels_programs_and_settings_apart() {
        let first = of(TEXT, &makers());
        let other = |change: fn(&mut Makers)| {
            let mut makers = makers();
            change(&mut makers);
            of(TEXT, &makers)
        };
        assert_ne!(other(|makers| makers.kernel.push('x')), first);
        assert_ne!(other(|makers| makers.own[0].1.push('x')), first);
        assert_ne!(other(|makers| makers.others[0].version.push('x')), first);
        let sysctl = "[hosts.a]\nsysctl = { \"ipv4.tcp_sack\" = \"0\" }";
        assert_ne!(of(&TEXT.replace("[hosts.a]", sysctl), &makers()), first);
        assert_eq!(of(&TEXT.replace("It is above one", "It is"), &makers()), first);
    }

    #[test]
    fn a_program_is_known_by_its_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("transom");
        std::fs::write(&path, "abc").unwrap();
        // FIPS 180-2, B.1.
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(of_file(&path).unwrap(), expected);
        assert!(Makers::of(&[folder.path().join("none")], Vec::new()).is_err());
    }
}
