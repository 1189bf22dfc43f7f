//! The configuration that the package installs.

use std::fs;
use std::path::Path;

use transom_agent::Config;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/agent.toml");

fn read(text: &str) -> anyhow::Result<Config> {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), text).unwrap();
    Config::read(Some(file.path()))
}

/// Lines `#key = value` before the first table, without the sign.
fn shown(text: &str) -> Vec<&str> {
    let before = text.lines().take_while(|line| !line.starts_with("#["));
    let uncommented = before.filter_map(|line| line.strip_prefix('#'));
    uncommented.filter(|line| line.starts_with(|first: char| first.is_ascii_lowercase())).collect()
}

fn key(line: &str) -> &str {
    line.split(" = ").next().unwrap_or_default()
}

#[test]
fn it_changes_nothing_as_it_is_installed() {
    assert_eq!(Config::read(Some(Path::new(FILE))).unwrap(), Config::default());
}

#[test]
fn each_line_shows_a_key_with_its_default() {
    let text = fs::read_to_string(FILE).unwrap();
    let lines = shown(&text);
    let with_default = lines.iter().filter(|line| key(line) != "metrics").copied();
    let config = read(&with_default.collect::<Vec<_>>().join("\n")).unwrap();
    assert_eq!(config, Config::default());
    assert!(read(&lines.join("\n")).unwrap().metrics.is_some(), "an address to serve metrics at");
}

#[test]
fn every_key_of_the_configuration_is_shown() {
    let text = fs::read_to_string(FILE).unwrap();
    // The refusal of an unknown key lists those that there are.
    for table in ["", "[recording]\n"] {
        let refusal = format!("{:#}", read(&format!("{table}no_such_key = 1")).unwrap_err());
        let (_, expected) = refusal.split_once("expected one of").expect(&refusal);
        let known: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
        assert!(known.contains(&"connections"), "{refusal}");
        for name in known {
            let forms = [format!("#{name} = "), format!("#[{name}]"), format!(".{name}]]")];
            assert!(forms.iter().any(|form| text.contains(form)), "{FILE} does not show `{name}`");
        }
    }
}
