//! Parts of the file whose keys depend on one another, as they stand there: flat tables, so that
//! an unknown key is found, which serde's `flatten` cannot do.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, de};
use toml::Value;

use super::places::joined;
use super::problem::instead;
use super::{Curve, FigureKind, Pick, Test};

/// `a.b = [1]` and `"a.b" = [1]` are the same.
pub fn lists<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, Vec<Value>>, D::Error> {
    let mut all = BTreeMap::new();
    for (key, value) in values(deserializer)? {
        let Value::Array(list) = value else {
            return Err(de::Error::custom(format!(
                "`{key}` must be a list of values, such as [{value}]"
            )));
        };
        all.insert(key, list);
    }
    Ok(all)
}

/// `{ a.b = 1 }` and `{ "a.b" = 1 }` are the same.
pub fn values<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, Value>, D::Error> {
    Ok(leaves(&toml::Table::deserialize(deserializer)?))
}

/// A list of such tables.
pub fn places<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<BTreeMap<String, Value>>, D::Error> {
    Ok(Vec::<toml::Table>::deserialize(deserializer)?.iter().map(leaves).collect())
}

/// Every value that is no table, by its dotted key.
pub fn leaves(table: &toml::Table) -> BTreeMap<String, Value> {
    fn walk(prefix: &str, table: &toml::Table, all: &mut BTreeMap<String, Value>) {
        for (key, value) in table {
            let path = joined(prefix, key);
            match value {
                Value::Table(inner) => walk(&path, inner, all),
                _ => drop(all.insert(path, value.clone())),
            }
        }
    }
    let mut all = BTreeMap::new();
    walk("", table, &mut all);
    all
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    title: String,
    kind: String,
    along: Option<String>,
    unit: Option<String>,
    curves: Option<Vec<Curve>>,
    quantity: Option<String>,
    #[serde(default, rename = "where", deserialize_with = "values")]
    at: BTreeMap<String, Value>,
    greatest: Option<Pick>,
    least: Option<Pick>,
}

impl TryFrom<Figure> for super::Figure {
    type Error = String;

    fn try_from(raw: Figure) -> Result<super::Figure, String> {
        let kind = raw.kind.clone();
        let need = |name: &str| format!("a figure of kind \"{kind}\" needs `{name}`");
        let extra = [
            ("along", raw.along.is_some()),
            ("unit", raw.unit.is_some()),
            ("curves", raw.curves.is_some()),
            ("quantity", raw.quantity.is_some()),
            ("where", !raw.at.is_empty()),
            ("greatest", raw.greatest.is_some()),
            ("least", raw.least.is_some()),
        ];
        let only = |allowed: &[&str]| refuse("figure", "kind", &raw.kind, &extra, allowed);
        let kind = match raw.kind.as_str() {
            "sweep" => {
                only(&["along", "unit", "curves"])?;
                FigureKind::Sweep {
                    along: raw.along.ok_or_else(|| need("along"))?,
                    unit: raw.unit.ok_or_else(|| need("unit"))?,
                    curves: raw.curves.ok_or_else(|| need("curves"))?,
                }
            }
            "bars" => {
                only(&["unit", "curves"])?;
                FigureKind::Bars {
                    unit: raw.unit.ok_or_else(|| need("unit"))?,
                    curves: raw.curves.ok_or_else(|| need("curves"))?,
                }
            }
            "time" => {
                only(&["quantity", "where", "greatest", "least"])?;
                if raw.greatest.is_some() && raw.least.is_some() {
                    return Err("`greatest` and `least` choose two runs; keep one".to_owned());
                }
                FigureKind::Time {
                    quantity: raw.quantity.ok_or_else(|| need("quantity"))?,
                    at: raw.at,
                    greatest: raw.greatest,
                    least: raw.least,
                }
            }
            other => return Err(unknown("kind of figure", other, &["sweep", "time", "bars"])),
        };
        Ok(super::Figure { title: raw.title, kind })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    text: String,
    test: String,
    of: Pick,
    over: Option<Pick>,
    plus: Option<Pick>,
    along: Option<String>,
    from: Option<f64>,
    to: Option<f64>,
    at_least: Option<f64>,
    at_most: Option<f64>,
    published: Option<f64>,
    calibrated: Option<String>,
    precision: Option<f64>,
    #[serde(default)]
    over_all: bool,
    #[serde(default)]
    fails_under: Vec<String>,
}

/// The tests a claim may name.
const TESTS: [&str; 5] = ["value", "ratio", "trend", "ratio-everywhere", "outcomes"];

impl TryFrom<Claim> for super::Claim {
    type Error = String;

    fn try_from(raw: Claim) -> Result<super::Claim, String> {
        let name = raw.test.clone();
        let need = |key: &str| format!("the test \"{name}\" needs `{key}`");
        let extra = [
            ("over", raw.over.is_some()),
            ("plus", raw.plus.is_some()),
            ("along", raw.along.is_some()),
            ("from", raw.from.is_some()),
            ("to", raw.to.is_some()),
        ];
        let only = |allowed: &[&str]| refuse("claim", "test", &raw.test, &extra, allowed);
        let of = raw.of;
        let test = match raw.test.as_str() {
            "value" => {
                only(&[])?;
                Test::Value { of }
            }
            "ratio" => {
                only(&["over", "plus"])?;
                let over = raw.over.ok_or_else(|| need("over"))?;
                Test::Ratio { of, over, plus: raw.plus }
            }
            "trend" => {
                only(&["along"])?;
                Test::Trend { of, along: raw.along.ok_or_else(|| need("along"))? }
            }
            "ratio-everywhere" => {
                only(&["over", "along"])?;
                Test::RatioEverywhere {
                    of,
                    over: raw.over.ok_or_else(|| need("over"))?,
                    along: raw.along.ok_or_else(|| need("along"))?,
                }
            }
            "outcomes" => {
                only(&["from", "to"])?;
                Test::Outcomes {
                    of,
                    from: raw.from.ok_or_else(|| need("from"))?,
                    to: raw.to.ok_or_else(|| need("to"))?,
                }
            }
            other => return Err(unknown("test", other, &TESTS)),
        };
        Ok(super::Claim {
            text: raw.text,
            test,
            at_least: raw.at_least,
            at_most: raw.at_most,
            published: raw.published,
            calibrated: raw.calibrated,
            over_all: raw.over_all,
            precision: raw.precision,
            fails_under: raw.fails_under,
        })
    }
}

fn unknown(what: &str, word: &str, known: &[&str]) -> String {
    format!("no {what} is called \"{word}\"; {}", instead(word, known.iter().copied()))
}

/// Refuses keys that say nothing with this kind or test.
fn refuse(
    what: &str,
    by: &str,
    name: &str,
    given: &[(&str, bool)],
    allowed: &[&str],
) -> Result<(), String> {
    match given.iter().find(|(key, given)| *given && !allowed.contains(key)) {
        Some((key, _)) => Err(format!(
            "`{key}` says nothing in a {what} of {by} \"{name}\"; remove it or choose another {by}"
        )),
        None => Ok(()),
    }
}
