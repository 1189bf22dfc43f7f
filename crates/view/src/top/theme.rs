//! Colours and signs: 16 colours at most, none with NO_COLOR, ASCII where UTF-8 is not to be had.

use ratatui::style::{Color, Modifier, Style};

/// What a piece of text says, whatever it looks like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    #[default]
    Plain,
    /// Of less importance: labels, closed connections.
    Dim,
    Strong,
    Accent,
    Warning,
    Bad,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Theme {
    pub colour: bool,
    pub ascii: bool,
}

impl Theme {
    /// From the environment: NO_COLOR (any value but the empty one), then the locale's charset by
    /// POSIX precedence LC_ALL, LC_CTYPE, LANG.
    pub fn from_env(force_ascii: bool) -> Theme {
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set);
        Theme {
            colour: set("NO_COLOR").is_none(),
            ascii: force_ascii || !locale.is_some_and(|name| is_utf8(&name)),
        }
    }

    pub fn style(self, tone: Tone) -> Style {
        let style = Style::new();
        match (tone, self.colour) {
            (Tone::Plain, _) => style,
            (Tone::Dim, true) => style.fg(Color::DarkGray),
            (Tone::Dim, false) => style.add_modifier(Modifier::DIM),
            (Tone::Strong, _) => style.add_modifier(Modifier::BOLD),
            (Tone::Accent, true) => style.fg(Color::Cyan),
            (Tone::Accent, false) => style,
            (Tone::Warning, true) => style.fg(Color::Yellow),
            (Tone::Warning, false) => style.add_modifier(Modifier::BOLD),
            (Tone::Bad, true) => style.fg(Color::Red).add_modifier(Modifier::BOLD),
            (Tone::Bad, false) => style.add_modifier(Modifier::BOLD | Modifier::UNDERLINED),
        }
    }

    /// The Unicode sign, or its ASCII stand-in.
    pub fn sign(self, unicode: &'static str, ascii: &'static str) -> &'static str {
        if self.ascii { ascii } else { unicode }
    }

    /// A bar of `share` (0 to 1) in one character; never empty.
    pub fn bar(self, share: f64) -> char {
        const UNICODE: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        const ASCII: [char; 8] = ['_', '.', '-', ':', '=', '+', '*', '#'];
        let level = (share.clamp(0.0, 1.0) * 8.0).ceil().max(1.0) as usize - 1;
        if self.ascii { ASCII[level] } else { UNICODE[level] }
    }
}

fn is_utf8(locale: &str) -> bool {
    let charset = locale.split('.').nth(1).unwrap_or_default().to_ascii_lowercase();
    charset.starts_with("utf-8") || charset.starts_with("utf8")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_charset_of_a_locale() {
        for name in ["C.UTF-8", "de_DE.utf8", "ca_ES.UTF-8@valencia"] {
            assert!(is_utf8(name), "{name}");
        }
        for name in ["C", "POSIX", "en_US.ISO-8859-1", "de_DE"] {
            assert!(!is_utf8(name), "{name}");
        }
    }

    #[test]
    fn no_colour_means_no_colour() {
        let theme = Theme { colour: false, ascii: true };
        for tone in [Tone::Dim, Tone::Accent, Tone::Warning, Tone::Bad, Tone::Strong] {
            assert_eq!(theme.style(tone).fg, None);
        }
    }

    #[test]
    fn a_full_bar_is_the_highest_and_a_small_one_is_visible() {
        let theme = Theme { colour: true, ascii: false };
        assert_eq!((theme.bar(0.0), theme.bar(1.0), theme.bar(f64::NAN)), ('▁', '█', '▁'));
    }
}
