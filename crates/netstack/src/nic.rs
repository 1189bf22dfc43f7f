//! Network interfaces of the library, and what the host must give for one.

use std::ffi::{c_int, c_uint, c_void};
use std::io::IoSlice;
use std::os::fd::RawFd;
use std::{ptr, slice};

use transom_link::VnetHeader;

use crate::boot::Host;
use crate::error::{Error, Result, check};
use crate::kernel::Kernel;
use crate::sys;

/// Frames that one interface hands over before timers and the other interfaces have their turn.
const FRAMES_AT_ONCE: usize = 64;

/// What became of a frame that left the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transmitted {
    /// It is on its way, or lost: the library will not offer it again.
    Taken,
    /// No room: the library keeps it, and tries again at a later turn.
    Full,
}

/// The host's side of a network interface.
pub trait Nic {
    /// A frame leaves. Called amid operations of the [`Kernel`]: must not block.
    fn transmit(&mut self, header: VnetHeader, parts: &[IoSlice<'_>]) -> Transmitted;

    /// A frame into `buffer`, which holds the largest: its size and what is left of it to be done.
    fn receive(&mut self, buffer: &mut [u8]) -> Option<(usize, VnetHeader)>;

    /// To wait for: readable when `receive` may have a frame, writable after [`Transmitted::Full`].
    fn descriptor(&self) -> Option<RawFd>;
}

/// What frames look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// With the interface's own address: not a group's, not zero.
    Ethernet { mac: [u8; 6] },
    /// Packets of IPv4 and IPv6 with nothing before them, no neighbours to ask for: cellular, TUN.
    RawIp,
}

#[derive(Clone, Debug)]
pub struct NicParameters {
    /// At most 15 bytes.
    pub name: String,
    pub link: Link,
    /// Bytes of an IP packet, 68 to 65535 (IPv6 needs 1280).
    pub mtu: u32,
    /// The host completes checksums of frames that leave (`csum_start`).
    pub checksum: bool,
    /// And cuts TCP segments of up to 64 KiB. Not without `checksum`.
    pub tso: bool,
    /// And UDP payloads.
    pub uso: bool,
    /// Packets that wait for the interface; `None`: 1000.
    pub queue: Option<u32>,
}

/// An interface of the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NicId(pub(crate) usize);

impl NicId {
    /// Small and different for each: an index.
    pub fn number(self) -> usize {
        self.0
    }
}

/// Where frames that leave go to.
pub(crate) enum Device {
    Bytes(Box<dyn Nic + Send>),
    /// Into the list that [`Kernel::take_frames`] empties.
    Frames {
        one_at_a_time: bool,
    },
}

pub(crate) struct Attached {
    pub device: Device,
    pub handle: *mut sys::LinuxNic,
    /// It said `Full` since the last turn.
    pub stopped: bool,
}

impl NicParameters {
    fn raw(&self, cookie: usize, more: u32, gso_max_segs: u32) -> Result<sys::NicParameters> {
        let mut name = [0; 16];
        if self.name.is_empty() || self.name.len() >= name.len() {
            return Err(Error::new(libc::EINVAL, "interface name"));
        }
        name[..self.name.len()].copy_from_slice(self.name.as_bytes());
        let (mac, raw_ip) = match self.link {
            Link::Ethernet { mac } => (mac, 0),
            Link::RawIp => ([0; 6], sys::NIC_RAW_IP),
        };
        let flag = |wanted: bool, flag: u32| if wanted && self.checksum { flag } else { 0 };
        let flags = raw_ip
            | more
            | flag(true, sys::NIC_CHECKSUM)
            | flag(self.tso, sys::NIC_TSO)
            | flag(self.uso, sys::NIC_USO);
        let queue = self.queue.unwrap_or(0);
        let (cookie, mtu) = (cookie as u64, self.mtu);
        Ok(sys::NicParameters { name, cookie, mac, mtu, flags, queue, gso_max_segs })
    }
}

/// `nic_transmit` of the host's table.
pub(crate) extern "C" fn transmit(
    host: *mut c_void,
    nic: u64,
    pieces: *const sys::Piece,
    count: c_uint,
    header: *const VnetHeader,
) -> c_int {
    // SAFETY: the library gives back what `Kernel::boot` gave it; no other reference to the host
    // lives while the library runs (see `Kernel`). A piece has the layout of an `IoSlice`.
    let (host, parts, header) = unsafe {
        (&mut *host.cast::<Host>(), slice::from_raw_parts(pieces.cast(), count as usize), *header)
    };
    let Some(Some(Attached { device: Device::Bytes(device), stopped, .. })) =
        host.nics.get_mut(nic as usize)
    else {
        return 0;
    };
    match device.transmit(header, parts) {
        Transmitted::Taken => 0,
        Transmitted::Full => {
            *stopped = true;
            1
        }
    }
}

impl Kernel {
    /// Adds an interface, without addresses and down: [`Kernel::set_up`].
    ///
    /// # Errors
    /// `EINVAL` (name, MTU), `EADDRNOTAVAIL` (MAC address), `EEXIST`.
    pub fn add_nic(
        &mut self,
        parameters: &NicParameters,
        device: Box<dyn Nic + Send>,
    ) -> Result<NicId> {
        let device = Device::Bytes(device);
        self.add(parameters, Attached { device, handle: ptr::null_mut(), stopped: false }, 0, 0)
    }

