//! The table in docs/metrics.md is made from the definitions:
//! `TRANSOM_WRITE_DOCS=1 cargo test -p transom-agent page`.

use transom_metrics::agent::ALL;
use transom_metrics::{Base, Definition, Kind};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
const HEAD: &str = "| metric | type, unit | labels | meaning | source | OpenTelemetry |\n\
                    |---|---|---|---|---|---|\n";

fn line(metric: &Definition) -> String {
    let kind = match metric.kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram => "histogram",
    };
    let unit = match metric.base {
        Base::One => "",
        Base::Bytes => ", bytes",
        Base::Seconds => ", seconds",
    };
    let labels = metric.labels.iter().map(|label| format!("`{label}`"));
    let labels = labels.collect::<Vec<_>>().join(", ");
    let Definition { help, source, otel, .. } = metric;
    format!("| `{}` | {kind}{unit} | {labels} | {help} | {source} | {otel} |\n", metric.series())
}

#[test]
fn the_page_has_the_metrics_that_are_served() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let table: String = std::iter::once(HEAD.into()).chain(ALL.iter().map(line)).collect();
    let start = page.find(HEAD).expect("the page has the table");
    let length = page[start..].find("\n\n").map_or(page.len() - start, |end| end + 1);
    if std::env::var_os("TRANSOM_WRITE_DOCS").is_some() {
        let mut page = page;
        page.replace_range(start..start + length, &table);
        return std::fs::write(PAGE, page).unwrap();
    }
    assert!(page[start..start + length] == table, "docs/metrics.md: not what is served");
}
