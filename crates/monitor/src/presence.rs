//! The probes at each system call that see which process uses a connection (`bpf/heir.h`): they are
//! attached only while there are connections whose owner was not yet seen to use them.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use libbpf_rs::{Link, Object};
use transom_machine::objects::{Detaching, program};

use crate::clock::boottime_ns;
use crate::rings::Mapped;

/// So long no connection must have waited for its owner before the probes go. While they are there,
/// they cost about as much as the recording itself.
const QUIET: Duration = Duration::from_millis(200);

/// `struct presence`.
#[repr(C)]
pub(crate) struct Shared {
    pub wanted_ns: AtomicU64,
    pub detached: AtomicU32,
    pub pad: u32,
}

/// The probes of the purpose `owner`.
pub(crate) struct Presence {
    // Order of drop: the links before what they write to.
    links: Vec<Link>,
    detaching: Detaching,
    shared: Mapped,
    programs: &'static [&'static str],
    always: bool,
    /// When they were attached or detached last, CLOCK_BOOTTIME.
    changed_ns: u64,
}

impl Presence {
    /// Not yet attached. With `always` they stay when they are. Where there are none, only what is
    /// sent shows a new owner.
    pub fn of(
        object: &Object,
        programs: &'static [&'static str],
        always: bool,
    ) -> Result<Presence> {
        let presence = Presence {
            links: Vec::new(),
            detaching: Detaching::default(),
            shared: Mapped::of(object, "presence", size_of::<Shared>())?,
            programs,
            always,
            changed_ns: 0,
        };
        presence.shared().detached.store(1, Ordering::Relaxed);
        Ok(presence)
    }

    pub fn programs(&self) -> &'static [&'static str] {
        self.programs
    }

    fn shared(&self) -> &Shared {
        // SAFETY: the map has one entry of this layout (a test compares), and both sides write atomically.
        unsafe { self.shared.start().cast().as_ref() }
    }

    /// # Errors
    /// The kernel refuses.
    pub fn attach(&mut self, object: &Object) -> Result<()> {
        if self.programs.is_empty() {
            return Ok(());
        }
        self.detaching.wait();
        for name in self.programs {
            let link =
                program(object, name)?.attach().with_context(|| format!("attaching {name}"))?;
            self.links.push(link);
        }
        self.changed_ns = boottime_ns();
        self.shared().detached.store(0, Ordering::Relaxed);
        Ok(())
    }

    /// Attaches or detaches them, as the connections need.
    ///
    /// # Errors
    /// The kernel refuses to attach them again.
    pub fn keep(&mut self, object: &Object) -> Result<()> {
        if self.always || self.programs.is_empty() {
            return Ok(());
        }
        let wanted_ns = self.shared().wanted_ns.load(Ordering::Relaxed);
        if self.links.is_empty() {
            // The rings must be read meanwhile: the next look attaches them.
            let can_attach = wanted_ns > self.changed_ns && self.detaching.is_over();
            return if can_attach { self.attach(object) } else { Ok(()) };
        }
        let now = boottime_ns();
        let quiet_since = wanted_ns.max(self.changed_ns);
        if now.saturating_sub(quiet_since) > QUIET.as_nanos() as u64 {
            self.shared().detached.store(1, Ordering::Relaxed);
            self.detaching = Detaching::begin(self.links.drain(..));
            self.changed_ns = now;
        }
        Ok(())
    }
}
