//! A frame of the library as one that the links carry.

use transom_emulator::Body;
use transom_netstack::Frame;

/// Of an interface with Ethernet.
#[derive(Debug)]
pub struct Carried(pub Frame);

impl Body for Carried {
    fn head(&self) -> &[u8] {
        self.0.head()
    }

    fn size(&self) -> usize {
        self.0.size()
    }
}
