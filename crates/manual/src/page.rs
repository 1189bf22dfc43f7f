//! One manual page: what clap_mangen makes, and the examples as they are typed.

use std::time::SystemTime;

use chrono::DateTime;
use clap::Command;
use clap_mangen::Man;

/// `transom-lab-run`: what `man` is given.
pub fn name(command: &Command) -> String {
    command.get_display_name().unwrap_or(command.get_name()).replace(' ', "-")
}

pub fn text(command: &Command, version: &str) -> String {
    let name = name(command);
    // The page is one line of NAME for `whatis`, so a name has no space.
    let command = command.clone().display_name(&name);
    let examples = command.get_after_help().map(ToString::to_string);
    let has_options = command.get_arguments().any(|option| !option.is_hide_set());
    let has_below = command.get_subcommands().any(|below| !below.is_hide_set());
    let man = Man::new(command)
        .title(name.to_uppercase())
        .date(date())
        .source(format!("transom {version}"))
        .manual("Transom");
    let mut page = Vec::new();
    let to = &mut page;
    let mut sections = || -> std::io::Result<()> {
        man.render_title(to)?;
        man.render_name_section(to)?;
        man.render_synopsis_section(to)?;
        man.render_description_section(to)?;
        if has_options {
            man.render_options_section(to)?;
        }
        if has_below {
            man.render_subcommands_section(to)?;
        }
        Ok(())
    };
    sections().expect("memory takes everything");
    if let Some(examples) = examples {
        page.extend_from_slice(verbatim(&examples).as_bytes());
    }
    // clap_mangen puts an empty line between two breaks above possible values: `mandoc` objects.
    String::from_utf8(page)
        .expect("text")
        .replace("\n.br\n\n.br\n", "\n\n.br\n")
        .replace("\n\n.br\n", "\n.br\n")
}

/// Of the sources, where the build says it: https://reproducible-builds.org/specs/source-date-epoch/
fn date() -> String {
    let named = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|text| text.parse().ok());
    let now = || SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs() as i64);
    let time = DateTime::from_timestamp(named.unwrap_or_else(now), 0).unwrap_or_default();
    time.format("%Y-%m-%d").to_string()
}

/// What a help ends with: a heading, and lines that keep their breaks.
fn verbatim(text: &str) -> String {
    let (heading, lines) = match text.split_once(":\n") {
        Some((heading, lines)) if !heading.contains('\n') => (heading.to_uppercase(), lines),
        _ => ("NOTES".to_owned(), text),
    };
    let escaped: Vec<String> = lines.lines().map(escape).collect();
    format!(".SH {heading}\n.nf\n{}\n.fi\n", escaped.join("\n"))
}

/// A line begins with neither a control character nor an empty line, and hyphens can be copied.
fn escape(line: &str) -> String {
    let text = line.replace('\\', "\\e").replace('-', "\\-");
    match text.as_bytes().first() {
        None => ".sp".to_owned(),
        Some(b'.' | b'\'') => format!("\\&{text}"),
        Some(_) => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_keep_their_lines_and_can_be_copied() {
        let page = verbatim("Examples:\n  a --b\n\n.c \\n");
        assert_eq!(page, ".SH EXAMPLES\n.nf\n  a \\-\\-b\n.sp\n\\&.c \\en\n.fi\n");
    }

    #[test]
    fn a_page_has_the_name_that_man_is_given() {
        let command = Command::new("transom agent").about("Rows").version("1");
        let page = text(&command, "1");
        assert_eq!(name(&command), "transom-agent");
        assert!(page.contains("transom\\-agent \\- Rows"), "{page}");
    }
}
