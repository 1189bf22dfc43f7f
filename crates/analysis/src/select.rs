//! Which connections a user means, in every command.

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use transom_event::{Endpoints, Prefix, Token, kept_name};

/// What a connection can be named by.
#[derive(Clone, Copy, Debug)]
pub struct Identity<'a> {
    pub cookie: u64,
    /// 0 = not known.
    pub tgid: u32,
    /// Empty when not known.
    pub program: &'a str,
    pub ends: Option<Endpoints>,
    pub mptcp: Option<Token>,
}

impl fmt::Display for Identity<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.program.is_empty() {
            write!(f, "{} ", self.program)?;
        }
        if let Some(ends) = self.ends {
            write!(f, "{ends} ")?;
        }
        write!(f, "(cookie {})", self.cookie)
    }
}

/// Something that has an identity.
pub trait Identified {
    fn identity(&self) -> Identity<'_>;
}

/// How the command line names connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// `7`: a socket cookie; if there is none, an MPTCP token, a port, or a process.
    Number(u64),
    /// `#7`
    Cookie(u64),
    /// `:5201`, `10.0.0.1`, `10.0.0.0/24`, `10.0.`, `[2001:db8::1]:443`: either end.
    Either(End),
    /// `LOCAL-REMOTE` or `LOCAL > REMOTE`; one of them may be missing.
    Ends(End, End),
    /// Part of the name of a program, or an MPTCP token.
    Word(String),
}

/// What is said of one end of a connection; what is `None` may be anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct End {
    pub network: Option<Prefix>,
    pub port: Option<u16>,
}

/// A text that names no connection whatever the recording holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadSelector(String);

impl fmt::Display for BadSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}; a connection is named by part of its program's name, its cookie (#7), an address \
             (10.0.0.1, 10.0.0.0/24, 2001:db8::1), a port (:5201), LOCAL-REMOTE, or its MPTCP token",
            self.0
        )
    }
}

impl std::error::Error for BadSelector {}

impl FromStr for Selector {
    type Err = BadSelector;

    fn from_str(text: &str) -> Result<Selector, BadSelector> {
        let text = text.trim();
        if text.is_empty() {
            return Err(BadSelector("an empty name".to_owned()));
        }
        if let Some(cookie) = text.strip_prefix('#') {
            let bad = |_| BadSelector(format!("{cookie:?} is no socket cookie"));
            return cookie.parse().map(Selector::Cookie).map_err(bad);
        }
        if let Ok(number) = text.parse() {
            return Ok(Selector::Number(number));
        }
        if let Some((local, remote)) = text.split_once('>') {
            return Ok(Selector::Ends(end(local)?, end(remote)?));
        }
        // Names of programs and interfaces have hyphens, too.
        let both = |(at, _)| Some((end(&text[..at]).ok()?, end(&text[at + 1..]).ok()?));
        if let Some((local, remote)) = text.match_indices('-').find_map(both) {
            return Ok(Selector::Ends(local, remote));
        }
        match end(text) {
            Ok(end) => Ok(Selector::Either(end)),
            Err(error) if text.starts_with([':', '[']) || text.contains('/') => Err(error),
            Err(_) => Ok(Selector::Word(text.to_owned())),
        }
    }
}

fn end(text: &str) -> Result<End, BadSelector> {
    let text = without_interface(text.trim());
    let text = text.as_ref();
    let bad = || BadSelector(format!("{text:?} is no address and no port"));
    if text.is_empty() {
        return Ok(End::default());
    }
    if let Some(port) = text.strip_prefix(':')
        && !port.starts_with(':')
    {
        let bad = |_| BadSelector(format!("{port:?} is no port (1 to 65535)"));
        return Ok(End { network: None, port: Some(port.parse().map_err(bad)?) });
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(End { network: Some(Prefix::whole(address.ip())), port: Some(address.port()) });
    }
    if let Some((address, bits)) = text.split_once('/') {
        let prefix = format!("{}/{bits}", bare(address)).parse();
        let network = prefix.map_err(|error: String| BadSelector(format!("{text:?}: {error}")))?;
        return Ok(End { network: Some(network), port: None });
    }
    let address = bare(text).parse::<IpAddr>().map(Prefix::whole);
    let network = address.ok().or_else(|| Prefix::beginning(text));
    Ok(End { network: Some(network.ok_or_else(bad)?), port: None })
}

/// An address of link scope without its interface, which no trace has by name: `fe80::1%eth0`,
/// `[fe80::1%eth0]:443`, and `[fe80::1]%eth0:443` as `ss` prints it.
fn without_interface(text: &str) -> Cow<'_, str> {
    let Some((address, rest)) = text.split_once('%') else { return text.into() };
    if address.trim_matches(['[', ']']).parse::<Ipv6Addr>().is_err() {
        return text.into();
    }
    let behind = rest.find([']', ':', '/']).map_or("", |at| &rest[at..]);
    format!("{address}{behind}").into()
}

