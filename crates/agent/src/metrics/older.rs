//! The same metrics in Prometheus' older text format, 0.0.4, which every collector reads: there a
//! counter's family is called like its series, and units and the end of the text are not marked.

/// Of the text in OpenMetrics.
pub fn of_openmetrics(text: &str) -> String {
    let mut older = String::with_capacity(text.len());
    // The type comes after the help, and says how the family is called.
    let mut help = None;
    for line in text.lines() {
        let mut words = line.splitn(4, ' ');
        match [words.next(), words.next(), words.next(), words.next()] {
            [Some("#"), Some("HELP"), Some(name), said] => help = Some((name, said)),
            [Some("#"), Some("TYPE"), Some(name), Some(kind)] => {
                let ending = if kind == "counter" { "_total" } else { "" };
                if let Some((_, said)) = help.take_if(|(of, _)| *of == name) {
                    let said = said.unwrap_or_default();
                    older += &format!("# HELP {name}{ending} {said}\n");
                }
                older += &format!("# TYPE {name}{ending} {kind}\n");
            }
            [Some("#"), ..] => {}
            _ => {
                older += line;
                older.push('\n');
            }
        }
    }
    older
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_called_like_its_series_and_other_lines_stay() {
        let openmetrics = "# HELP rows Rows, # of them.\n# TYPE rows counter\n\
                           rows_total{of=\"# TYPE x counter\"} 3\n\
                           # HELP rtt_seconds Time.\n# TYPE rtt_seconds histogram\n\
                           # UNIT rtt_seconds seconds\nrtt_seconds_bucket{le=\"+Inf\"} 1\n# EOF\n";
        let expected = "# HELP rows_total Rows, # of them.\n# TYPE rows_total counter\n\
                        rows_total{of=\"# TYPE x counter\"} 3\n\
                        # HELP rtt_seconds Time.\n# TYPE rtt_seconds histogram\n\
                        rtt_seconds_bucket{le=\"+Inf\"} 1\n";
        assert_eq!(of_openmetrics(openmetrics), expected);
    }
}
