//! Virtual functions of an interface (SR-IOV, PCI Express 6.0, section 9), as the driver of the physical function reports
//! them.

use std::io;

use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{
    LinkAttribute, LinkExtentMask, LinkMessage, LinkVfInfo, VfInfo, VfInfoMac, VfInfoSpoofCheck, VfInfoTrust,
    VfInfoVlan,
};

use crate::{Mac, Netlink, Object, Settings, Which};

/// A virtual function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Function {
    /// Number at the port, from 0.
    pub number: u32,
    /// Ethernet address that the port assigns; all zeros: the function may choose.
    pub mac: Mac,
    /// VLAN ID of its frames outside (IEEE 802.1Q); 0: none.
    pub vlan: u16,
    /// True if the port drops frames with another source address than the function's.
    pub spoof_check: bool,
    /// True if the function may override settings of the port, such as its address.
    pub trusted: bool,
}

/// A setting of a virtual function; each is changed by a request of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FunctionSetting {
    /// Ethernet address; all zeros: the function may choose.
    Mac(Mac),
    /// VLAN ID, 1 to 4094; 0: none.
    Vlan(u16),
    /// Drop frames with another source address.
    SpoofCheck(bool),
    /// Allow the function to override settings of the port.
    Trusted(bool),
}

impl FunctionSetting {
    fn attribute(self, number: u32) -> VfInfo {
        match self {
            Self::Mac(mac) => VfInfo::Mac(VfInfoMac::new(number, &mac)),
            Self::Vlan(vlan) => VfInfo::Vlan(VfInfoVlan::new(number, vlan.into(), 0)),
            Self::SpoofCheck(on) => VfInfo::SpoofCheck(VfInfoSpoofCheck::new(number, on)),
            Self::Trusted(on) => VfInfo::Trust(VfInfoTrust::new(number, on)),
        }
    }
}

impl Netlink {
    /// Returns the virtual functions of an interface, in the order of their numbers.
    ///
    /// # Errors
    /// ENODEV: there is no such interface.
    pub fn functions<'a>(&self, port: impl Into<Which<'a>>) -> io::Result<Vec<Function>> {
        let mut message = Settings::default().message(Some(port.into()));
        let extent = vec![LinkExtentMask::Vf, LinkExtentMask::SkipStats];
        message.attributes.push(LinkAttribute::ExtMask(extent));
        let Functions { functions, .. } = self.one(RouteNetlinkMessage::GetLink(message))?;
        Ok(functions)
    }

    /// Changes a setting of a virtual function.
    ///
    /// # Errors
    /// ENODEV: there is no such interface. EINVAL: it has no such function, or the driver rejects the value. EOPNOTSUPP: the
    /// driver does not support the setting.
    pub fn set_function<'a>(
        &self,
        port: impl Into<Which<'a>>,
        number: u32,
        setting: FunctionSetting,
    ) -> io::Result<()> {
        let mut message = Settings::default().message(Some(port.into()));
        message.attributes.push(LinkAttribute::VfInfoList(vec![LinkVfInfo(vec![setting.attribute(number)])]));
        self.change(RouteNetlinkMessage::SetLink(message), 0)
    }
}

/// An interface with its virtual functions.
#[derive(Clone, Debug, PartialEq)]
struct Functions {
    index: u32,
    functions: Vec<Function>,
}

impl Object for Functions {
    /// Interface index.
    type Id = u32;
    type Variant = ();

    fn wanted() -> RouteNetlinkMessage {
        RouteNetlinkMessage::GetLink(LinkMessage::default())
    }

    fn read(message: RouteNetlinkMessage) -> Option<(bool, Self)> {
        let RouteNetlinkMessage::NewLink(message) = message else { return None };
        let lists = message.attributes.iter().filter_map(|attribute| match attribute {
            LinkAttribute::VfInfoList(list) => Some(list),
            _ => None,
        });
        let mut functions: Vec<Function> =
            lists.flatten().filter_map(|LinkVfInfo(attributes)| function(attributes)).collect();
        functions.sort_by_key(|function| function.number);
        Some((true, Self { index: message.header.index, functions }))
    }

    fn key(&self) -> (u32, ()) {
        (self.index, ())
    }
}

/// Returns `None` if the number, which is reported together with the address, is missing.
fn function(attributes: &[VfInfo]) -> Option<Function> {
    let (mut function, mut is_numbered) = (Function::default(), false);
    for attribute in attributes {
        match attribute {
            VfInfo::Mac(told) => {
                let own = function.mac.len();
                function.mac.copy_from_slice(&told.mac[..own]);
                (function.number, is_numbered) = (told.vf_id, true);
            }
            // A VLAN ID has 12 bits; a larger number from a driver counts as none.
            VfInfo::Vlan(told) => function.vlan = u16::try_from(told.vlan_id).unwrap_or(0),
            VfInfo::SpoofCheck(told) => function.spoof_check = told.enabled,
            VfInfo::Trust(told) => function.trusted = told.enabled,
            _ => {}
        }
    }
    is_numbered.then_some(function)
}

#[cfg(test)]
mod tests;
