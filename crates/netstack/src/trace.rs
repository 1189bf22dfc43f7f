//! What the library's connections do, event by event: the records of the monitor.

use std::ffi::{c_int, c_void};

use crate::boot::Host;
use crate::error::{Result, check};
use crate::kernel::Kernel;

/// `struct tx_event` of `bpf/event.h`: `transom_event::raw` reads it. Its time is the clock's, its
/// process 0.
pub const EVENT_BYTES: usize = 128;

/// Gets one record. Called amid operations of the [`Kernel`].
pub type Events = Box<dyn FnMut(&[u8; EVENT_BYTES]) + Send>;

/// `trace` of the host's table.
pub(crate) extern "C" fn trace(host: *mut c_void, event: *const c_void) {
    // SAFETY: the library gives back what `Kernel::boot` gave it, and a record of this size; no
    // other reference to the host lives while the library runs.
    let (host, event) = unsafe { (&mut *host.cast::<Host>(), &*event.cast::<[u8; EVENT_BYTES]>()) };
    if let Some(events) = &mut host.events {
        events(event);
    }
}

impl Kernel {
    /// From now on `events` gets what happens; `None` ends it. Costs nothing when it is off.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub fn trace(&mut self, events: Option<Events>) -> Result<()> {
        let on = events.is_some();
        // SAFETY: no library call is under way.
        unsafe { (*self.host()).events = events };
        // SAFETY: the library is booted.
        check(unsafe { self.library().trace(c_int::from(on)) } as isize, "tracing").map(drop)
    }
}
