//! The in-kernel path manager of MPTCP (RFC 8684): which of the library's addresses connections use.

use std::net::IpAddr;

use transom_link::netlink::{
    self, Attributes, GENERIC_HEADER, NLM_F_ACK, NLM_F_DUMP, Request, address_bytes, family,
};

use crate::error::Result;
use crate::kernel::Kernel;
use crate::nic::NicId;

const FAMILY: &str = "mptcp_pm";

// linux/mptcp_pm.h
const MPTCP_PM_CMD_ADD_ADDR: u8 = 1;
const MPTCP_PM_CMD_DEL_ADDR: u8 = 2;
const MPTCP_PM_CMD_GET_ADDR: u8 = 3;
const MPTCP_PM_CMD_SET_LIMITS: u8 = 5;
const MPTCP_PM_CMD_SET_FLAGS: u8 = 7;
const MPTCP_PM_ATTR_ADDR: u16 = 1;
const MPTCP_PM_ATTR_RCV_ADD_ADDRS: u16 = 2;
const MPTCP_PM_ATTR_SUBFLOWS: u16 = 3;
const MPTCP_PM_ADDR_ATTR_FAMILY: u16 = 1;
const MPTCP_PM_ADDR_ATTR_ID: u16 = 2;
const MPTCP_PM_ADDR_ATTR_ADDR4: u16 = 3;
const MPTCP_PM_ADDR_ATTR_ADDR6: u16 = 4;
const MPTCP_PM_ADDR_ATTR_FLAGS: u16 = 6;
const MPTCP_PM_ADDR_ATTR_IF_IDX: u16 = 7;

/// What an endpoint is for (ip-mptcp(8)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointFlags {
    /// Connections get a subflow from here.
    pub subflow: bool,
    /// It is announced to the peer (ADD_ADDR).
    pub signal: bool,
    /// Used only when no other path is left.
    pub backup: bool,
    /// Subflows from here to all addresses of the peer.
    pub fullmesh: bool,
}

impl EndpointFlags {
    fn bits(self) -> u32 {
        u32::from(self.signal)
            | u32::from(self.subflow) << 1
            | u32::from(self.backup) << 2
            | u32::from(self.fullmesh) << 3
    }

    fn from_bits(bits: u32) -> Self {
        Self {
            signal: bits & 1 != 0,
            subflow: bits & 2 != 0,
            backup: bits & 4 != 0,
            fullmesh: bits & 8 != 0,
        }
    }
}

/// An address that MPTCP connections may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    pub address: IpAddr,
    /// 1 to 255; 0 when adding: the kernel chooses.
    pub id: u8,
    pub flags: EndpointFlags,
}

fn with_address(request: Request, address: IpAddr, id: u8) -> Request {
    let kind = if address.is_ipv4() { MPTCP_PM_ADDR_ATTR_ADDR4 } else { MPTCP_PM_ADDR_ATTR_ADDR6 };
    request
        .attribute(MPTCP_PM_ADDR_ATTR_FAMILY, &u16::from(family(address)).to_ne_bytes())
        .attribute(MPTCP_PM_ADDR_ATTR_ID, &[id])
        .attribute(kind, &address_bytes(address))
}

fn endpoint(bytes: &[u8]) -> Option<Endpoint> {
    let mut address = None;
    let mut id = 0;
    let mut flags = EndpointFlags::default();
    for (kind, value) in Attributes(bytes) {
        match kind {
            MPTCP_PM_ADDR_ATTR_ID => id = *value.first()?,
            MPTCP_PM_ADDR_ATTR_ADDR4 | MPTCP_PM_ADDR_ATTR_ADDR6 => {
                address = netlink::address(value)
            }
            MPTCP_PM_ADDR_ATTR_FLAGS => {
                flags = EndpointFlags::from_bits(u32::from_ne_bytes(value.try_into().ok()?));
            }
            _ => {}
        }
    }
    Some(Endpoint { address: address?, id, flags })
}

