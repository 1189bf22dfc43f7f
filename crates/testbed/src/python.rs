//! Python packages that tests read our files with.

use std::path::{Path, PathBuf};
use std::process::Command;

use transom_machine::lock;

/// The interpreter of a virtual environment in `folder` that has this package. It comes from the
/// package index, once.
///
/// # Errors
/// Why there is none: no Python, no way to the index.
pub fn python_with(package: &str, folder: &Path) -> Result<PathBuf, String> {
    python_for(package, &[package], package, folder)
}

/// The same for several packages, in an environment of this name; `imports` are the modules that
/// must be there.
///
/// # Errors
/// As of [`python_with`].
pub fn python_for(
    name: &str,
    packages: &[&str],
    imports: &str,
    folder: &Path,
) -> Result<PathBuf, String> {
    // Tests that run at the same time want the same environment, also those of other programs.
    let lock = folder.join(format!("{name}.lock"));
    let _turn = lock::hold(&lock).map_err(|error| error.to_string())?;
    let environment = folder.join(name);
    let python = environment.join("bin/python");
    let run = |command: &mut Command| match command.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Err(error.to_string()),
    };
    let works = || run(Command::new(&python).args(["-c", &format!("import {imports}")]));
    if works().is_ok() {
        return Ok(python);
    }
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&environment))?;
    run(Command::new(&python).args(["-m", "pip", "install", "--quiet"]).args(packages))?;
    works().map(|()| python)
}
