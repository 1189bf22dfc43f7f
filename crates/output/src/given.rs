//! Small files that people write: settings, keys, policies.

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result};
use std::path::Path;

const MOST_MIB: u64 = 1;

/// The text of a file that somebody gave, which need not be the one that was meant: a device may
/// never end.
///
/// # Errors
/// It cannot be read, is no text, or has more than 1 MiB.
pub fn text_of(path: &Path) -> Result<String> {
    text_up_to(path, MOST_MIB)
}

/// The same for a file that may be larger.
///
/// # Errors
/// It cannot be read, is no text, or has more than so many MiB.
pub fn text_up_to(path: &Path, mib: u64) -> Result<String> {
    String::from_utf8(bytes_up_to(path, mib)?)
        .map_err(|_| Error::new(ErrorKind::InvalidData, "it is no text"))
}

/// The same for one that may be no text.
///
/// # Errors
/// It cannot be read, or has more than so many MiB.
pub fn bytes_up_to(path: &Path, mib: u64) -> Result<Vec<u8>> {
    let most = mib << 20;
    let mut bytes = Vec::new();
    File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(Error::new(ErrorKind::FileTooLarge, format!("it has more than {mib} MiB")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_ends_is_refused() {
        let refusal = text_of(Path::new("/dev/zero")).unwrap_err();
        assert_eq!(refusal.to_string(), "it has more than 1 MiB");
        let mut file = tempfile::NamedTempFile::new().unwrap();
        std::io::Write::write_all(&mut file, b"level = 1\n").unwrap();
        assert_eq!(text_of(file.path()).unwrap(), "level = 1\n");
        std::fs::write(file.path(), [0xff]).unwrap();
        assert_eq!(text_of(file.path()).unwrap_err().to_string(), "it is no text");
        let missing = text_of(Path::new("/no/such/file")).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
    }
}