/// `[::1]` without its brackets.
fn bare(text: &str) -> &str {
    text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text)
}

impl End {
    fn matches(&self, end: SocketAddr) -> bool {
        self.port.is_none_or(|port| port == end.port())
            && self.network.is_none_or(|network| network.holds(end.ip()))
    }
}

impl Selector {
    /// Whether one connection is meant, whatever else there is.
    pub fn matches(&self, identity: &Identity) -> bool {
        (0..=LAST_MEANING).any(|meaning| self.means(meaning, identity))
    }

    /// The ones that are meant: a number is a port or a process only where it is no cookie.
    pub fn of<'a, T: Identified>(
        &self,
        items: impl IntoIterator<Item = &'a T> + Clone,
    ) -> Vec<&'a T> {
        let meant = |meaning| -> Vec<&T> {
            let all = items.clone().into_iter();
            all.filter(|item| self.means(meaning, &item.identity())).collect()
        };
        (0..=LAST_MEANING).map(meant).find(|found| !found.is_empty()).unwrap_or_default()
    }

    /// Whether it is meant by the first, second, … meaning of the text.
    fn means(&self, meaning: u8, identity: &Identity) -> bool {
        let either = |end: &End| {
            identity.ends.is_some_and(|ends| end.matches(ends.local) || end.matches(ends.remote))
        };
        match (self, meaning) {
            (Selector::Number(n) | Selector::Cookie(n), 0) => identity.cookie == *n,
            (Selector::Number(n), 1) => is_token(identity, &n.to_string()),
            (Selector::Number(n), 2) => {
                let port = u16::try_from(*n).ok();
                port.is_some() && either(&End { network: None, port })
            }
            (Selector::Number(n), 3) => *n != 0 && u64::from(identity.tgid) == *n,
            (Selector::Either(end), 0) => either(end),
            (Selector::Ends(local, remote), 0) => identity
                .ends
                .is_some_and(|ends| local.matches(ends.local) && remote.matches(ends.remote)),
            (Selector::Word(word), 0) => {
                let name = identity.program.to_lowercase();
                let kept = kept_name(word).to_lowercase();
                name.contains(&kept) || is_token(identity, word)
            }
            _ => false,
        }
    }
}

const LAST_MEANING: u8 = 3;

/// Leading zeros may be missing: `ss` leaves them out.
fn is_token(identity: &Identity, text: &str) -> bool {
    let token = identity.mptcp.map(|token| token.0);
    token.is_some() && u32::from_str_radix(text, 16).ok() == token
}

/// Says what there is when nothing is what was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoneMatches {
    wanted: String,
    others: Vec<String>,
    more: usize,
}

/// How many are listed.
const LISTED: usize = 8;

impl NoneMatches {
    /// That `wanted` means none of `items`.
    pub fn new<'a, T: Identified + 'a>(
        wanted: &str,
        items: impl IntoIterator<Item = &'a T>,
    ) -> NoneMatches {
        let mut items = items.into_iter();
        let others = items.by_ref().take(LISTED).map(|item| item.identity().to_string());
        NoneMatches { wanted: wanted.to_owned(), others: others.collect(), more: items.count() }
    }
}

impl fmt::Display for NoneMatches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no connection is {:?}", self.wanted)?;
        if self.others.is_empty() {
            return f.write_str(": there is none at all");
        }
        f.write_str("; there are")?;
        for other in &self.others {
            write!(f, "\n  {other}")?;
        }
        match self.more {
            0 => Ok(()),
            more => write!(
                f,
                "\nand {more} more with fewer bytes; transom explain FILE --all lists all"
            ),
        }
    }
}

impl std::error::Error for NoneMatches {}

/// Those of `items` that any of `wanted` means, in their order; all if nothing is wanted.
///
/// # Errors
/// One of `wanted` means none of them.
pub fn select<'a, T: Identified>(
    items: &'a [T],
    wanted: &[(String, Selector)],
) -> Result<Vec<&'a T>, NoneMatches> {
    if wanted.is_empty() {
        return Ok(items.iter().collect());
    }
    let mut chosen = std::collections::HashSet::new();
    for (text, selector) in wanted {
        let found = selector.of(items);
        if found.is_empty() {
            return Err(NoneMatches::new(text, items));
        }
        chosen.extend(found.into_iter().map(std::ptr::from_ref));
    }
    Ok(items.iter().filter(|&item| chosen.contains(&std::ptr::from_ref(item))).collect())
}
