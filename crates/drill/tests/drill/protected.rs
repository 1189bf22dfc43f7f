//! Who may ask and who may answer, with the configuration that is packed: certificates, and rules of
//! the router.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use transom_testbed::{Talking, needs};

use crate::host::{Desk, Kept, PATIENT, about, answer, said};

const PACKED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/drill");

/// Certificates of an authority, made as a page would tell it.
struct Authority {
    folder: tempfile::TempDir,
}

fn openssl(folder: &Path, words: &str) {
    let mut command = Command::new("openssl");
    let output = command.current_dir(folder).args(words.split(' ')).output().unwrap();
    assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
}

impl Authority {
    fn new() -> Authority {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
        openssl(
            folder.path(),
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=authority \
             -keyout ca.key -out drill-ca.pem",
        );
        Authority { folder }
    }

    /// Certificate and key, and the packed configuration with their names.
    fn config(&self, packed: &str, name: &str, change: &[(&str, &str)]) -> PathBuf {
        let folder = self.folder.path();
        openssl(
            folder,
            &format!(
                "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN={name} \
                 -addext subjectAltName=IP:10.88.0.2 -keyout {name}.key -out {name}.csr"
            ),
        );
        openssl(
            folder,
            &format!(
                "x509 -req -in {name}.csr -CA drill-ca.pem -CAkey ca.key -days 2 -copy_extensions copy \
                 -out {name}.pem"
            ),
        );
        // Of root and the group that the host's program has, as the page says.
        let key = folder.join(format!("{name}.key"));
        fs::set_permissions(&key, PermissionsExt::from_mode(0o640)).unwrap();
        let mut text = fs::read_to_string(Path::new(PACKED).join(packed)).unwrap();
        let of = |file: &str| folder.join(file).display().to_string();
        let own = [
            ("/etc/transom/drill-ca.pem", of("drill-ca.pem")),
            ("/etc/transom/drill.pem", of(&format!("{name}.pem"))),
            ("/etc/transom/drill.key", of(&format!("{name}.key"))),
            ("router.example", "10.88.0.2".into()),
        ];
        let own = own.iter().map(|(from, to)| (*from, to.as_str()));
        for (from, to) in own.chain(change.iter().copied()) {
            text = text.replace(from, to);
        }
        let file = folder.join(format!("{name}.json5"));
        fs::write(&file, text).unwrap();
        file
    }
}

fn ask(desk: &Desk, kept: &Kept, config: &Path, wait: [&str; 2]) -> Result<String, String> {
    let [slow, _] = kept.connections();
    let mut command = desk.host.command(crate::host::DRILL);
    command.arg("ask").args(about(&slow)).args(wait).arg("--config").arg(config);
    said(&mut command)
}

#[test]
fn who_has_no_certificate_or_that_of_another_role_can_neither_ask_nor_answer() {
    needs!("root", "openssl");
    let kept = Kept::of("level = 0");
    let desk = Desk::beside(&kept);
    let ours = Authority::new();
    let router = ours.config("router.json5", "router", &[("0.0.0.0", "10.88.0.2")]);
    let _router = desk.router_with(&["--config", router.to_str().unwrap()]);
    let host = ours.config("drill.json5", "transom-host", &[]);
    let mut command = answer(&kept, &["--config", host.to_str().unwrap()]);
    let _answerer = Talking::start(&mut command, "questions come by transom-drill1/web-1");
    let desks = ours.config("drill.json5", "transom-desk", &[]);
    let answered = ask(&desk, &kept, &desks, PATIENT).unwrap();
    assert!(answered.contains("at level 0 then"), "{answered}");
    // A host may not ask.
    let refused = ask(&desk, &kept, &host, PATIENT).unwrap_err();
    assert!(refused.contains("no host web-1 is at this router"), "{refused}");
    // Somebody else of the same authority may not either.
    let other = ours.config("drill.json5", "printer", &[]);
    let refused = ask(&desk, &kept, &other, PATIENT).unwrap_err();
    assert!(refused.contains("no host web-1 is at this router"), "{refused}");
    // Another authority, and nobody's.
    let stranger = Authority::new();
    let theirs = stranger.config("drill.json5", "transom-desk", &[]);
    let none = ours.config("drill.json5", "none", &[("connect_", "// connect_")]);
    for stranger in [theirs, none] {
        let refused = ask(&desk, &kept, &stranger, ["--wait", "3"]).unwrap_err();
        assert!(refused.contains("no router answers at tls/10.88.0.2:7447"), "{refused}");
    }
}

#[test]
fn who_may_only_ask_cannot_answer_in_the_name_of_a_host() {
    needs!("root", "openssl");
    let kept = Kept::of("level = 0");
    let desk = Desk::beside(&kept);
    let ours = Authority::new();
    let router = ours.config("router.json5", "router", &[("0.0.0.0", "10.88.0.2")]);
    let _router = desk.router_with(&["--config", router.to_str().unwrap()]);
    let desks = ours.config("drill.json5", "transom-desk", &[]);
    let mut command = answer(&kept, &["--config", desks.to_str().unwrap()]);
    let _answerer = Talking::start(&mut command, "questions come by transom-drill1/web-1");
    let refused = ask(&desk, &kept, &desks, PATIENT).unwrap_err();
    assert!(refused.contains("no host web-1 is at this router"), "{refused}");
}
