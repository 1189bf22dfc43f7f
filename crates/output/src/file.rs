//! One place decides what happens to the path that a user names as an output.

use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::{self, BufWriter, Read, Write};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use tempfile::{NamedTempFile, TempPath};

use crate::exit::noted;
use crate::unfinished::{self, UnderWay};

const BUFFER: usize = 1 << 18;
/// Letters that tell unfinished files of one path apart.
const RANDOM: usize = 6;

/// What to do with a regular file that is there already.
#[derive(Clone, Copy, Debug)]
pub enum Replace {
    Never,
    /// Only if its first bytes hold this signature: then it is one of ours.
    Ours(&'static str),
    Always,
}

/// An output under way. Nothing of it is at its path before [`Output::finish`], except in what is
/// no regular file: pipes and devices are written into, never replaced.
pub struct Output {
    sink: Sink,
    name: String,
}

enum Sink {
    Stream(BufWriter<File>),
    File {
        temporary: BufWriter<File>,
        /// Where that is until it is whole: removed when it is dropped.
        place: TempPath,
        path: PathBuf,
        may_replace: bool,
        /// Until it is in its place, or removed: dropped after `place`.
        under_way: UnderWay,
    },
}

impl Output {
    /// Opens `path` for writing; `-` is the standard output.
    ///
    /// # Errors
    /// If `path` is one of the `inputs`, a directory or a socket, a file that is not to be
    /// replaced, or cannot be written.
    pub fn open(path: &Path, inputs: &[&Path], replace: Replace) -> Result<Output> {
        Output::open_as(path, inputs, replace, None)
    }

    /// The same for what others may not read: a file is for its owner alone, whoever could read the
    /// one that it replaces.
    ///
    /// # Errors
    /// Those of [`Output::open`].
    pub fn open_private(path: &Path, inputs: &[&Path], replace: Replace) -> Result<Output> {
        Output::open_as(path, inputs, replace, Some(0o600))
    }

    fn open_as(
        path: &Path,
        inputs: &[&Path],
        replace: Replace,
        mode: Option<u32>,
    ) -> Result<Output> {
        let name = name(path);
        let sink = match pipe_or_device(path, inputs)? {
            Some(file) => Sink::Stream(BufWriter::with_capacity(BUFFER, file)),
            None => Sink::at(path, inputs, replace, mode, &name)?,
        };
        Ok(Output { sink, name })
    }

    /// Writes all of it, as [`Output::open`] and [`Output::finish`] do.
    ///
    /// # Errors
    /// Theirs.
    pub fn write_all_to(
        path: &Path,
        inputs: &[&Path],
        replace: Replace,
        bytes: &[u8],
    ) -> Result<()> {
        let mut output = Output::open(path, inputs, replace)?;
        output.write_all(bytes).with_context(|| format!("cannot write {}", output.name))?;
        output.finish()
    }

    /// Writes all of it in the place of what is at `path`, with these permissions.
    ///
    /// # Errors
    /// Those of [`Output::open`] and [`Output::finish`].
    pub fn write_all_with(path: &Path, mode: u32, bytes: &[u8]) -> Result<()> {
        let mut output = Output::open(path, &[], Replace::Always)?;
        output
            .set_mode(mode)
            .and_then(|()| output.write_all(bytes))
            .with_context(|| format!("cannot write {}", output.name))?;
        output.finish()
    }

    /// Puts a file in its place, whole; ends what was written into a pipe or device.
    ///
    /// # Errors
    /// If the rest cannot be written, or a file appeared at the path meanwhile.
    pub fn finish(self) -> Result<()> {
        let name = self.name;
        let done = match self.sink {
            Sink::Stream(mut stream) => stream.flush().map_err(noted),
            Sink::File { temporary, place, path, may_replace, under_way: _under_way } => {
                put_in_place(temporary, place, &path, may_replace)
            }
        };
        done.with_context(|| format!("cannot write {name}"))
    }

