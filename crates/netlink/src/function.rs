//! Virtual functions of an interface (SR-IOV, PCI Express 6.0, section 9), as the driver of the physical function reports
//! them.

use std::io;

use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{
    LinkAttribute, LinkExtentMask, LinkMessage, LinkVfInfo, VfInfo, VfInfoMac, VfInfoSpoofCheck, VfInfoTrust,
    VfInfoVlan, VfVlan, VfVlanInfo, VlanProtocol,
};

use crate::{Mac, Netlink, Object, Settings, Which};

/// A virtual function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Function {
    /// Number at the port, from 0.
    pub number: u32,
    /// Ethernet address that the port assigns; all zeros: the function may choose.
    pub mac: Mac,
    /// VLAN of its frames outside.
    pub vlan: FunctionVlan,
    /// True if the port drops frames with another source address than the function's.
    pub spoof_check: bool,
    /// True if the function may override settings of the port, such as its address.
    pub trusted: bool,
}

/// Tag that the port gives the frames of a virtual function (IEEE 802.1Q).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FunctionVlan {
    /// VLAN ID, 1 to 4094; 0: none.
    pub id: u16,
    /// Priority, 0 to 7.
    pub priority: u8,
    /// True for a service tag (802.1ad).
    pub is_service: bool,
}

impl FunctionVlan {
    /// Returns the tag of a VLAN with priority 0, which is no service tag.
    pub const fn new(id: u16) -> Self {
        Self { id, priority: 0, is_service: false }
    }

    fn attribute(self, number: u32) -> VfInfo {
        let (id, priority) = (self.id.into(), self.priority.into());
        if self.is_service {
            let tag = VfVlanInfo::new(number, id, priority, VlanProtocol::Ieee8021Ad);
            VfInfo::VlanList(vec![VfVlan::Info(tag)])
        } else {
            VfInfo::Vlan(VfInfoVlan::new(number, id, priority))
        }
    }
}

/// A setting of a virtual function; each is changed by a request of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FunctionSetting {
    /// Ethernet address; all zeros: the function may choose.
    Mac(Mac),
    /// VLAN of its frames outside.
    Vlan(FunctionVlan),
    /// Drop frames with another source address.
    SpoofCheck(bool),
    /// Allow the function to override settings of the port.
    Trusted(bool),
}

impl FunctionSetting {
    fn attribute(self, number: u32) -> VfInfo {
        match self {
            Self::Mac(mac) => VfInfo::Mac(VfInfoMac::new(number, &mac)),
            Self::Vlan(vlan) => vlan.attribute(number),
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
            VfInfo::Vlan(told) => {
                function.vlan.id = u16::try_from(told.vlan_id).unwrap_or(0);
                function.vlan.priority = u8::try_from(told.qos).unwrap_or(0);
            }
            // The only attribute with the protocol; the rest of it is that of the one before.
            VfInfo::VlanList(told) => {
                function.vlan.is_service = told.iter().any(is_service);
            }
            VfInfo::SpoofCheck(told) => function.spoof_check = told.enabled,
            VfInfo::Trust(told) => function.trusted = told.enabled,
            _ => {}
        }
    }
    is_numbered.then_some(function)
}

fn is_service(tag: &VfVlan) -> bool {
    matches!(tag, VfVlan::Info(tag) if tag.vlan_id != 0 && tag.protocol == VlanProtocol::Ieee8021Ad)
}

#[cfg(test)]
mod tests;
