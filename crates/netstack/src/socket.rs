//! Sockets of the library: system calls without descriptors, never blocking.

use std::ffi::{c_int, c_void};
use std::io::{IoSlice, IoSliceMut};
use std::ptr;

use transom_link::options;

use crate::error::{Error, Result, check};
use crate::kernel::Kernel;
use crate::sys::{self, Library};

/// `sizeof(struct sockaddr_storage)`: no address is longer.
pub const ADDRESS_BYTES: usize = 128;

/// FIONREAD (SIOCINQ), TIOCOUTQ (SIOCOUTQ), SIOCOUTQNSD, SIOCATMARK: linux/sockios.h. They write one
/// `int`.
const NUMBER_COMMANDS: [u32; 4] = [0x541b, 0x5411, 0x894b, 0x8905];
/// SIOCGSTAMP and SIOCGSTAMPNS, old and new.
const TIME_COMMANDS: [u32; 4] = [0x8906, 0x8907, 0x8010_8906, 0x8010_8907];
/// SIOCGIFNAME, FLAGS, ADDR, DSTADDR, BRDADDR, NETMASK, METRIC, MTU, INDEX, TXQLEN: all that only read.
const INTERFACE_COMMANDS: [u32; 10] =
    [0x8910, 0x8913, 0x8915, 0x8917, 0x8919, 0x891b, 0x891d, 0x8921, 0x8933, 0x8942];
const SIOCGIFCONF: u32 = 0x8912;

/// The value is the only memory of this process that the kernel may touch.
fn check_option(level: i32, name: i32, value: &[u8]) -> Result<()> {
    let error = |errno| Error::new(errno, "an option that reaches beyond its value");
    options::check(level, name, value).map_err(error)
}

/// A socket of a [`Kernel`]. After `close` the number may come again for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SocketId(pub u64);

impl SocketId {
    /// Small and different for each open socket: an index.
    pub fn number(self) -> usize {
        self.0 as u32 as usize
    }
}

/// What a receive tells beside the bytes.
#[derive(Clone, Debug, Default)]
pub struct Message {
    /// Of the sender: a `struct sockaddr_*`; empty for a stream.
    pub source: Vec<u8>,
    /// Whole `struct cmsghdr`s; its capacity at the call is the room for them.
    pub control: Vec<u8>,
    /// `MSG_TRUNC`, `MSG_CTRUNC`, …
    pub flags: i32,
}

/// The handles, by the low half of a cookie; the high half tells one use of a place from the next,
/// so that a late word for a closed socket reaches nobody.
#[derive(Default)]
pub(crate) struct Sockets {
    places: Vec<Place>,
    free: Vec<u32>,
}

#[derive(Default)]
struct Place {
    handle: Option<ptr::NonNull<sys::LinuxSocket>>,
    uses: u32,
}

impl Sockets {
    fn reserve(&mut self) -> u32 {
        let at = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place::default());
            self.places.len() as u32 - 1
        });
        self.places[at as usize].uses += 1;
        at
    }

    fn cookie(&self, at: u32) -> u64 {
        u64::from(self.places[at as usize].uses) << 32 | u64::from(at)
    }

    fn place(&self, cookie: u64) -> Option<&Place> {
        let place = self.places.get(cookie as u32 as usize)?;
        (u64::from(place.uses) == cookie >> 32).then_some(place)
    }

    pub(crate) fn id_of(&self, cookie: u64) -> Option<SocketId> {
        self.place(cookie)?.handle.map(|_| SocketId(cookie))
    }

    fn settle(&mut self, at: u32, made: *mut sys::LinuxSocket) -> SocketId {
        self.places[at as usize].handle = ptr::NonNull::new(made);
        SocketId(self.cookie(at))
    }

    fn release(&mut self, at: u32) {
        self.places[at as usize].handle = None;
        self.free.push(at);
    }
}

impl Kernel {
    fn handle(&self, socket: SocketId) -> Result<*mut sys::LinuxSocket> {
        self.sockets
            .place(socket.0)
            .and_then(|place| place.handle)
            .map(|handle| handle.as_ptr())
            .ok_or(Error::new(libc::EBADF, "socket"))
    }

    fn settle(&mut self, at: u32, made: *mut sys::LinuxSocket, result: c_int) -> Result<SocketId> {
        if let Err(error) = check(result as isize, "socket") {
            self.sockets.release(at);
            return Err(error);
        }
        Ok(self.sockets.settle(at, made))
    }