    /// Only a file has them.
    fn set_mode(&self, mode: u32) -> io::Result<()> {
        match &self.sink {
            Sink::Stream(_) => Ok(()),
            Sink::File { temporary, .. } => {
                temporary.get_ref().set_permissions(fs::Permissions::from_mode(mode))
            }
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.sink {
            Sink::Stream(stream) => stream.write(bytes).map_err(noted),
            Sink::File { temporary, .. } => temporary.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.sink {
            Sink::Stream(stream) => stream.flush().map_err(noted),
            Sink::File { temporary, .. } => temporary.flush(),
        }
    }
}

impl Sink {
    fn at(
        path: &Path,
        inputs: &[&Path],
        replace: Replace,
        mode: Option<u32>,
        name: &str,
    ) -> Result<Sink> {
        let Ok(found) = fs::metadata(path) else {
            return Sink::file(followed(path), false, mode.unwrap_or(0o666), name);
        };
        apart(&found, inputs, name)?;
        may_replace(path, replace, name)?;
        let path = fs::canonicalize(path).with_context(|| format!("cannot follow {name}"))?;
        let mode = mode.unwrap_or(found.permissions().mode());
        Sink::file(path, true, mode, name)
    }

    fn file(path: PathBuf, may_replace: bool, mode: u32, name: &str) -> Result<Sink> {
        let directory = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        if !directory.is_dir() {
            bail!("cannot write {name}: there is no folder {}", directory.display());
        }
        let prefix = prefix(&path);
        let is_unfinished = |name: &[u8]| {
            name.strip_prefix(prefix.as_bytes()).is_some_and(|random| random.len() == RANDOM)
        };
        unfinished::remove_left(directory, is_unfinished);
        let permissions = fs::Permissions::from_mode(mode & 0o777);
        let mut builder = tempfile::Builder::new();
        builder.prefix(&prefix).rand_bytes(RANDOM).permissions(permissions);
        let (file, place) =
            unfinished::begin(|| builder.tempfile_in(directory).map(NamedTempFile::into_parts))
                .map_err(without_place)
                .with_context(|| format!("cannot write {name}"))?;
        let under_way = UnderWay::note(&place);
        let temporary = BufWriter::with_capacity(BUFFER, file);
        Ok(Sink::File { temporary, place, path, may_replace, under_way })
    }
}

/// Why it cannot be made, without its name, which nobody gave it.
fn without_place(error: io::Error) -> io::Error {
    let said = error.to_string();
    let why = said.split(" at path \"").next().unwrap_or_default();
    io::Error::new(error.kind(), why)
}

/// How the name of an unfinished file of this path begins; random letters end it. The longest names
/// have no room for it and are cut.
fn prefix(path: &Path) -> OsString {
    let name = path.file_name().unwrap_or_default().as_bytes();
    let name = &name[..name.len().min(200)];
    OsString::from_vec([b".", name, b".transom-"].concat())
}

/// Opens what can only be written into: the standard output (`-`), a pipe, a device. `None` if
/// `path` is, or would be, a regular file.
///
/// # Errors
/// If it is a directory or a socket, cannot be written, or leads back to an input.
pub fn pipe_or_device(path: &Path, inputs: &[&Path]) -> Result<Option<File>> {
    let name = name(path);
    if let Some(descriptor) = own_descriptor(path) {
        let file = descriptor.try_clone_to_owned().map(File::from);
        let file = file.with_context(|| format!("cannot write {name}"))?;
        apart(&file.metadata()?, inputs, &name)?;
        return Ok(Some(file));
    }
    let kind = match fs::metadata(path) {
        Ok(found) => found.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("cannot write {name}")),
    };
    if kind.is_dir() {
        bail!("{name} is a directory: name a file in it");
    }
    if kind.is_socket() {
        bail!("{name} is a socket: name a file, a pipe or - for the standard output");
    }
    if kind.is_file() {
        return Ok(None);
    }
    open_stream(path, kind.is_fifo(), &name).map(Some)
}

/// Whether `path` is a regular file or could become one: nothing that is only written into.
pub fn is_file_or_new(path: &Path) -> bool {
    own_descriptor(path).is_none()
        && fs::metadata(path).map_or(true, |found| found.file_type().is_file())
}

/// Whether what is written there goes to the standard output, by whatever name.
pub fn is_standard_output(path: &Path) -> bool {
    own_descriptor(path).is_some_and(|descriptor| descriptor.as_raw_fd() == 1)
}

fn name(path: &Path) -> String {
    if path == Path::new("-") { "the standard output".into() } else { path.display().to_string() }
}

/// `-`, `/dev/stdout` and the like name a descriptor that we have. It must not be opened anew:
/// behind it may be a file, which would then be written from its beginning, or replaced.
fn own_descriptor(path: &Path) -> Option<BorrowedFd<'static>> {
    let number = match path.to_str()? {
        "-" | "/dev/stdout" => 1,
        "/dev/stderr" => 2,
        other => {
            let folders = ["/dev/fd/", "/proc/self/fd/"];
            let number = folders.iter().find_map(|folder| other.strip_prefix(folder))?;
            number.parse().ok()?
        }
    };
    let is_open = number == 1 || fs::symlink_metadata(format!("/proc/self/fd/{number}")).is_ok();
    // SAFETY: it is open, and nobody here closes the descriptors that the process was given.
    is_open.then(|| unsafe { BorrowedFd::borrow_raw(number) })
}

/// The file that a link without a target would make.
fn followed(path: &Path) -> PathBuf {
    match fs::read_link(path) {
        Ok(target) if target.is_absolute() => target,
        Ok(target) => path.parent().unwrap_or(Path::new("")).join(target),
        Err(_) => path.to_owned(),
    }
}

fn apart(output: &Metadata, inputs: &[&Path], name: &str) -> Result<()> {
    if !output.file_type().is_file() {
        return Ok(());
    }
    for input in inputs {
        let Ok(found) = fs::metadata(input) else { continue };
        if (found.dev(), found.ino()) == (output.dev(), output.ino()) {
            bail!("{name} is the input {}: name another output", input.display());
        }
    }
    Ok(())
}

/// A device or a FIFO. A FIFO that nobody reads yet is waited for, as a shell does, but not in
/// silence.
fn open_stream(path: &Path, is_fifo: bool, name: &str) -> Result<File> {
    let open = |flags: OFlags| {
        fs::OpenOptions::new().write(true).custom_flags(flags.bits().cast_signed()).open(path)
    };
    let opened = match is_fifo.then(|| open(OFlags::NONBLOCK)) {
        // Closed again, it would end what its reader reads.
        Some(Ok(file)) => fcntl_setfl(&file, OFlags::empty()).map(|()| file).map_err(Into::into),
        Some(Err(error)) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => {
            crate::note!("transom: waiting for a reader of {name}");
            open(OFlags::empty())
        }
        Some(Err(error)) => Err(error),
        None => open(OFlags::NOCTTY),
    };
    opened.with_context(|| format!("cannot write {name}"))
}

fn may_replace(path: &Path, replace: Replace, name: &str) -> Result<()> {
    let signature = match replace {
        Replace::Always => return Ok(()),
        Replace::Never => bail!("{name} exists; --force replaces it"),
        Replace::Ours(signature) => signature.as_bytes(),
    };
    let mut head = Vec::new();
    File::open(path)
        .and_then(|file| file.take(1000).read_to_end(&mut head))
        .with_context(|| format!("cannot read {name}"))?;
    if !head.is_empty() && !head.windows(signature.len()).any(|bytes| bytes == signature) {
        bail!("{name} exists and was not made by this command; --force replaces it");
    }
    Ok(())
}

fn put_in_place(
    temporary: BufWriter<File>,
    place: TempPath,
    path: &Path,
    may_replace: bool,
) -> io::Result<()> {
    let temporary = temporary.into_inner().map_err(io::IntoInnerError::into_error)?;
    temporary.sync_all()?;
    let done = if may_replace { place.persist(path) } else { place.persist_noclobber(path) };
    done.map_err(|error| error.error)
}

#[cfg(test)]
mod tests;
