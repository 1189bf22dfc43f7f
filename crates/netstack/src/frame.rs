//! Frames by reference: what one host of the library sends reaches another without its payload being
//! copied. Whoever owns the [`Kernel`] carries them in between.

use std::ffi::{c_int, c_void};
use std::fmt;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::Ordering;

use crate::boot::Host;
use crate::error::{Error, Result, check};
use crate::kernel::Kernel;
use crate::nic::{Attached, Device, Link, NicId, NicParameters};
use crate::sys::{self, Library};

/// A kernel ends: frames of it that are still held are gone with its memory.
pub(crate) fn forget_all(library: &Library) {
    library.ended.fetch_add(1, Ordering::Relaxed);
}

/// A frame in the library's memory, from its Ethernet header on (of raw IP: from its IP header).
pub struct Frame {
    handle: NonNull<sys::LinuxFrame>,
    head: NonNull<u8>,
    head_size: u32,
    size: u32,
    library: &'static Library,
    /// How many kernels had ended when it was made.
    ended: u64,
}

impl Frame {
    /// # Safety
    /// The handle is of a frame that the library has just given away.
    unsafe fn new(library: &'static Library, handle: NonNull<sys::LinuxFrame>) -> Frame {
        let at = handle.as_ptr();
        // SAFETY: as the caller promises; neither call changes anything.
        let (head, size) = unsafe { (library.frame_head(at), library.frame_size(at)) };
        Frame {
            handle,
            head: NonNull::new(head.at.cast()).unwrap_or(NonNull::dangling()),
            head_size: head.size as u32,
            size: size as u32,
            library,
            ended: library.ended.load(Ordering::Relaxed),
        }
    }

    fn is_alive(&self) -> bool {
        self.ended == self.library.ended.load(Ordering::Relaxed)
    }

    /// The bytes that lie in one piece: the headers at least. Nothing once the kernel has ended.
    pub fn head(&self) -> &[u8] {
        if !self.is_alive() {
            return &[];
        }
        // SAFETY: so many bytes belong to the frame, which lives as long as its kernel.
        unsafe { slice::from_raw_parts(self.head.as_ptr(), self.head_size as usize) }
    }

    /// The same, to change a header on the way.
    pub fn head_mut(&mut self) -> &mut [u8] {
        if !self.is_alive() {
            return &mut [];
        }
        // SAFETY: as above, and the head is this frame's alone.
        unsafe { slice::from_raw_parts_mut(self.head.as_ptr(), self.head_size as usize) }
    }

    /// All bytes.
    pub fn size(&self) -> usize {
        self.size as usize
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        if self.is_alive() {
            // SAFETY: the frame is ours, and its kernel lives. Frames are neither `Send` nor dropped
            // within the library's callbacks, so no call is under way.
            unsafe { self.library.frame_free(self.handle.as_ptr()) };
        }
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frame").field("handle", &self.handle).field("size", &self.size).finish()
    }
}

/// An interface whose frames stay in the library.
#[derive(Clone, Debug)]
pub struct FrameNic {
    /// At most 15 bytes.
    pub name: String,
    pub link: Link,
    pub mtu: u32,
    /// Packets that wait for the interface; `None`: 1000.
    pub queue: Option<u32>,
    /// Segments that the kernel puts into one packet until just before the interface.
    pub gso_max_segs: u32,
    /// What is delivered before the next turn is joined (GRO).
    pub gro: bool,
    /// After each frame the kernel waits for [`Kernel::wake_nic`]: a device with a rate.
    pub one_at_a_time: bool,
}

/// `frame_transmit` of the host's table.
pub(crate) extern "C" fn transmit(
    host: *mut c_void,
    nic: u64,
    frame: *mut sys::LinuxFrame,
) -> c_int {
    let Some(handle) = NonNull::new(frame) else { return 0 };
    // SAFETY: the library gives back what `Kernel::boot` gave it; no other reference to the host
    // lives while the library runs. The frame has just become ours.
    let host = unsafe { &mut *host.cast::<Host>() };
    // SAFETY: as above.
    let frame = unsafe { Frame::new(host.library, handle) };
    host.frames.push((NicId(nic as usize), frame));
    let device = host.nics.get(nic as usize).and_then(Option::as_ref).map(|nic| &nic.device);
    c_int::from(matches!(device, Some(Device::Frames { one_at_a_time: true })))
}

