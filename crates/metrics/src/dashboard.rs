//! A dashboard for Grafana 10.1 or newer, as its JSON.

use serde_json::{Value, json};

use crate::agent;
use crate::queries::INTERIMS;

/// Panels that share a heading.
pub struct Section {
    pub title: &'static str,
    pub panels: Vec<Panel>,
}

#[derive(Clone, Copy)]
pub enum Look {
    Lines,
    /// What adds up to a whole.
    Stacked,
    /// What keeps its value until it changes.
    Steps,
    /// One number: orange from the first threshold, red from the second.
    Number(Option<[f64; 2]>),
}

pub struct Panel {
    pub title: &'static str,
    pub description: &'static str,
    /// Grafana's name.
    pub unit: &'static str,
    pub look: Look,
    /// Each with its legend.
    pub queries: Vec<(String, &'static str)>,
}

const WIDTH: u32 = 24;

pub fn lines(
    title: &'static str,
    unit: &'static str,
    description: &'static str,
    queries: Vec<(String, &'static str)>,
) -> Panel {
    Panel { title, description, unit, look: Look::Lines, queries }
}

pub fn number(
    title: &'static str,
    unit: &'static str,
    thresholds: Option<[f64; 2]>,
    query: String,
    description: &'static str,
) -> Panel {
    let queries = vec![(query, "")];
    Panel { title, description, unit, look: Look::Number(thresholds), queries }
}

/// A dashboard, whose variable chooses the machines.
pub struct Dashboard {
    pub uid: &'static str,
    pub title: &'static str,
    pub description: &'static str,
    pub variable: Variable,
    pub sections: Vec<Section>,
}

/// What queries have as `$NAME`.
pub struct Variable {
    pub name: &'static str,
    pub label: &'static str,
    /// The series that all machines have.
    pub of: String,
    /// The part of `instance` that is the machine's name; empty: all of it.
    pub regex: &'static str,
}

fn source() -> Value {
    json!({ "type": "prometheus", "uid": "${datasource}" })
}

impl Panel {
    fn json(&self, id: u32, [x, y, w, h]: [u32; 4]) -> Value {
        let targets: Vec<Value> = ('A'..)
            .zip(&self.queries)
            .map(|(id, (expr, legend))| {
                json!({ "refId": id.to_string(), "expr": expr, "legendFormat": legend,
                        "datasource": source() })
            })
            .collect();
        let (kind, defaults, options) = self.look();
        let mut panel = json!({
            "id": id, "type": kind, "title": self.title, "description": self.description,
            "datasource": source(), "targets": targets, "options": options,
            "gridPos": { "x": x, "y": y, "w": w, "h": h },
            "fieldConfig": { "defaults": defaults, "overrides": [] },
        });
        if self.has_interim_rows() {
            panel["interval"] = INTERIMS.into();
        }
        panel
    }

    /// Then it has a point for every two interim rows of a connection, whose time `$__rate_interval`
    /// follows: at a shorter one the bytes of five minutes are a peak, and nothing beside it.
    fn has_interim_rows(&self) -> bool {
        let mut by_interim_rows = agent::ALL.iter().filter(|metric| metric.by_interim_rows);
        by_interim_rows
            .any(|metric| self.queries.iter().any(|(query, _)| query.contains(&metric.series())))
    }

    /// The panel's type, the look of its fields, and its options.
    fn look(&self) -> (&str, Value, Value) {
        let custom = match self.look {
            Look::Number(thresholds) => {
                let mut steps = vec![json!({ "color": "green", "value": null })];
                for (color, value) in ["orange", "red"].iter().zip(thresholds.iter().flatten()) {
                    steps.push(json!({ "color": color, "value": value }));
                }
                let defaults = json!({
                    "unit": self.unit, "thresholds": { "mode": "absolute", "steps": steps },
                });
                let reduce = json!({ "calcs": ["lastNotNull"], "fields": "", "values": false });
                return ("stat", defaults, json!({ "reduceOptions": reduce }));
            }
            Look::Lines => json!({ "showPoints": "never" }),
            Look::Stacked => json!({
                "showPoints": "never", "fillOpacity": 40, "stacking": { "mode": "normal", "group": "A" },
            }),
            Look::Steps => json!({ "showPoints": "never", "lineInterpolation": "stepAfter" }),
        };
        let options = json!({
            "legend": {
                "displayMode": "list", "placement": "bottom", "showLegend": true, "calcs": [],
            },
            "tooltip": { "mode": "multi", "sort": "desc" },
        });
        ("timeseries", json!({ "unit": self.unit, "custom": custom }), options)
    }
}

/// As wide as their number in a row of at most three allows; numbers all in one row.
fn panels(sections: &[Section]) -> Vec<Value> {
    let (mut all, mut y) = (Vec::new(), 0);
    for section in sections {
        let heading = json!({
            "id": all.len() as u32 + 1, "type": "row", "title": section.title, "panels": [],
            "collapsed": false, "gridPos": { "x": 0, "y": y, "w": WIDTH, "h": 1 },
        });
        all.push(heading);
        y += 1;
        let number = section.panels.len() as u32;
        let is_numbers = matches!(section.panels[0].look, Look::Number(_));
        let (columns, h) = match number {
            _ if is_numbers => (number, 4),
            4 => (2, 8),
            _ => (3, 8),
        };
        for (n, panel) in (0..).zip(&section.panels) {
            let w = WIDTH / columns;
            let at = [n % columns * w, y + n / columns * h, w, h];
            all.push(panel.json(all.len() as u32 + 1, at));
        }
        y += number.div_ceil(columns) * h;
    }
    all
}

impl Dashboard {
    pub fn json(&self) -> Value {
        let Variable { name, label, of, regex } = &self.variable;
        let mut machines = json!({
            "name": name, "type": "query", "label": label, "datasource": source(),
            "query": format!("label_values({of}, instance)"), "refresh": 2, "sort": 1,
            "multi": true, "includeAll": true, "allValue": ".*",
            "current": { "text": "All", "value": "$__all" },
        });
        if !regex.is_empty() {
            machines["regex"] = (*regex).into();
        }
        let variables = json!([
            { "name": "datasource", "type": "datasource", "query": "prometheus", "label": "Source" },
            machines,
        ]);
        json!({
            "uid": self.uid, "title": self.title, "tags": ["tcp", "transom"],
            "description": self.description,
            "schemaVersion": 38, "editable": true, "graphTooltip": 1, "refresh": "1m",
            "time": { "from": "now-6h", "to": "now" }, "timezone": "browser",
            "templating": { "list": variables }, "annotations": { "list": [] },
            "panels": panels(&self.sections),
        })
    }
}
