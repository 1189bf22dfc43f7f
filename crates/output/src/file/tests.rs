use std::thread;

use rustix::fs::{FileType, Mode, mknodat};

use super::*;

fn write(path: &Path, inputs: &[&Path], replace: Replace, text: &str) -> Result<(), String> {
    Output::write_all_to(path, inputs, replace, text.as_bytes()).map_err(|e| format!("{e:#}"))
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_file_appears_when_it_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    let mut output = Output::open(&path, &[], Replace::Never).unwrap();
    output.write_all(b"half").unwrap();
    output.flush().unwrap();
    assert!(!path.exists());
    output.finish().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"half");
    assert_eq!(names(folder.path()), ["out"]);
}

#[test]
fn a_folder_that_is_missing_is_named_and_not_the_file_that_would_be_made_there() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    let said = write(&missing.join("out"), &[], Replace::Never, "text").unwrap_err();
    let ending = format!("out: there is no folder {}", missing.display());
    assert!(said.starts_with("cannot write ") && said.ends_with(&ending), "{said}");
}

#[test]
fn an_output_that_is_given_up_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut output = Output::open(&folder.path().join("out"), &[], Replace::Never).unwrap();
    output.write_all(b"half").unwrap();
    drop(output);
    assert!(names(folder.path()).is_empty());
}

#[test]
fn what_killed_ones_left_of_a_path_goes_with_the_next_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let (path, other) = (folder.path().join("out"), folder.path().join("out2"));
    let begin = |path: &Path| Output::open(path, &[], Replace::Always).unwrap();
    let (killed, of_other) = (begin(&path), begin(&other));
    let left = names(folder.path());
    drop((killed, of_other));
    // A process that is killed removes nothing, and holds no lock any more.
    left.iter().for_each(|name| fs::write(folder.path().join(name), "half").unwrap());
    fs::write(&path, "earlier").unwrap();
    let under_way = begin(&path);
    begin(&path).finish().unwrap();
    let there = names(folder.path());
    assert_eq!(there.len(), 3, "the other path's, the one under way, and the whole one: {there:?}");
    under_way.finish().unwrap();
    let of_other = left.iter().find(|name| name.contains("out2")).unwrap().as_str();
    assert_eq!(names(folder.path()), [of_other, "out"]);
}

#[test]
fn the_longest_names_have_files_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("é".repeat(127));
    write(&path, &[], Replace::Never, "x").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"x");
}

#[test]
fn a_file_is_replaced_only_on_request_or_if_it_is_ours() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    fs::write(&path, "thesis").unwrap();
    for replace in [Replace::Never, Replace::Ours("made by us")] {
        let refusal = write(&path, &[], replace, "x").unwrap_err();
        assert!(refusal.contains("out") && refusal.contains("--force"), "{refusal}");
        assert_eq!(fs::read(&path).unwrap(), b"thesis");
    }
    write(&path, &[], Replace::Always, "made by us: 1").unwrap();
    write(&path, &[], Replace::Ours("made by us"), "made by us: 2").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"made by us: 2");
    assert_eq!(names(folder.path()), ["out"]);
}

#[test]
fn a_file_that_appears_meanwhile_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    let output = Output::open(&path, &[], Replace::Never).unwrap();
    fs::write(&path, "thesis").unwrap();
    assert!(output.finish().is_err());
    assert_eq!(fs::read(&path).unwrap(), b"thesis");
    assert_eq!(names(folder.path()), ["out"]);
}

#[test]
fn an_input_is_never_the_output_by_whichever_name() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("trace");
    fs::write(&input, "events").unwrap();
    let (soft, hard) = (folder.path().join("soft"), folder.path().join("hard"));
    std::os::unix::fs::symlink(&input, &soft).unwrap();
    fs::hard_link(&input, &hard).unwrap();
    for name in [&input, &soft, &hard] {
        let refusal = write(name, &[&input], Replace::Always, "x").unwrap_err();
        assert!(refusal.contains("is the input"), "{refusal}");
    }
    assert_eq!(fs::read(&input).unwrap(), b"events");
}

#[test]
fn behind_a_link_the_target_is_written_and_the_link_stays() {
    let folder = tempfile::tempdir().unwrap();
    let (target, link) = (folder.path().join("target"), folder.path().join("link"));
    std::os::unix::fs::symlink("target", &link).unwrap();
    write(&link, &[], Replace::Never, "1").unwrap();
    write(&link, &[], Replace::Always, "2").unwrap();
    assert_eq!(fs::read(&target).unwrap(), b"2");
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
}

#[test]
fn a_replaced_file_keeps_its_permissions() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    fs::write(&path, "").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    write(&path, &[], Replace::Always, "x").unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_file_gets_the_permissions_that_are_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    for mode in [0o600, 0o666] {
        Output::write_all_with(&path, mode, b"x").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, mode);
    }
    assert_eq!(names(folder.path()), ["out"]);
}

#[test]
fn a_fifo_is_written_into() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fifo");
    mknodat(rustix::fs::CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let reader = thread::spawn({
        let path = path.clone();
        move || fs::read(path).unwrap()
    });
    write(&path, &[], Replace::Never, "through").unwrap();
    assert_eq!(reader.join().unwrap(), b"through");
    assert!(fs::metadata(&path).unwrap().file_type().is_fifo());
}

#[test]
fn a_device_is_written_into() {
    let null = Path::new("/dev/null");
    let before = fs::metadata(null).unwrap().ino();
    write(null, &[], Replace::Always, "x").unwrap();
    assert_eq!(fs::metadata(null).unwrap().ino(), before);
    assert!(fs::metadata(null).unwrap().file_type().is_char_device());
    let refusal = write(Path::new("/dev/full"), &[], Replace::Always, "x").unwrap_err();
    assert!(refusal.contains("No space left"), "{refusal}");
}

#[test]
fn what_cannot_be_written_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let refusal = write(folder.path(), &[], Replace::Always, "x").unwrap_err();
    assert!(refusal.contains("is a directory"), "{refusal}");
    let refusal = write(Path::new("/nowhere/at/all"), &[], Replace::Never, "x").unwrap_err();
    assert!(refusal.contains("/nowhere/at/all"), "{refusal}");
    // No file can be made there; the one that was tried is nobody's business.
    let refusal = write(Path::new("/proc/x"), &[], Replace::Never, "x").unwrap_err();
    assert!(refusal.starts_with("cannot write /proc/x: "), "{refusal}");
    assert!(!refusal.contains(".transom-"), "{refusal}");
    let refusal = write(Path::new("/dev/fd/1000"), &[], Replace::Never, "x").unwrap_err();
    assert!(refusal.contains("/dev/fd/1000"), "{refusal}");
}