    pub(crate) fn add(
        &mut self,
        parameters: &NicParameters,
        entry: Attached,
        flags: u32,
        gso_max_segs: u32,
    ) -> Result<NicId> {
        let host = self.host();
        // SAFETY: no library call is under way, so this is the only reference.
        let nics = unsafe { &mut (*host).nics };
        let id = nics.iter().position(Option::is_none).unwrap_or(nics.len());
        let raw = parameters.raw(id, flags, gso_max_segs)?;
        if id == nics.len() {
            nics.push(Some(entry));
        } else {
            nics[id] = Some(entry);
        }
        let mut handle = ptr::null_mut();
        // SAFETY: both pointers are good for the call.
        let result = unsafe { self.library().nic_add(&raw, &mut handle) };
        // SAFETY: as above.
        let nics = unsafe { &mut (*host).nics };
        if let Err(error) = check(result as isize, "adding an interface") {
            nics[id] = None;
            return Err(error);
        }
        if let Some(attached) = &mut nics[id] {
            attached.handle = handle;
        }
        Ok(NicId(id))
    }

    /// Takes it away, with its addresses and routes; connections over it time out.
    pub fn remove_nic(&mut self, nic: NicId) -> Option<Box<dyn Nic + Send>> {
        let handle = self.nic_handle(nic)?;
        // SAFETY: the handle is that of an interface that is there.
        unsafe { self.library().nic_remove(handle) };
        // SAFETY: no library call is under way.
        let nics = unsafe { &mut (*self.host()).nics };
        match nics[nic.0].take()?.device {
            Device::Bytes(device) => Some(device),
            Device::Frames { .. } => None,
        }
    }

    /// Plugs the cable in or out. It is in, at first.
    pub fn set_carrier(&mut self, nic: NicId, up: bool) {
        if let Some(handle) = self.nic_handle(nic) {
            // SAFETY: the handle is that of an interface that is there.
            unsafe { self.library().nic_carrier(handle, c_int::from(up)) };
        }
    }

    /// The kernel's number of the interface; `None` if it was removed.
    pub fn nic_index(&self, nic: NicId) -> Option<u32> {
        // SAFETY: the handle is that of an interface that is there.
        self.nic_handle(nic).map(|handle| unsafe { self.library().nic_index(handle) } as u32)
    }

    /// The host's side of an interface.
    pub fn nic_mut(&mut self, nic: NicId) -> Option<&mut dyn Nic> {
        // SAFETY: no library call is under way, and `self` stays borrowed.
        let nics = unsafe { &mut (*self.host()).nics };
        match nics.get_mut(nic.0) {
            Some(Some(Attached { device: Device::Bytes(device), .. })) => Some(&mut **device),
            _ => None,
        }
    }

    /// Descriptors to wait for, and whether for room too.
    pub fn descriptors(&self) -> impl Iterator<Item = (RawFd, bool)> + '_ {
        // SAFETY: no library call is under way.
        let nics = unsafe { &(*self.host()).nics };
        nics.iter().flatten().filter_map(|nic| match &nic.device {
            Device::Bytes(device) => device.descriptor().map(|it| (it, nic.stopped)),
            Device::Frames { .. } => None,
        })
    }

    pub(crate) fn nic_handle(&self, nic: NicId) -> Option<*mut sys::LinuxNic> {
        // SAFETY: no library call is under way.
        let nics = unsafe { &(*self.host()).nics };
        nics.get(nic.0)?.as_ref().map(|attached| attached.handle)
    }

    /// Hands over what waits at the interfaces. True: there may be more.
    pub(crate) fn receive_frames(&mut self) -> bool {
        // SAFETY: no library call is under way.
        let count = unsafe { (*self.host()).nics.len() };
        let mut more = false;
        for nic in 0..count {
            more |= self.receive_from(NicId(nic));
        }
        more
    }

    fn receive_from(&mut self, nic: NicId) -> bool {
        if self.nic_mut(nic).is_none() {
            return false;
        }
        let Some(handle) = self.nic_handle(nic) else { return false };
        // SAFETY: no library call is under way.
        let attached = unsafe { (&mut (*self.host()).nics)[nic.0].as_mut() };
        if attached.is_some_and(|attached| std::mem::take(&mut attached.stopped)) {
            // SAFETY: the handle is that of an interface that is there.
            unsafe { self.library().nic_wake(handle) };
        }
        for _ in 0..FRAMES_AT_ONCE {
            let mut buffer = sys::Piece { at: ptr::null_mut(), size: 0 };
            // SAFETY: as above.
            if unsafe { self.library().nic_buffer(handle, &mut buffer) } < 0 {
                return false;
            }
            // SAFETY: the library says that so many bytes may be written until the next call; they
            // are memory that the host gave it, so they have values.
            let room = unsafe { slice::from_raw_parts_mut(buffer.at.cast(), buffer.size) };
            let Some((size, header)) = self.nic_mut(nic).and_then(|device| device.receive(room))
            else {
                return false;
            };
            // SAFETY: the frame lies in the buffer, and the library checks its size. What it
            // refuses it has counted as lost.
            unsafe { self.library().nic_received(handle, size, &header) };
        }
        true
    }
}
