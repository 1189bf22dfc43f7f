//! Boot and end: the host's table, its memory, its functions.

use std::ffi::{CStr, CString, c_char, c_void};
use std::io::{self, Write};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::Ordering;

use crate::clock::{Clock, SystemClock};
use crate::error::{Error, Result, check};
use crate::frame::{self, Frame};
use crate::kernel::Kernel;
use crate::nic::{self, Attached, NicId};
use crate::series::Series;
use crate::sys::{self, Library};
use crate::trace::{self, Events};

/// Gets the kernel's log: whole lines, with their time.
pub type Console = Box<dyn FnMut(&str) + Send>;

/// What a kernel is booted with.
pub struct Parameters {
    /// Which of the kernels that the program is linked with.
    pub series: Series,
    /// Bytes of memory of the library, at least 16 MiB: the limit of all buffers together.
    /// Taken from the host only where it is written to.
    pub memory: usize,
    /// All randomness of the library comes from here: ports, sequence numbers, keys. Never give the
    /// same twice where it matters.
    pub seed: [u8; sys::SEED_BYTES],
    /// The kernel's parameters (`thash_entries=…`, `loglevel=…`).
    pub command_line: String,
    pub clock: Box<dyn Clock>,
    pub console: Console,
}

impl Parameters {
    /// Linux 6.12, 256 MiB, the host's time, a seed from the host's kernel, warnings to stderr.
    ///
    /// # Errors
    /// The host's kernel gives no random bytes.
    pub fn from_host() -> io::Result<Self> {
        let mut seed = [0; sys::SEED_BYTES];
        // SAFETY: the buffer is as long as said.
        let n = unsafe { libc::getrandom(seed.as_mut_ptr().cast(), seed.len(), 0) };
        if n != seed.len() as isize {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            series: Series::default(),
            memory: 256 << 20,
            seed,
            command_line: "loglevel=4".to_owned(),
            clock: Box::<SystemClock>::default(),
            console: Box::new(|text| {
                let _ = io::stderr().write_all(text.as_bytes());
            }),
        })
    }
}

/// What the library's functions of the host work on. Reached only through a raw pointer: the
/// library calls back while it is called.
pub(crate) struct Host {
    pub clock: Box<dyn Clock>,
    pub console: Console,
    /// Sockets that the library named since the last turn.
    pub ready: Vec<u64>,
    /// Gets the events of TCP connections.
    pub events: Option<Events>,
    /// By cookie.
    pub nics: Vec<Option<Attached>>,
    pub library: &'static Library,
    /// What left interfaces of [`crate::FrameNic`] since it was last taken.
    pub frames: Vec<(NicId, Frame)>,
}

/// Memory of the library.
pub(crate) struct Memory {
    start: NonNull<c_void>,
    size: usize,
}

impl Memory {
    fn take(size: usize) -> Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping anywhere.
        let start = unsafe { libc::mmap(ptr::null_mut(), size, protection, flags, -1, 0) };
        match NonNull::new(start) {
            Some(start) if start.as_ptr() != libc::MAP_FAILED => {
                // SAFETY: the mapping is ours. Large pages save faults; if refused, it is as well.
                unsafe { libc::madvise(start.as_ptr(), size, libc::MADV_HUGEPAGE) };
                Ok(Self { start, size })
            }
            _ => Err(Error::new(libc::ENOMEM, "memory of the library")),
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this size, and the library has been halted.
        unsafe { libc::munmap(self.start.as_ptr(), self.size) };
    }
}

