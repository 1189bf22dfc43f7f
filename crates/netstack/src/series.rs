//! The kernels that a program is linked with.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::sys::{self, Library};

/// A series of Linux: each is a library of its own, so kernels of two series run side by side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Series {
    /// 6.12, which every program is linked with.
    #[default]
    Linux612,
    /// 6.1, if it was built (`make linux`) before the program.
    Linux61,
}

impl Series {
    pub const ALL: [Series; 2] = [Series::Linux612, Series::Linux61];

    /// `6.12`, as the kernel's version begins.
    pub fn name(self) -> &'static str {
        match self {
            Series::Linux612 => "6.12",
            Series::Linux61 => "6.1",
        }
    }

    /// Whether this program is linked with it.
    pub fn is_built(self) -> bool {
        self.library().is_ok()
    }

    pub(crate) fn library(self) -> Result<&'static Library> {
        match self {
            Series::Linux612 => Ok(&sys::LINUX_6_12),
            #[cfg(linux_6_1)]
            Series::Linux61 => Ok(&sys::LINUX_6_1),
            #[cfg(not(linux_6_1))]
            Series::Linux61 => Err(Error::new(
                libc::EOPNOTSUPP,
                "boot: this program was built without Linux 6.1; run `make linux`, then build it again",
            )),
        }
    }
}

impl fmt::Display for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Series {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Series::ALL
            .into_iter()
            .find(|series| series.name() == name)
            .ok_or(Error::new(libc::EINVAL, "no library of this series of Linux: 6.12 or 6.1"))
    }
}
