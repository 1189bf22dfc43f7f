//! An experiment with another sweep, and nothing that is said about the one of its file.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use toml::{Table, Value};

use crate::experiment::{Experiment, Links, Loaded, leaves, parse_with};
use crate::sweep::same;

/// What only makes sense with the file's own sweep.
const SAID: [&str; 9] =
    ["claims", "controls", "differs", "figures", "paired", "published", "quick", "skip", "sweep"];

/// `KEY=VALUES`: a list as TOML has it, or values with commas between them, where words need no
/// quotes.
///
/// # Errors
/// If there is no key, or no value.
pub fn values(text: &str) -> Result<(String, Vec<Value>)> {
    let (key, values) = text.split_once('=').with_context(|| {
        format!("'{text}' is no KEY=VALUES: write path.rtt_ms=16,64 or 'path.rtt_ms=[16, 64]'")
    })?;
    let (key, values) = (key.trim().to_owned(), values.trim());
    let values = match toml_value(values) {
        Some(Value::Array(list)) => list,
        Some(one) => vec![one],
        None => {
            let inside = values.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
            let words = inside.unwrap_or(values).split(',').map(str::trim);
            words.map(|word| toml_value(word).unwrap_or_else(|| word.into())).collect()
        }
    };
    ensure!(
        !key.is_empty() && !values.is_empty() && !values.contains(&Value::String(String::new())),
        "'{text}' lacks a key or a value"
    );
    Ok((key, values))
}

fn toml_value(text: &str) -> Option<Value> {
    format!("x = {text}").parse::<Table>().ok()?.remove("x")
}

/// The experiment's file without its sweep and what is said about that.
///
/// # Errors
/// If it is no TOML.
pub fn bare(loaded: &Loaded) -> Result<Table> {
    let mut tree: Table = loaded.text.parse().context("the experiment's file")?;
    for part in SAID {
        tree.remove(part);
    }
    Ok(tree)
}

/// What a point of the file's own sweep sets: of each key the given value, or else its first.
///
/// # Errors
/// If a case is named that there is not.
pub fn fixed(loaded: &Loaded, given: &[(String, Vec<Value>)]) -> Result<BTreeMap<String, Value>> {
    let sweep = &loaded.experiment.sweep;
    let mut chosen: BTreeMap<&String, Value> =
        sweep.iter().map(|(key, values)| (key, values[0].clone())).collect();
    for (key, values) in given {
        let wanted = cases(key, values, sweep.get(key))?;
        chosen.extend(wanted.into_iter().next().map(|value| (key, value)));
    }
    let mut set = BTreeMap::new();
    for (key, value) in chosen {
        match value.get("set").and_then(Value::as_table) {
            Some(case) => set.extend(leaves(case)),
            None => drop(set.insert(key.clone(), value)),
        }
    }
    Ok(set)
}

/// The experiment with these keys swept instead. A key of its own sweep that is not among them
/// keeps its first value.
///
/// # Errors
/// If a key is given twice, or the result cannot be run: as for an experiment file.
pub fn swept(loaded: &Loaded, keys: &[(String, Vec<Value>)]) -> Result<Loaded> {
    let mut tree = bare(loaded)?;
    let mut sweep = Table::new();
    for (key, values) in &loaded.experiment.sweep {
        sweep.insert(key.clone(), Value::Array(values[..1].to_vec()));
    }
    let mut given = BTreeMap::new();
    for (key, values) in keys {
        ensure!(given.insert(key, values).is_none(), "{key} is given twice");
        let own = loaded.experiment.sweep.get(key);
        sweep.insert(key.clone(), Value::Array(cases(key, values, own)?));
    }
    tree.insert("sweep".to_owned(), Value::Table(sweep));
    let title = format!("{}: swept", loaded.experiment.title);
    tree.insert("title".to_owned(), title.into());
    tree.insert("figures".to_owned(), Value::Array(figures(&loaded.experiment, keys)));
    let path = format!("the sweep of {}", loaded.path.display());
    let links = Links::In(&loaded.folder);
    let mut made = parse_with(path.as_ref(), links, toml::to_string(&tree)?)?;
    made.name.clone_from(&loaded.name);
    Ok(made)
}

/// Cases of the file's own sweep are meant by their names.
fn cases(key: &str, wanted: &[Value], own: Option<&Vec<Value>>) -> Result<Vec<Value>> {
    let Some(own) = own.filter(|own| own.iter().any(Value::is_table)) else {
        return Ok(wanted.to_vec());
    };
    let case = |wanted: &Value| {
        let named = own.iter().find(|case| same(case, wanted)).cloned();
        named.with_context(|| {
            let names = own.iter().map(crate::sweep::canonical).collect::<Vec<_>>().join(", ");
            format!("{key} has no case {wanted}: it has {names}")
        })
    };
    wanted.iter().map(case).collect()
}