/// The right to be the one kernel of its series.
struct Place(&'static Library);

impl Place {
    fn take(series: Series) -> Result<Self> {
        let library = series.library()?;
        if library.taken.swap(true, Ordering::Acquire) {
            return Err(Error::new(
                libc::EBUSY,
                "boot: a kernel of this series runs in this process already",
            ));
        }
        Ok(Self(library))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.taken.store(false, Ordering::Release);
    }
}

/// All that must live as long as the library runs.
pub(crate) struct Running {
    pub host: *mut Host,
    table: *mut sys::HostOps,
    _memory: Memory,
    place: Place,
}

impl Running {
    fn boot(parameters: Parameters) -> Result<Self> {
        let place = Place::take(parameters.series)?;
        let command_line = CString::new(parameters.command_line)
            .map_err(|_| Error::new(libc::EINVAL, "command line"))?;
        let memory = Memory::take(parameters.memory)?;
        let Parameters { clock, console, .. } = parameters;
        let host = Host {
            clock,
            console,
            ready: Vec::new(),
            events: None,
            nics: Vec::new(),
            library: place.0,
            frames: Vec::new(),
        };
        let host = Box::into_raw(Box::new(host));
        let table = Box::into_raw(Box::new(sys::HostOps {
            host: host.cast(),
            memory: memory.start.as_ptr(),
            memory_size: memory.size,
            seed: parameters.seed,
            clock: now,
            wall_clock: wall,
            wait,
            console: write_console,
            panic: kernel_panic,
            socket_ready,
            nic_transmit: nic::transmit,
            frame_transmit: frame::transmit,
            trace: Some(trace::trace),
        }));
        let running = Self { host, table, _memory: memory, place };
        // SAFETY: table, host and memory live as long as `running`; whoever holds the place is alone.
        check(unsafe { running.library().boot(table, command_line.as_ptr()) } as isize, "boot")?;
        Ok(running)
    }
}

impl Running {
    pub(crate) fn library(&self) -> &'static Library {
        self.place.0
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        frame::forget_all(self.library());
        // SAFETY: after this the library touches neither memory nor host any more.
        unsafe {
            self.library().halt();
            drop(Box::from_raw(self.table));
            drop(Box::from_raw(self.host));
        }
    }
}

impl Kernel {
    /// Boots; returns when all is initialized and idle.
    ///
    /// # Errors
    /// `EBUSY`: another [`Kernel`] of the same series lives in this process. `EOPNOTSUPP`: the program
    /// is not linked with this series. `ENOMEM`: less memory than it needs.
    pub fn boot(parameters: Parameters) -> Result<Self> {
        Running::boot(parameters).map(Kernel::new)
    }
}

/// # Safety
/// `host` is what `Running::boot` put into the table, and no other reference to what is used of it
/// lives while the library runs.
unsafe fn host_of<'a>(host: *mut c_void) -> &'a mut Host {
    // SAFETY: as the caller promises.
    unsafe { &mut *host.cast() }
}

extern "C" fn now(host: *mut c_void) -> u64 {
    // SAFETY: called by the library.
    unsafe { host_of(host) }.clock.now()
}

extern "C" fn wall(host: *mut c_void) -> u64 {
    // SAFETY: called by the library.
    unsafe { host_of(host) }.clock.wall()
}

extern "C" fn wait(host: *mut c_void, until: u64) {
    // SAFETY: called by the library.
    unsafe { host_of(host) }.clock.wait(until);
}

extern "C" fn write_console(host: *mut c_void, text: *const u8, size: usize) {
    // SAFETY: called by the library, with text of this size.
    let (host, text) = unsafe { (host_of(host), slice::from_raw_parts(text, size)) };
    (host.console)(&String::from_utf8_lossy(text));
}

extern "C" fn kernel_panic(host: *mut c_void, why: *const c_char) -> ! {
    // SAFETY: called by the library, with a C string.
    let (host, why) = unsafe { (host_of(host), CStr::from_ptr(why)) };
    (host.console)(&format!("{}\n", why.to_string_lossy()));
    std::process::abort();
}

extern "C" fn socket_ready(host: *mut c_void, socket: u64) {
    // SAFETY: called by the library.
    unsafe { host_of(host) }.ready.push(socket);
}