impl Kernel {
    /// Adds an interface to the host in use, without addresses and down.
    ///
    /// # Errors
    /// As [`Kernel::add_nic`].
    pub fn add_frame_nic(&mut self, nic: &FrameNic) -> Result<NicId> {
        let parameters = NicParameters {
            name: nic.name.clone(),
            link: nic.link,
            mtu: nic.mtu,
            checksum: true,
            tso: false,
            uso: false,
            queue: nic.queue,
        };
        let device = Device::Frames { one_at_a_time: nic.one_at_a_time };
        let gro = if nic.gro { sys::NIC_GRO } else { 0 };
        self.attach(&parameters, device, sys::NIC_FRAMES | gro, nic.gso_max_segs)
    }

    /// What has left interfaces of [`FrameNic`] since the last call, in the order in which it left.
    pub fn take_frames(&mut self, into: &mut Vec<(NicId, Frame)>) {
        // SAFETY: no library call is under way.
        into.append(unsafe { &mut (*self.host()).frames });
    }

    /// A frame reaches an interface of [`FrameNic`], of whichever host: it is processed at once.
    /// What the interface refuses (it is down) it counts.
    pub fn deliver(&mut self, nic: NicId, frame: Frame) {
        let handle = self.nic_handle(nic).filter(|_| self.owns(&frame));
        let Some(nic) = handle else { return };
        let frame = std::mem::ManuallyDrop::new(frame);
        // SAFETY: the interface is there, and the frame, which is ours, becomes the library's.
        unsafe { self.library().nic_deliver(nic, frame.handle.as_ptr()) };
    }

    /// The device has room again: the kernel sends on.
    pub fn wake_nic(&mut self, nic: NicId) {
        if let Some(nic) = self.nic_handle(nic) {
            // SAFETY: the handle is that of an interface that is there.
            unsafe { self.library().nic_wake(nic) };
        }
    }

    /// Another frame of the same bytes; none: no memory.
    pub fn copy_frame(&mut self, frame: &Frame) -> Option<Frame> {
        // SAFETY: the frame is alive; what is made is ours.
        let copy = self
            .owns(frame)
            .then(|| NonNull::new(unsafe { self.library().frame_copy(frame.handle.as_ptr()) }))??;
        // SAFETY: it has just been made.
        Some(unsafe { Frame::new(self.library(), copy) })
    }

    /// All bytes of a frame, with the checksums that were left to the device: for another kernel.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub fn read_frame(&mut self, frame: &Frame) -> Result<Vec<u8>> {
        let mut bytes = vec![0; frame.size()];
        if !self.owns(frame) {
            return Err(Error::new(libc::EINVAL, "a frame of another kernel"));
        }
        // SAFETY: the frame is alive, and the buffer as long as said.
        let n = unsafe {
            self.library().frame_read(frame.handle.as_ptr(), bytes.as_mut_ptr().cast(), bytes.len())
        };
        bytes.truncate(check(n as isize, "reading a frame")?);
        Ok(bytes)
    }

    /// A frame of bytes that another kernel's [`Kernel::read_frame`] gave; none: no memory.
    pub fn make_frame(&mut self, bytes: &[u8]) -> Option<Frame> {
        // SAFETY: the bytes are as many as said.
        let made = unsafe { self.library().frame_make(bytes.as_ptr().cast(), bytes.len()) };
        // SAFETY: it has just been made.
        NonNull::new(made).map(|made| unsafe { Frame::new(self.library(), made) })
    }

    /// Whether a frame is of this kernel: not of another series, nor of an earlier boot.
    pub fn owns(&self, frame: &Frame) -> bool {
        ptr::eq(frame.library, self.library()) && frame.is_alive()
    }

    fn attach(
        &mut self,
        parameters: &NicParameters,
        device: Device,
        flags: u32,
        gso_max_segs: u32,
    ) -> Result<NicId> {
        let entry = Attached { device, handle: ptr::null_mut(), stopped: false };
        self.add(parameters, entry, flags, gso_max_segs)
    }
}
