//! Debian's checker on packages with everything but the programs, which take minutes to build:
//! in their places is one that does nothing. `make dist` checks the real packages.

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;
use transom_testbed::has;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// Each has a package of its own.
const PROGRAMS: [&str; 4] = ["transom", "transom-agent", "transom-fleet", "transom-drill"];
/// The only one that is not linked statically.
const DYNAMIC: &str = "transom-drill";

fn runs(command: &mut Command) -> String {
    let output = command.output().expect("it starts");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(output.status.success(), "{command:?}: {said}");
    said
}

/// Programs that do nothing, linked as the real ones are.
fn programs(folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("nothing.c"), "int main(void) { return 0; }\n").unwrap();
    for program in PROGRAMS {
        let link = if program == DYNAMIC { "-pie" } else { "-static-pie" };
        let mut cc = Command::new("cc");
        cc.args([link, "-fPIE", "-O1", "nothing.c", "-o", program]).current_dir(folder);
        runs(&mut cc);
    }
}

/// A page and completions for each.
fn manual(folder: &Path) {
    for (below, name) in
        [("man", "NAME.1"), ("bash", "NAME.bash"), ("zsh", "_NAME"), ("fish", "NAME.fish")]
    {
        fs::create_dir_all(folder.join(below)).unwrap();
        for program in PROGRAMS {
            let page = format!(".TH {program} 1\n.SH NAME\n{program} \\- does nothing\n");
            let file = folder.join(below).join(name.replace("NAME", program));
            fs::write(file, if below == "man" { page } else { "# nothing\n".into() }).unwrap();
        }
    }
}

/// The packages for this machine, of such programs, by someone with this umask; what was said.
fn pack(folder: &Path, umask: &str) -> String {
    let arch = runs(Command::new("dpkg").arg("--print-architecture"));
    let script = format!("umask {umask}; exec {ROOT}/scripts/dist.sh {}", arch.trim());
    let mut packer = Command::new("sh");
    packer
        .args(["-c", &script])
        .env("TRANSOM_PROGRAMS", folder.join("programs"))
        .env("TRANSOM_MANUAL", folder.join("manual"))
        .env("TRANSOM_DIST", folder.join(umask))
        .env("SOURCE_DATE_EPOCH", "1700000000");
    runs(&mut packer)
}

/// As `tar` shows them: those of each entry that are not what everybody is to have.
fn odd_modes(listing: &str) -> Vec<&str> {
    let usual = ["drwxr-xr-x ", "-rwxr-xr-x ", "-rw-r--r-- "];
    listing.lines().filter(|line| !usual.iter().any(|mode| line.starts_with(mode))).collect()
}

/// A folder with all that is packed.
fn built() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    programs(&folder.path().join("programs"));
    manual(&folder.path().join("manual"));
    folder
}

#[test]
fn lintian_has_no_complaint() {
    if !has("dpkg-deb") || !has("lintian") {
        return;
    }
    let said = pack(built().path(), "022");
    let checked = said.lines().filter(|line| line.starts_with("lintian: ")).count();
    assert_eq!(checked, PROGRAMS.len(), "{said}");
}

#[test]
fn packages_are_the_same_whatever_the_umask_of_who_packs() {
    if !has("dpkg-deb") {
        return;
    }
    let folder = built();
    for umask in ["002", "077"] {
        pack(folder.path(), umask);
    }
    let sums = |umask: &str| fs::read_to_string(folder.path().join(umask).join("SHA256SUMS"));
    assert_eq!(sums("002").unwrap(), sums("077").unwrap());
    for entry in fs::read_dir(folder.path().join("077")).unwrap() {
        let path = entry.unwrap().path();
        let listing = match path.extension().and_then(|it| it.to_str()) {
            Some("deb") => runs(Command::new("dpkg-deb").arg("-c").arg(&path)),
            Some("xz") => runs(Command::new("tar").arg("-tvf").arg(&path)),
            _ => continue,
        };
        assert_eq!(odd_modes(&listing), Vec::<&str>::new(), "{}", path.display());
    }
}
