//! Generic netlink: families by their name.

use transom_link::netlink::{Message, Request, family_number};

use crate::error::{Error, Result};
use crate::kernel::Kernel;

const NETLINK_GENERIC: i32 = libc::NETLINK_GENERIC;

impl Kernel {
    /// Asks a family; [`Message::attributes`] of the answers begin behind the generic header.
    pub(crate) fn ask_family(
        &mut self,
        family: &str,
        command: u8,
        flags: u16,
        fill: impl FnOnce(Request) -> Request,
        what: &'static str,
    ) -> Result<Vec<Message>> {
        let looking = "looking for a family of generic netlink";
        let families = self.ask(NETLINK_GENERIC, Request::family(family), looking)?;
        let family = families.first().and_then(family_number);
        let family = family.ok_or(Error::new(libc::ENOENT, looking))?;
        self.ask(NETLINK_GENERIC, fill(Request::generic(family, command, flags)), what)
    }
}
