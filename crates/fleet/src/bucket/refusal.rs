//! What an object store refused, in words that name the remedy.

use std::error::Error as _;

use object_store::Error;

/// Said where no keys are found.
pub const WHERE_KEYS_ARE: &str = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or \
    AWS_SHARED_CREDENTIALS_FILE to a file that only its owner can read, or give the machine a role";

/// Ends the line of keys that the server does not take, whatever they would allow.
pub const OTHER_KEYS: &str = "correct AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or where else the \
    keys come from";

/// What kind of refusal it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The server asks for fewer requests.
    Slower,
    /// No answer, or half of one; or the server has trouble of its own.
    Unreachable,
    /// The server's certificate is not for that name, or nobody known signed it.
    Forged,
    NoKeys,
    Denied,
    /// The server does not take a signature of this time.
    Clock,
    Region,
    NoBucket,
    /// The server does not know what is asked of it.
    Unsupported,
    /// The server refuses such a request, however often it comes.
    Refused,
    Other,
}

impl Refusal {
    /// As in metrics and tables.
    pub fn name(self) -> &'static str {
        match self {
            Refusal::Slower => "slower",
            Refusal::Unreachable => "unreachable",
            Refusal::Forged => "forged",
            Refusal::NoKeys => "no_keys",
            Refusal::Denied => "denied",
            Refusal::Clock => "clock",
            Refusal::Region => "region",
            Refusal::NoBucket => "no_bucket",
            Refusal::Unsupported => "unsupported",
            Refusal::Refused => "refused",
            Refusal::Other => "other",
        }
    }

    /// The server certainly did nothing of what it was asked for.
    pub fn is_final(self) -> bool {
        !matches!(self, Refusal::Slower | Refusal::Unreachable | Refusal::Other)
    }
}

/// The kind, and one line: what it is, the remedy, and what the server said.
pub fn refusal(error: &Error) -> (Refusal, String) {
    let said = chain(error);
    let kind = kind(error, &said);
    let short = short(&said);
    let line = match kind {
        Refusal::Slower => format!("the server asks for fewer requests: {short}"),
        Refusal::Unreachable => format!(
            "the server cannot be reached, or has trouble: {short}{}",
            through_proxy(&said, |name| std::env::var_os(name).is_some_and(|is| !is.is_empty()))
        ),
        Refusal::Forged => format!(
            "the server is not who it should be: {short}; correct AWS_ENDPOINT_URL, or add the \
             authority of its certificate to the system's"
        ),
        Refusal::NoKeys => format!("no keys: {WHERE_KEYS_ARE} ({short})"),
        Refusal::Denied if is_of_keys(&said) => {
            format!("the keys do not allow it: {short}; {OTHER_KEYS}")
        }
        Refusal::Denied => format!("the keys do not allow it: {short}; see the bucket's policy"),
        Refusal::Clock => format!(
            "this machine's clock is wrong (the server's: {}): set it; files wait until then",
            element(&said, "ServerTime").unwrap_or("not said")
        ),
        Refusal::Region => format!(
            "the bucket is in another region: set AWS_REGION{} ({short})",
            element(&said, "Region").map(|name| format!("={name}")).unwrap_or_default()
        ),
        Refusal::NoBucket => {
            format!("there is no such bucket: make it, or correct the address ({short})")
        }
        Refusal::Unsupported => format!(
            "the store does not know what is asked of it: {short}; rows need If-None-Match, so that none \
             is there twice, and policies If-Match, too: take a store or a version of it that has both"
        ),
        Refusal::Refused => format!("the server refuses it: {short}"),
        Refusal::Other => short,
    };
    (kind, line)
}

/// What is not said of a connection that fails: it may be the one to a proxy. Which one the variable
/// names is not told, since that may have a password.
fn through_proxy(said: &str, is_set: impl Fn(&str) -> bool) -> String {
    let of_scheme = match said.contains("https://") {
        true => ["https_proxy", "HTTPS_PROXY"],
        false => ["http_proxy", "HTTP_PROXY"],
    };
    let mut names = of_scheme.into_iter().chain(["all_proxy", "ALL_PROXY"]);
    let found = names.find(|name| is_set(name));
    let told = |name| {
        format!("; {name} is set, so it is asked through that proxy, unless NO_PROXY names it")
    };
    found.map(told).unwrap_or_default()
}

fn chain(error: &Error) -> String {
    let mut said = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let text = error.to_string();
        if !said.contains(&text) {
            said.push_str(": ");
            said.push_str(&text);
        }
        source = error.source();
    }
    said
}

fn is_of_keys(said: &str) -> bool {
    let code = element(said, "Code").unwrap_or_default();
    ["InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken"].contains(&code)
}

