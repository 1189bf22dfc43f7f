//! Generic netlink: families by their name.

use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::netlink::{Request, attributes};

const NETLINK_GENERIC: i32 = 16;

// linux/genetlink.h: the controller.
const GENL_ID_CTRL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;

/// `struct genlmsghdr`.
const HEADER: usize = 4;

impl Kernel {
    fn family(&mut self, name: &str) -> Result<u16> {
        let what = "looking for a family of generic netlink";
        let request = Request::new(GENL_ID_CTRL, 0, &[CTRL_CMD_GETFAMILY, 1, 0, 0])
            .attribute(CTRL_ATTR_FAMILY_NAME, format!("{name}\0").as_bytes());
        let answers = self.ask(NETLINK_GENERIC, request, what)?;
        answers
            .iter()
            .filter_map(|answer| answer.get(HEADER..))
            .flat_map(attributes)
            .find(|(kind, _)| *kind == CTRL_ATTR_FAMILY_ID)
            .and_then(|(_, value)| Some(u16::from_ne_bytes(value.try_into().ok()?)))
            .ok_or(Error::new(libc::ENOENT, what))
    }

    /// Asks a family; answers are attributes, without headers.
    pub(crate) fn ask_family(
        &mut self,
        family: &str,
        command: u8,
        flags: u16,
        fill: impl FnOnce(Request) -> Request,
        what: &'static str,
    ) -> Result<Vec<Vec<u8>>> {
        let id = self.family(family)?;
        let request = fill(Request::new(id, flags, &[command, 1, 0, 0]));
        let mut answers = self.ask(NETLINK_GENERIC, request, what)?;
        for answer in &mut answers {
            answer.drain(..HEADER.min(answer.len()));
        }
        Ok(answers)
    }
}