    /// `socket(2)`; flags in `kind` are ignored.
    ///
    /// # Errors
    /// `EAFNOSUPPORT`, `EPROTONOSUPPORT`, `ESOCKTNOSUPPORT`: not configured in; `ENOMEM`.
    pub fn socket(&mut self, domain: i32, kind: i32, protocol: i32) -> Result<SocketId> {
        let at = self.sockets.reserve();
        let cookie = self.sockets.cookie(at);
        let mut made = ptr::null_mut();
        // SAFETY: `made` is good for the call.
        let result = unsafe { self.library().socket(domain, kind, protocol, cookie, &mut made) };
        self.settle(at, made, result)
    }

    /// `bind(2)`.
    ///
    /// # Errors
    /// As the system call; `EBADF`: no such socket. So for all that follow.
    pub fn bind(&mut self, socket: SocketId, address: &[u8]) -> Result<()> {
        let handle = self.handle(socket)?;
        // SAFETY: the handle is of an open socket, the address as long as said.
        let result = unsafe {
            self.library().bind(handle, address.as_ptr().cast(), address.len() as c_int) as isize
        };
        check(result, "bind").map(drop)
    }

    /// `connect(2)`. `EINPROGRESS`: a turn names the socket when it is decided; then `SO_ERROR`.
    pub fn connect(&mut self, socket: SocketId, address: &[u8]) -> Result<()> {
        let handle = self.handle(socket)?;
        // SAFETY: the handle is of an open socket, the address as long as said.
        let result = unsafe {
            self.library().connect(handle, address.as_ptr().cast(), address.len() as c_int) as isize
        };
        check(result, "connect").map(drop)
    }

    /// `listen(2)`.
    pub fn listen(&mut self, socket: SocketId, backlog: i32) -> Result<()> {
        let handle = self.handle(socket)?;
        // SAFETY: the handle is of an open socket.
        check(unsafe { self.library().listen(handle, backlog) } as isize, "listen").map(drop)
    }

    /// `accept(2)`; ask [`Kernel::getpeername`] who it is. The next turn names the new socket, for
    /// it may have data already.
    pub fn accept(&mut self, socket: SocketId) -> Result<SocketId> {
        let handle = self.handle(socket)?;
        let at = self.sockets.reserve();
        let cookie = self.sockets.cookie(at);
        let mut made = ptr::null_mut();
        // SAFETY: the handle is of an open socket, `made` good for the call.
        let result = unsafe { self.library().accept(handle, cookie, &mut made) };
        let accepted = self.settle(at, made, result)?;
        // What came before it was ours has woken nobody.
        // SAFETY: no library call is under way.
        unsafe { (*self.host()).ready.push(cookie) };
        Ok(accepted)
    }

    /// `shutdown(2)`.
    pub fn shutdown(&mut self, socket: SocketId, how: i32) -> Result<()> {
        let handle = self.handle(socket)?;
        // SAFETY: the handle is of an open socket.
        check(unsafe { self.library().shutdown(handle, how) } as isize, "shutdown").map(drop)
    }

    /// `close(2)`; what was sent is still delivered, without waiting for it.
    pub fn close(&mut self, socket: SocketId) {
        let Ok(handle) = self.handle(socket) else { return };
        // SAFETY: the handle is of an open socket, and is forgotten here.
        unsafe { self.library().close(handle) };
        self.sockets.release(socket.0 as u32);
    }