fn kind(error: &Error, said: &str) -> Refusal {
    let code = element(said, "Code").unwrap_or_default();
    let has = |word: &str| said.contains(word);
    match code {
        "RequestTimeTooSkewed" | "RequestExpired" => return Refusal::Clock,
        "NoSuchBucket" => return Refusal::NoBucket,
        "AuthorizationHeaderMalformed" | "PermanentRedirect" | "TemporaryRedirect" => {
            return Refusal::Region;
        }
        "SlowDown" | "TooManyRequests" | "Throttling" => return Refusal::Slower,
        "InvalidAccessKeyId" | "SignatureDoesNotMatch" | "AccessDenied" | "ExpiredToken" => {
            return Refusal::Denied;
        }
        // A request that came in part, whatever its status.
        "RequestTimeout" | "IncompleteBody" | "InternalError" => return Refusal::Unreachable,
        "NotImplemented" => return Refusal::Unsupported,
        _ => {}
    }
    if has("169.254.169.254") || has("security-credentials") {
        return Refusal::NoKeys;
    }
    if has("certificate") {
        return Refusal::Forged;
    }
    if has("without LOCATION") || has("301 Moved") {
        return Refusal::Region;
    }
    if has("429 Too Many") || has("503 Service Unavailable") {
        return Refusal::Slower;
    }
    match error {
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => Refusal::Denied,
        Error::NotImplemented { .. } | Error::NotSupported { .. } => Refusal::Unsupported,
        Error::Generic { store: "S3", .. } => match status(said) {
            Some(501) => Refusal::Unsupported,
            Some(400..=407 | 409..=428 | 430..=499) => Refusal::Refused,
            _ => Refusal::Unreachable,
        },
        _ => Refusal::Other,
    }
}

/// What the server answered with, if it did.
fn status(said: &str) -> Option<u16> {
    let (_, answered) = said.split_once("status code: ")?;
    answered.get(..3)?.parse().ok()
}

/// The text of an element of the server's XML.
fn element<'a>(said: &'a str, name: &str) -> Option<&'a str> {
    let begin = said.find(&format!("<{name}>"))? + name.len() + 2;
    let length = said[begin..].find("</")?;
    Some(&said[begin..begin + length])
}

/// One line: the server's own message if it has one.
fn short(said: &str) -> String {
    if let (Some(code), Some(message)) = (element(said, "Code"), element(said, "Message")) {
        return format!("{code}: {message}");
    }
    let line = said.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(300) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(status: &str, body: &str) -> Error {
        let text = format!("Server returned non-2xx status code: {status}: {body}");
        Error::Generic { store: "S3", source: text.into() }
    }

    #[test]
    fn what_may_be_a_proxys_trouble_names_the_variable_that_sets_it() {
        let of = |url: &str, set: &'static str| {
            through_proxy(&format!("performing PUT {url}/b: refused"), |name| name == set)
        };
        assert!(of("https://s3", "HTTPS_PROXY").contains("HTTPS_PROXY is set"));
        assert!(of("http://s3", "http_proxy").contains("http_proxy is set"));
        assert!(of("http://s3", "ALL_PROXY").contains("ALL_PROXY is set"));
        assert_eq!(of("https://s3", "http_proxy") + &of("http://s3", "none"), "");
    }

    fn code(code: &str, more: &str) -> Error {
        let body = format!("<Error><Code>{code}</Code><Message>m</Message>{more}</Error>");
        answered("400 Bad Request", &body)
    }

    #[test]
    fn each_answer_of_a_server_has_its_kind_and_remedy() {
        let skewed = code("RequestTimeTooSkewed", "<ServerTime>2026-11-25T03:00:00Z</ServerTime>");
        for (error, kind, words) in [
            (skewed, Refusal::Clock, "2026-11-25T03:00:00Z"),
            (code("NoSuchBucket", ""), Refusal::NoBucket, "no such bucket"),
            (
                code("AuthorizationHeaderMalformed", "<Region>eu-west-1</Region>"),
                Refusal::Region,
                "AWS_REGION=eu-west-1",
            ),
            (code("SlowDown", ""), Refusal::Slower, "fewer requests"),
            (code("AccessDenied", ""), Refusal::Denied, "see the bucket's policy"),
            (code("SignatureDoesNotMatch", ""), Refusal::Denied, "m; correct AWS_ACCESS_KEY_ID"),
            (answered("429 Too Many Requests", ""), Refusal::Slower, "429"),
            (answered("500 Internal Server Error", ""), Refusal::Unreachable, "500"),
            (answered("501 Not Implemented", ""), Refusal::Unsupported, "If-None-Match"),
            (code("NotImplemented", ""), Refusal::Unsupported, "If-Match"),
            (answered("400 Bad Request", ""), Refusal::Refused, "400 Bad Request"),
            (answered("405 Method Not Allowed", ""), Refusal::Refused, "refuses it"),
            (code("InvalidRequest", ""), Refusal::Refused, "InvalidRequest: m"),
            (code("RequestTimeout", ""), Refusal::Unreachable, "RequestTimeout"),
            (answered("408 Request Timeout", ""), Refusal::Unreachable, "408"),
            (answered("x", "connection reset by peer"), Refusal::Unreachable, "reset"),
            (
                answered("x", "invalid peer certificate: UnknownIssuer"),
                Refusal::Forged,
                "authority",
            ),
            (answered("x", "http://169.254.169.254/latest"), Refusal::NoKeys, "AWS_ACCESS_KEY_ID"),
        ] {
            let (found, line) = refusal(&error);
            assert_eq!(found, kind, "{line}");
            assert!(line.contains(words), "{line}");
            assert_eq!(line.lines().count(), 1);
        }
    }
}
