//! Debian's checker on packages with everything but the programs, which take minutes to build:
//! in their places is one that does nothing. `make dist` checks the real packages.

use std::fs;
use std::path::Path;
use std::process::Command;

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

#[test]
fn lintian_has_no_complaint() {
    if !has("dpkg-deb") || !has("lintian") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    programs(&path("programs"));
    manual(&path("manual"));
    let arch = runs(Command::new("dpkg").arg("--print-architecture"));
    let said = runs(
        Command::new(format!("{ROOT}/scripts/dist.sh"))
            .arg(arch.trim())
            .env("TRANSOM_PROGRAMS", path("programs"))
            .env("TRANSOM_MANUAL", path("manual"))
            .env("TRANSOM_DIST", path("packages"))
            .env("SOURCE_DATE_EPOCH", "1700000000"),
    );
    let checked = said.lines().filter(|line| line.starts_with("lintian: ")).count();
    assert_eq!(checked, PROGRAMS.len(), "{said}");
}
