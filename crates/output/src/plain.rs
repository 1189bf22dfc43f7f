//! Text that others wrote, for a terminal.

use std::borrow::Cow;

/// One line of it, without anything that a terminal would obey: control characters (C0, DEL, C1),
/// and so new lines, too, are `?`. Names of hosts and programs, reasons and the like are in rows
/// and answers of other machines, which may write there what they want.
pub fn plain(text: &str) -> Cow<'_, str> {
    if text.contains(char::is_control) {
        text.replace(char::is_control, "?").into()
    } else {
        text.into()
    }
}

/// The same of a text that may have lines.
pub(crate) fn plain_lines(text: &str) -> String {
    text.split('\n').map(plain).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_an_error_stay_lines() {
        assert_eq!(plain_lines("no policy:\n  \u{1b}[1Aline 2\n"), "no policy:\n  ?[1Aline 2\n");
    }

    #[test]
    fn what_others_wrote_moves_no_cursor_and_begins_no_line() {
        assert_eq!(plain("web\u{1b}[2J-1\r\n\0\tx"), "web?[2J-1????x");
        assert_eq!(plain("\u{7f}\u{80}\u{9b}31m\u{9f}"), "???31m?", "DEL, and those of 8 bits");
        for text in ["", "web-1", "größer – 1 µs\u{a0}", "接続"] {
            assert!(matches!(plain(text), Cow::Borrowed(same) if same == text), "{text}");
        }
    }
}
