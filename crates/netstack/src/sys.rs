//! `linux/arch/include/library/linux.h` in Rust, word for word, with the functions of each series.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicBool, AtomicU64};

use transom_link::VnetHeader;

// `struct linux_offload` is a VnetHeader, but little-endian.
const _: () = assert!(cfg!(target_endian = "little"));

pub(crate) const NEVER: u64 = u64::MAX;
pub(crate) const SEED_BYTES: usize = 32;

pub(crate) const NIC_RAW_IP: u32 = 1;
pub(crate) const NIC_CHECKSUM: u32 = 2;
pub(crate) const NIC_TSO: u32 = 4;
pub(crate) const NIC_USO: u32 = 8;
pub(crate) const NIC_FRAMES: u32 = 16;
pub(crate) const NIC_GRO: u32 = 32;

/// `struct linux_piece`; the same as `struct iovec`, `IoSlice` and `IoSliceMut`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Piece {
    pub at: *mut c_void,
    pub size: usize,
}

#[repr(C)]
pub(crate) struct Message {
    pub name: *mut c_void,
    pub name_size: u32,
    pub pieces: *mut Piece,
    pub count: usize,
    pub control: *mut c_void,
    pub control_size: usize,
    pub flags: u32,
}

/// `struct ifconf`.
#[repr(C)]
pub(crate) struct InterfaceList {
    pub size: c_int,
    pub list: *mut c_void,
}

#[repr(C)]
pub(crate) struct NicParameters {
    pub name: [u8; 16],
    pub cookie: u64,
    pub mac: [u8; 6],
    pub mtu: u32,
    pub flags: u32,
    pub queue: u32,
    pub gso_max_segs: u32,
}

#[repr(C)]
pub(crate) struct HostOps {
    pub host: *mut c_void,
    pub memory: *mut c_void,
    pub memory_size: usize,
    pub seed: [u8; SEED_BYTES],
    pub clock: extern "C" fn(*mut c_void) -> u64,
    pub wall_clock: extern "C" fn(*mut c_void) -> u64,
    pub wait: extern "C" fn(*mut c_void, u64),
    pub console: extern "C" fn(*mut c_void, *const u8, usize),
    pub panic: extern "C" fn(*mut c_void, *const c_char) -> !,
    pub socket_ready: extern "C" fn(*mut c_void, u64),
    pub nic_transmit:
        extern "C" fn(*mut c_void, u64, *const Piece, c_uint, *const VnetHeader) -> c_int,
    pub frame_transmit: extern "C" fn(*mut c_void, u64, *mut LinuxFrame) -> c_int,
    pub trace: Option<extern "C" fn(*mut c_void, *const c_void)>,
}

#[repr(C)]
pub(crate) struct LinuxSocket {
    _opaque: [u8; 0],
}

#[repr(C)]
pub(crate) struct LinuxNic {
    _opaque: [u8; 0],
}

#[repr(C)]
pub(crate) struct LinuxNet {
    _opaque: [u8; 0],
}

#[repr(C)]
pub(crate) struct LinuxFrame {
    _opaque: [u8; 0],
}

/// Declares the functions once for all series; a series has them behind a prefix of its own
/// (`scripts/linux-library.sh`).
macro_rules! library {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)?;)*) => {
        /// The library of one series: its functions, and what there is once of each.
        pub(crate) struct Library {
            /// A kernel of this series runs: its variables are the program's.
            pub taken: AtomicBool,
            /// Counts the kernels that have ended.
            pub ended: AtomicU64,
            $($name: unsafe extern "C" fn($($type),*) $(-> $result)?,)*
        }

        /// All are unsafe as the functions of the header are: a booted library, one call at a time,
        /// and pointers that are good for the call.
        impl Library {
            $(
                #[inline]
                pub unsafe fn $name(&self, $($argument: $type),*) $(-> $result)? {
                    // SAFETY: as the caller promises.
                    unsafe { (self.$name)($($argument),*) }
                }
            )*
        }

        macro_rules! series {
            ($prefix:literal) => {{
                unsafe extern "C" {
                    $(
                        #[link_name = concat!($prefix, stringify!($name))]
                        fn $name($($argument: $type),*) $(-> $result)?;
                    )*
                }
                Library { taken: AtomicBool::new(false), ended: AtomicU64::new(0), $($name),* }
            }};
        }

        pub(crate) static LINUX_6_12: Library = series!("linux_");
        #[cfg(linux_6_1)]
        pub(crate) static LINUX_6_1: Library = series!("linux61_");
    };
}