impl Kernel {
    /// `ip mptcp endpoint add … dev …`.
    ///
    /// # Errors
    /// `EEXIST`: the address or the id is used; `EINVAL`: flags that exclude each other (signal
    /// and fullmesh).
    pub fn add_endpoint(&mut self, nic: NicId, endpoint: &Endpoint) -> Result<()> {
        let index = self.nic_index(nic).unwrap_or(0);
        let fill = |request: Request| {
            request.nested(MPTCP_PM_ATTR_ADDR, |inner| {
                with_address(inner, endpoint.address, endpoint.id)
                    .attribute(MPTCP_PM_ADDR_ATTR_FLAGS, &endpoint.flags.bits().to_ne_bytes())
                    .attribute(MPTCP_PM_ADDR_ATTR_IF_IDX, &index.to_ne_bytes())
            })
        };
        let what = "adding an MPTCP endpoint";
        self.ask_family(FAMILY, MPTCP_PM_CMD_ADD_ADDR, NLM_F_ACK, fill, what).map(drop)
    }

    /// Its subflows are closed; their bytes go over the others.
    ///
    /// # Errors
    /// `EINVAL`: no endpoint has this id.
    pub fn remove_endpoint(&mut self, endpoint: &Endpoint) -> Result<()> {
        let fill = |request: Request| {
            request.nested(MPTCP_PM_ATTR_ADDR, |inner| {
                with_address(inner, endpoint.address, endpoint.id)
            })
        };
        let what = "removing an MPTCP endpoint";
        self.ask_family(FAMILY, MPTCP_PM_CMD_DEL_ADDR, NLM_F_ACK, fill, what).map(drop)
    }

    /// `ip mptcp endpoint change id … [no]backup`: running connections follow (MP_PRIO).
    ///
    /// # Errors
    /// `EINVAL`: no endpoint has this id.
    pub fn set_endpoint_flags(&mut self, endpoint: &Endpoint) -> Result<()> {
        let fill = |request: Request| {
            request.nested(MPTCP_PM_ATTR_ADDR, |inner| {
                with_address(inner, endpoint.address, endpoint.id)
                    .attribute(MPTCP_PM_ADDR_ATTR_FLAGS, &endpoint.flags.bits().to_ne_bytes())
            })
        };
        let what = "changing an MPTCP endpoint";
        self.ask_family(FAMILY, MPTCP_PM_CMD_SET_FLAGS, NLM_F_ACK, fill, what).map(drop)
    }

    /// What `ip mptcp endpoint show` shows.
    pub fn endpoints(&mut self) -> Result<Vec<Endpoint>> {
        let what = "listing MPTCP endpoints";
        let answers =
            self.ask_family(FAMILY, MPTCP_PM_CMD_GET_ADDR, NLM_F_DUMP, |request| request, what)?;
        Ok(answers
            .iter()
            .flat_map(|answer| answer.attributes(GENERIC_HEADER))
            .filter(|(kind, _)| *kind == MPTCP_PM_ATTR_ADDR)
            .filter_map(|(_, value)| endpoint(value))
            .collect())
    }

    /// How many subflows beside the first a connection may have, and how many addresses it takes
    /// from its peer; each 0 to 8.
    ///
    /// # Errors
    /// `EINVAL`: more than 8.
    pub fn set_mptcp_limits(&mut self, subflows: u32, accepted_addresses: u32) -> Result<()> {
        let fill = |request: Request| {
            request
                .attribute(MPTCP_PM_ATTR_RCV_ADD_ADDRS, &accepted_addresses.to_ne_bytes())
                .attribute(MPTCP_PM_ATTR_SUBFLOWS, &subflows.to_ne_bytes())
        };
        let what = "setting MPTCP's limits";
        self.ask_family(FAMILY, MPTCP_PM_CMD_SET_LIMITS, NLM_F_ACK, fill, what).map(drop)
    }
}
