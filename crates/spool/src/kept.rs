//! The rows that a spool still has of a time, for whoever may read its files.

use std::fs::File;
use std::io::ErrorKind;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::table::read_having;
use crate::{FileName, Row, Table};

/// No other file may be read either.
#[derive(Debug)]
pub struct Refused(PathBuf);

impl Refused {
    pub fn at(path: &Path) -> Refused {
        Refused(path.to_owned())
    }
}

impl std::error::Error for Refused {}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = self.0.display();
        write!(
            f,
            "{path} may not be read by you: ask as root, or as the user that the agent runs as"
        )
    }
}

/// Rows of a table, and the files of it that cannot be read.
pub type Kept<T> = (Vec<T>, Vec<(FileName, anyhow::Error)>);

/// Of files that were begun in this time, those that `keep` wants; `having` names a column's value
/// that they all have, so that less is read. A file that cannot be read leaves the others as they are.
///
/// # Errors
/// [`Refused`].
pub fn rows_of<T: Row>(
    files: &[(FileName, PathBuf, u64)],
    table: Table,
    begun: &RangeInclusive<String>,
    having: Option<(&str, i64)>,
    keep: impl Fn(&T) -> bool,
) -> Result<Kept<T>> {
    let (mut all, mut damaged) = (Vec::new(), Vec::new());
    let wanted = |name: &FileName| name.table() == table && begun.contains(&name.begun);
    for (name, path, _) in files.iter().filter(|(name, ..)| wanted(name)) {
        match having_of_file::<T>(path, having) {
            Ok(rows) => all.extend(rows.into_iter().filter(|row| keep(row))),
            Err(error) if error.is::<Refused>() => return Err(error),
            Err(error) => damaged.push((name.clone(), error)),
        }
    }
    Ok((all, damaged))
}

/// # Errors
/// [`Refused`], or it is damaged; one that the agent removes meanwhile has no rows.
pub fn of_file<T: Row>(path: &Path) -> Result<Vec<T>> {
    having_of_file(path, None)
}

fn having_of_file<T: Row>(path: &Path, having: Option<(&str, i64)>) -> Result<Vec<T>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            return Err(Refused::at(path).into());
        }
        Err(error) => return Err(error).with_context(|| path.display().to_string()),
    };
    read_having(file, having).with_context(|| path.display().to_string())
}
