//! Which of our formats a scraper would rather have, by its Accept header (RFC 9110, 12.5.1).

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    OpenMetrics,
    Protobuf,
    /// Prometheus' older one.
    Text,
}

impl Format {
    pub fn content_type(self) -> &'static str {
        match self {
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; \
                 encoding=delimited"
            }
            Format::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// Of the value of a header; the older text unless another format is named and not liked less.
    pub fn asked(accept: &str) -> Format {
        let ranges: Vec<Range<'_>> = accept.split(',').map(Range::of).collect();
        let best = |is: &dyn Fn(&Range<'_>) -> bool| {
            ranges.iter().filter(|r| is(r)).map(|r| r.quality).fold(0.0, f64::max)
        };
        let (protobuf, openmetrics) = (best(&|r| r.is_protobuf()), best(&|r| r.is_openmetrics()));
        if protobuf > 0.0 && protobuf >= openmetrics {
            Format::Protobuf
        } else if openmetrics > 0.0 && openmetrics >= best(&|r| r.is_older_text()) {
            Format::OpenMetrics
        } else {
            Format::Text
        }
    }
}

/// One media range with its parameters.
struct Range<'a> {
    name: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
    quality: f64,
}

impl Range<'_> {
    fn of(text: &str) -> Range<'_> {
        let mut parts = text.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let value = |part| str::split_once(part, '=').map(|(k, v)| (k.trim(), v.trim()));
        let parameters: Vec<(&str, &str)> = parts.filter_map(value).collect();
        let quality = parameters.iter().find(|(key, _)| key.eq_ignore_ascii_case("q"));
        let quality = quality.map_or(1.0, |(_, value)| value.parse().unwrap_or(0.0));
        Range { name, parameters, quality }
    }

    fn has(&self, key: &str, value: &str) -> bool {
        let is =
            |(k, v): &(&str, &str)| k.eq_ignore_ascii_case(key) && v.trim_matches('"') == value;
        self.parameters.iter().any(is)
    }

    fn is_protobuf(&self) -> bool {
        self.name.eq_ignore_ascii_case("application/vnd.google.protobuf")
            && self.has("proto", "io.prometheus.client.MetricFamily")
            && self.has("encoding", "delimited")
    }

    fn is_openmetrics(&self) -> bool {
        self.name.eq_ignore_ascii_case("application/openmetrics-text")
    }

    fn is_older_text(&self) -> bool {
        self.name.eq_ignore_ascii_case("text/plain")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROTOBUF: &str = "application/vnd.google.protobuf;proto=io.prometheus.client.\
                            MetricFamily;encoding=delimited";

    #[test]
    fn protobuf_is_for_those_that_ask_for_it_first() {
        let with_rest = |rest: &str| Format::asked(&format!("{PROTOBUF}{rest}"));
        assert_eq!(with_rest(""), Format::Protobuf);
        assert_eq!(
            with_rest(
                ",application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;\
                 q=0.5,*/*;q=0.1"
            ),
            Format::Protobuf
        );
        assert_eq!(with_rest(";q=0.6, application/openmetrics-text;q=0.5"), Format::Protobuf);
        assert_eq!(with_rest(";q=0.5, application/openmetrics-text;q=0.6"), Format::OpenMetrics);
        assert_eq!(with_rest(";q=0"), Format::Text);
    }

    #[test]
    fn openmetrics_is_for_those_that_name_it_and_like_nothing_better() {
        for accept in [
            "application/openmetrics-text;version=1.0.0,*/*;q=0.1",
            "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.5",
        ] {
            assert_eq!(Format::asked(accept), Format::OpenMetrics, "{accept}");
        }
    }

    #[test]
    fn everybody_else_gets_the_older_text() {
        for accept in [
            "",
            "*/*",
            "text/plain;version=0.0.4",
            "text/plain;version=0.0.4,application/openmetrics-text;q=0.5",
            "application/openmetrics-text;q=0",
            "application/vnd.google.protobuf",
            "application/vnd.google.protobuf;proto=another.Family;encoding=delimited",
            "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;\
             encoding=text",
            ";;=,q=x",
        ] {
            assert_eq!(Format::asked(accept), Format::Text, "{accept}");
        }
    }
}