    /// `sendmsg(2)`. A stream may take less than offered.
    pub fn send(
        &mut self,
        socket: SocketId,
        data: &[IoSlice<'_>],
        flags: i32,
        destination: Option<&[u8]>,
        control: &[u8],
    ) -> Result<usize> {
        let handle = self.handle(socket)?;
        let name = destination.unwrap_or_default();
        // The library only reads what these point to.
        let mut message = sys::Message {
            name: name.as_ptr().cast::<c_void>().cast_mut(),
            name_size: name.len() as u32,
            pieces: data.as_ptr().cast::<sys::Piece>().cast_mut(),
            count: data.len(),
            control: control.as_ptr().cast::<c_void>().cast_mut(),
            control_size: control.len(),
            flags: 0,
        };
        // SAFETY: the handle is of an open socket; an `IoSlice` has the layout of a piece.
        check(unsafe { self.library().send(handle, &mut message, flags) }, "send")
    }

    /// `recvmsg(2)`. 0 bytes of a stream: the peer has sent its FIN.
    pub fn receive(
        &mut self,
        socket: SocketId,
        data: &mut [IoSliceMut<'_>],
        flags: i32,
        message: Option<&mut Message>,
    ) -> Result<usize> {
        let handle = self.handle(socket)?;
        let Some(told) = message else {
            let mut message = raw_message(data, &mut [], &mut []);
            // SAFETY: the handle is of an open socket; an `IoSliceMut` has the layout of a piece.
            return check(
                unsafe { self.library().receive(handle, &mut message, flags) },
                "receive",
            );
        };
        let mut control = std::mem::take(&mut told.control);
        let mut source = [0; ADDRESS_BYTES];
        control.resize(control.capacity(), 0);
        let mut message = raw_message(data, &mut source, &mut control);
        // SAFETY: as above.
        let n = check(unsafe { self.library().receive(handle, &mut message, flags) }, "receive")?;
        let (source_size, control_size) = (message.name_size as usize, message.control_size);
        told.flags = message.flags as i32;
        control.truncate(control_size);
        told.control = control;
        told.source = source[..source_size.min(ADDRESS_BYTES)].to_vec();
        Ok(n)
    }

    /// `setsockopt(2)`.
    ///
    /// # Errors
    /// `ENOPROTOOPT` also for options whose value holds a pointer, such as socket filters.
    pub fn setsockopt(
        &mut self,
        socket: SocketId,
        level: i32,
        name: i32,
        value: &[u8],
    ) -> Result<()> {
        let handle = self.handle(socket)?;
        check_option(level, name, value)?;
        let size = value.len() as c_int;
        // SAFETY: the handle is of an open socket, the value as long as said.
        let result =
            unsafe { self.library().setsockopt(handle, level, name, value.as_ptr().cast(), size) };
        check(result as isize, "setsockopt").map(drop)
    }

    /// `getsockopt(2)`: the length of the answer.
    ///
    /// # Errors
    /// As of [`Kernel::setsockopt`]; `EINVAL`, `EOPNOTSUPP` also where the value asks for more entries
    /// than it has room for, such as sources of a multicast group.
    pub fn getsockopt(
        &mut self,
        socket: SocketId,
        level: i32,
        name: i32,
        value: &mut [u8],
    ) -> Result<usize> {
        let handle = self.handle(socket)?;
        check_option(level, name, value)?;
        let mut size = value.len() as c_int;
        // SAFETY: the handle is of an open socket, the value as long as said.
        let result = unsafe {
            self.library().getsockopt(handle, level, name, value.as_mut_ptr().cast(), &mut size)
        };
        check(result as isize, "getsockopt")?;
        Ok((size as usize).min(value.len()))
    }

    /// `getsockname(2)`: a `struct sockaddr_*`.
    pub fn getsockname(&mut self, socket: SocketId) -> Result<Vec<u8>> {
        self.name_of(socket, Library::getsockname, "getsockname")
    }

    /// `getpeername(2)`.
    pub fn getpeername(&mut self, socket: SocketId) -> Result<Vec<u8>> {
        self.name_of(socket, Library::getpeername, "getpeername")
    }

    fn name_of(
        &mut self,
        socket: SocketId,
        call: unsafe fn(&Library, *mut sys::LinuxSocket, *mut c_void, *mut c_int) -> c_int,
        what: &'static str,
    ) -> Result<Vec<u8>> {
        let handle = self.handle(socket)?;
        let mut address = vec![0; ADDRESS_BYTES];
        let mut size = address.len() as c_int;
        // SAFETY: the handle is of an open socket, the address as long as said.
        let result =
            unsafe { call(self.library(), handle, address.as_mut_ptr().cast(), &mut size) };
        check(result as isize, what)?;
        address.truncate(size as usize);
        Ok(address)
    }

    /// The greatest congestion window, segments (`snd_cwnd_clamp`); of a listener: of what it accepts.
    ///
    /// # Errors
    /// `ENOPROTOOPT`: not TCP.
    pub fn clamp_cwnd(&mut self, socket: SocketId, segments: u32) -> Result<()> {
        let handle = self.handle(socket)?;
        // SAFETY: the handle is of an open socket.
        check(unsafe { self.library().cwnd_clamp(handle, segments) } as isize, "clamping").map(drop)
    }

    /// Writes so many zeros, as far as there is room, without copying them.
    ///
    /// # Errors
    /// As `send`.
    pub fn send_zeros(&mut self, socket: SocketId, size: usize) -> Result<usize> {
        let handle = self.handle(socket)?;
        // SAFETY: the handle is of an open socket.
        check(unsafe { self.library().send_zeros(handle, size) }, "send")
    }

    /// Reads so many bytes at most and forgets them; 0: the other side has ended.
    ///
    /// # Errors
    /// As `receive`.
    pub fn discard(&mut self, socket: SocketId, size: usize) -> Result<usize> {
        let handle = self.handle(socket)?;
        // SAFETY: the handle is of an open socket.
        check(unsafe { self.library().discard(handle, size) }, "receive")
    }

    /// `ioctl(2)` with a number as its answer: `FIONREAD`, `SIOCOUTQ`, `SIOCOUTQNSD`, `SIOCATMARK`.
    ///
    /// # Errors
    /// `ENOTTY`: another command, or one that this kind of socket has not.
    pub fn ioctl_number(&mut self, socket: SocketId, command: u32) -> Result<i32> {
        let mut number = [0; 4];
        self.ioctl(socket, command, &mut number)?;
        Ok(i32::from_ne_bytes(number))
    }

    /// `ioctl(2)` with what the command reads and writes: beside numbers, the time of the last
    /// packet (16 bytes) and what is asked of an interface (`struct ifreq`, 40 bytes).
    ///
    /// # Errors
    /// `ENOTTY`: another command, or one that this kind of socket has not; `EINVAL`: the argument has
    /// not the size that belongs to the command.
    pub fn ioctl(&mut self, socket: SocketId, command: u32, argument: &mut [u8]) -> Result<()> {
        let handle = self.handle(socket)?;
        let sizes = [(4, &NUMBER_COMMANDS[..]), (16, &TIME_COMMANDS), (40, &INTERFACE_COMMANDS)];
        let Some((size, _)) = sizes.iter().find(|(_, commands)| commands.contains(&command)) else {
            return Err(Error::new(libc::ENOTTY, "ioctl"));
        };
        if argument.len() != *size {
            return Err(Error::new(libc::EINVAL, "ioctl"));
        }
        // SAFETY: the handle is of an open socket; these commands read and write so many bytes.
        let result = unsafe { self.library().ioctl(handle, command, argument.as_mut_ptr().cast()) };
        check(result as isize, "ioctl").map(drop)
    }

    /// `SIOCGIFCONF`: as many whole `struct ifreq` as fit. How many bytes of `list` are filled, or
    /// without a list how many would be.
    pub fn interface_list(&mut self, socket: SocketId, list: Option<&mut [u8]>) -> Result<usize> {
        let handle = self.handle(socket)?;
        let (size, at) = list.map_or((0, ptr::null_mut()), |l| (l.len() as c_int, l.as_mut_ptr()));
        let mut asked = sys::InterfaceList { size, list: at.cast() };
        // SAFETY: the handle is of an open socket; the list is as long as said.
        let result = unsafe { self.library().ioctl(handle, SIOCGIFCONF, (&raw mut asked).cast()) };
        check(result as isize, "ioctl")?;
        Ok(asked.size.max(0) as usize)
    }

    /// `EPOLLIN`, `EPOLLOUT`, `EPOLLERR`, `EPOLLHUP`, `EPOLLRDHUP`, as they hold now; 0 for a
    /// socket that is not there.
    pub fn poll(&mut self, socket: SocketId) -> u32 {
        // SAFETY: the handle is of an open socket.
        self.handle(socket).map_or(0, |handle| unsafe { self.library().poll(handle) })
    }
}

fn raw_message(data: &mut [IoSliceMut<'_>], name: &mut [u8], control: &mut [u8]) -> sys::Message {
    sys::Message {
        name: if name.is_empty() { ptr::null_mut() } else { name.as_mut_ptr().cast() },
        name_size: name.len() as u32,
        pieces: data.as_mut_ptr().cast(),
        count: data.len(),
        control: control.as_mut_ptr().cast(),
        control_size: control.len(),
        flags: 0,
    }
}
