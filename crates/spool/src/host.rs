//! What a machine is called in the tables: part of the names of its objects, by which a bucket's
//! policy lets it write below its own name only.

use anyhow::{Context, Result, ensure};

const MOST: usize = 253;

/// # Errors
/// It could not be told from other machines, or is no part of an object's name.
pub fn host_name(given: Option<&str>) -> Result<String> {
    let own = rustix::system::uname();
    let name = match given {
        Some(name) => name,
        None => own.nodename().to_str().context("the host name is not UTF-8: give --host NAME")?,
    };
    ensure!(
        !name.is_empty() && name.len() <= MOST && name.chars().all(is_plain),
        "'{name}' cannot be a part of an object's name: give --host NAME of letters, digits, '.', \
         '_' and '-', at most {MOST}"
    );
    ensure!(
        given.is_some() || !["localhost", "(none)"].contains(&name),
        "this machine is called {name}, as others may be: give --host NAME"
    );
    Ok(name.to_owned())
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || ['.', '_', '-'].contains(&c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_be_another_object_is_refused() {
        for name in ["", "a/b", "a b", "*", "ä", &"x".repeat(254)] {
            let refusal = host_name(Some(name)).unwrap_err().to_string();
            assert!(refusal.contains("--host NAME"), "{refusal}");
        }
        assert_eq!(host_name(Some("web-1.example")).unwrap(), "web-1.example");
    }
}