/// Goodput along each key that has numbers.
fn figures(experiment: &Experiment, keys: &[(String, Vec<Value>)]) -> Vec<Value> {
    let is_number = |value: &Value| value.is_integer() || value.is_float();
    let numeric =
        keys.iter().filter(|(_, values)| values.len() > 1 && values.iter().all(is_number));
    let curve = |flow: &String| {
        let pick = Table::from_iter([
            ("metric".to_owned(), Value::from("goodput_mbit")),
            ("flow".to_owned(), flow.as_str().into()),
        ]);
        Value::Table(Table::from_iter([
            ("name".to_owned(), Value::from(flow.as_str())),
            ("pick".to_owned(), pick.into()),
        ]))
    };
    let figure = |(key, _): &(String, Vec<Value>)| {
        let curves: Vec<Value> = experiment.flows.keys().map(curve).collect();
        Value::Table(Table::from_iter([
            ("title".to_owned(), Value::from(format!("Goodput along {key}"))),
            ("kind".to_owned(), "sweep".into()),
            ("along".to_owned(), key.as_str().into()),
            ("unit".to_owned(), "Mbit/s".into()),
            ("curves".to_owned(), curves.into()),
        ]))
    };
    numeric.map(figure).collect()
}

/// Which points of the file's own sweep, `KEY=VALUE`, as one value each.
///
/// # Errors
/// If a key has several values.
pub fn one_value(text: &str) -> Result<(String, Vec<Value>)> {
    let (key, values) = values(text)?;
    match values.len() {
        1 => Ok((key, values)),
        n => bail!("'{text}' has {n} values: give one"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::parse;
    use crate::made_up;
    use crate::sweep::points;

    fn loaded() -> Loaded {
        parse("made-up.toml".as_ref(), made_up::EXPERIMENT.to_owned()).unwrap()
    }

    fn labels(keys: &[&str]) -> Result<Vec<String>> {
        let keys: Vec<_> = keys.iter().map(|text| values(text)).collect::<Result<_>>()?;
        let made = swept(&loaded(), &keys)?;
        Ok(points(&made, false).iter().map(crate::sweep::Point::label).collect())
    }

    #[test]
    fn values_are_a_list_of_toml_or_words_with_commas() {
        let of = |text: &str| values(text).unwrap();
        assert_eq!(of("a.b=[1, 2.5]"), ("a.b".into(), vec![1.into(), 2.5.into()]));
        assert_eq!(of("a = 1,2").1, [1.into(), 2.into()]);
        assert_eq!(of("a=cubic,bbr").1, [Value::from("cubic"), "bbr".into()]);
        assert_eq!(of("a=[cubic, 'x,y']").1.len(), 3, "words are no TOML");
        assert_eq!(of("a=['x,y']").1, [Value::from("x,y")]);
        for wrong in ["a", "=1", "a=", "a=1,,2"] {
            assert!(values(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn other_keys_than_the_files_are_swept_and_its_own_keep_their_first_value() {
        let all = labels(&["flows.up.algorithm=cubic,bbr"]).unwrap();
        let at = |name: &str| format!("flows.up.algorithm = {name}, path.rtt_ms = 0");
        assert_eq!(all, [at("cubic"), at("bbr")]);
        let both = labels(&["flows.up.algorithm=cubic,bbr", "path.rtt_ms=16,32,48"]).unwrap();
        assert_eq!(both.len(), 6);
    }

    #[test]
    fn what_cannot_be_swept_is_named() {
        let error = format!("{:#}", labels(&["flows.down.algorithm=bbr"]).unwrap_err());
        assert!(error.contains("there is no `flows.down`; known: up"), "{error}");
        let twice = labels(&["path.rtt_ms=1", "path.rtt_ms=2"]).unwrap_err().to_string();
        assert!(twice.contains("path.rtt_ms is given twice"), "{twice}");
    }

    #[test]
    fn a_case_is_meant_by_its_name() {
        let case = |name: &str, rtt: u32| {
            format!("{{ name = \"{name}\", set = {{ path.rtt_ms = {rtt} }} }}")
        };
        let cases = format!("sweep.way = [{}, {}]\n[hosts.a]", case("near", 1), case("far", 99));
        let text = "title = \"t\"\nsource = \"s\"\nquestion = \"q\"\nduration_s = 1\nrepeats = 1\n"
            .to_owned()
            + &cases
            + "\n[hosts.b]\n[flows.up]\nfrom = \"a\"\nto = \"b\"\n";
        let loaded = parse("x.toml".as_ref(), text).unwrap();
        let made = swept(&loaded, &[("way".into(), vec!["far".into()])]).unwrap();
        assert_eq!(points(&made, false)[0].experiment.path.rtt_ms, 99.0);
        let error = swept(&loaded, &[("way".into(), vec!["up".into()])]).unwrap_err().to_string();
        assert!(error.contains("near, far"), "{error}");
    }

    #[test]
    fn the_page_draws_goodput_along_each_key_with_numbers() {
        let keys =
            [values("path.rtt_ms=1,2").unwrap(), values("flows.up.algorithm=bbr,reno").unwrap()];
        let made = swept(&loaded(), &keys).unwrap();
        assert_eq!(made.experiment.figures.len(), 1);
        assert!(made.experiment.claims.is_empty() && made.experiment.differs.is_empty());
    }
}
