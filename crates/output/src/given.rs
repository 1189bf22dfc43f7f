//! Small files that people write: settings, keys, policies.

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result};
use std::path::Path;

const MOST_BYTES: u64 = 1 << 20;

/// The text of a file that somebody gave, which need not be the one that was meant: a device may
/// never end.
///
/// # Errors
/// It cannot be read, is no text, or has more than 1 MiB.
pub fn text_of(path: &Path) -> Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(Error::new(ErrorKind::FileTooLarge, "it has more than 1 MiB"));
    }
    String::from_utf8(bytes).map_err(|_| Error::new(ErrorKind::InvalidData, "it is no text"))
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