library! {
    fn boot(ops: *const HostOps, command_line: *const c_char) -> c_int;
    fn halt();
    fn run() -> u64;
    fn keep_tick(on: c_int);

    fn net_add(made: *mut *mut LinuxNet) -> c_int;
    fn net_use(net: *mut LinuxNet);

    fn socket(
        family: c_int,
        kind: c_int,
        protocol: c_int,
        cookie: u64,
        made: *mut *mut LinuxSocket,
    ) -> c_int;
    fn bind(s: *mut LinuxSocket, address: *const c_void, size: c_int) -> c_int;
    fn connect(s: *mut LinuxSocket, address: *const c_void, size: c_int) -> c_int;
    fn listen(s: *mut LinuxSocket, backlog: c_int) -> c_int;
    fn accept(
        s: *mut LinuxSocket,
        cookie: u64,
        made: *mut *mut LinuxSocket,
    ) -> c_int;
    fn shutdown(s: *mut LinuxSocket, how: c_int) -> c_int;
    fn close(s: *mut LinuxSocket);
    fn send(s: *mut LinuxSocket, m: *mut Message, flags: c_int) -> isize;
    fn receive(s: *mut LinuxSocket, m: *mut Message, flags: c_int) -> isize;
    fn send_zeros(s: *mut LinuxSocket, size: usize) -> isize;
    fn discard(s: *mut LinuxSocket, size: usize) -> isize;
    fn setsockopt(
        s: *mut LinuxSocket,
        level: c_int,
        name: c_int,
        value: *const c_void,
        size: c_int,
    ) -> c_int;
    fn getsockopt(
        s: *mut LinuxSocket,
        level: c_int,
        name: c_int,
        value: *mut c_void,
        size: *mut c_int,
    ) -> c_int;
    fn cwnd_clamp(s: *mut LinuxSocket, segments: u32) -> c_int;
    fn getsockname(
        s: *mut LinuxSocket,
        address: *mut c_void,
        size: *mut c_int,
    ) -> c_int;
    fn getpeername(
        s: *mut LinuxSocket,
        address: *mut c_void,
        size: *mut c_int,
    ) -> c_int;
    fn ioctl(s: *mut LinuxSocket, command: c_uint, argument: *mut c_void)
    -> c_int;
    fn poll(s: *mut LinuxSocket) -> u32;

    fn proc_read(path: *const c_char, to: *mut c_void, size: usize) -> isize;
    fn proc_write(path: *const c_char, from: *const c_void, size: usize) -> isize;

    fn trace(on: c_int) -> c_int;

    fn nic_add(p: *const NicParameters, made: *mut *mut LinuxNic) -> c_int;
    fn nic_remove(nic: *mut LinuxNic);
    fn nic_carrier(nic: *mut LinuxNic, up: c_int);
    fn nic_index(nic: *mut LinuxNic) -> c_int;
    fn nic_wake(nic: *mut LinuxNic);
    fn nic_buffer(nic: *mut LinuxNic, buffer: *mut Piece) -> c_int;
    fn nic_received(
        nic: *mut LinuxNic,
        size: usize,
        offload: *const VnetHeader,
    ) -> c_int;

    fn nic_deliver(nic: *mut LinuxNic, frame: *mut LinuxFrame) -> c_int;
    fn frame_free(frame: *mut LinuxFrame);
    fn frame_copy(frame: *mut LinuxFrame) -> *mut LinuxFrame;
    fn frame_head(frame: *mut LinuxFrame) -> Piece;
    fn frame_size(frame: *const LinuxFrame) -> usize;
    fn frame_make(bytes: *const c_void, size: usize) -> *mut LinuxFrame;
    fn frame_read(frame: *mut LinuxFrame, to: *mut c_void, size: usize) -> c_int;
}
