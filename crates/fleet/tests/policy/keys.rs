//! Keys: whose they are, and what is refused.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use transom_rollout::{signing_key, trusted_keys};

use crate::program::{Operator, policy, said};

#[test]
fn a_new_key_is_readable_by_its_owner_alone_and_its_public_half_is_a_line_of_the_trusted() {
    let operator = Operator::new();
    let path = operator.path("fleet.key");
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    let secret = signing_key(&fs::read_to_string(&path).unwrap()).unwrap();
    let printed = fs::read_to_string(operator.path("trusted")).unwrap();
    assert_eq!(trusted_keys(&printed).unwrap(), [secret.verifying_key()]);
    let again = said(&mut policy(["key", "--public", &operator.text("fleet.key")]));
    assert_eq!(again.unwrap(), printed);
    said(&mut policy(["key", &operator.text("other.key")])).unwrap();
    let other = fs::read_to_string(operator.path("other.key")).unwrap();
    assert_ne!(signing_key(&other).unwrap(), secret);
}

#[test]
fn a_key_that_is_there_is_not_written_over() {
    let operator = Operator::new();
    let before = fs::read(operator.path("fleet.key")).unwrap();
    let refused = said(&mut policy(["key", &operator.text("fleet.key")])).unwrap_err();
    assert!(refused.contains("is there already") && refused.contains("--public"), "{refused}");
    assert_eq!(fs::read(operator.path("fleet.key")).unwrap(), before);
    let nowhere = said(&mut policy(["key", "/nonexistent/fleet.key"])).unwrap_err();
    assert!(nowhere.contains("/nonexistent/fleet.key"), "{nowhere}");
}

#[test]
fn a_key_that_others_can_read_signs_nothing() {
    let operator = Operator::new();
    for mode in [0o644, 0o640, 0o604] {
        fs::set_permissions(operator.path("fleet.key"), fs::Permissions::from_mode(mode)).unwrap();
        let refused = said(&mut operator.publish(&["--first", "a"])).unwrap_err();
        assert!(refused.contains("others can read it"), "{refused}");
        assert!(refused.contains("chmod 600"), "{refused}");
    }
    fs::set_permissions(operator.path("fleet.key"), fs::Permissions::from_mode(0o600)).unwrap();
    said(&mut operator.publish(&["--first", "a"])).unwrap();
}
