//! Per-function settings, and the steps that apply and restore them. Pure.

use netlink::{Function as Seen, FunctionSetting, FunctionVlan, Mac};
use serde::{Deserialize, Serialize};

use crate::{Address, Error};

/// Settings that a NIC requests for its virtual function. `None`: the setting stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FunctionSettings {
    /// Ethernet address that the port assigns; all zeros: the function's driver may choose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<Mac>,
    /// VLAN into which the port puts the function's frames; 0: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<u16>,
    /// Priority of the tag of this VLAN, 0 to 7.
    #[serde(default)]
    pub vlan_priority: u8,
    /// True if this VLAN has a service tag (IEEE 802.1ad).
    #[serde(default)]
    pub is_service_vlan: bool,
    /// Drop frames that the function sends with another source address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spoof_check: Option<bool>,
    /// Allow the function to change its address and to receive promiscuously.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trusted: Option<bool>,
}

impl FunctionSettings {
    /// Checks that a function can have these settings.
    ///
    /// # Errors
    /// One line: a multicast address, or a VLAN ID out of range.
    pub fn check(&self) -> Result<(), Error> {
        if let Some(mac) = self.mac.filter(|mac| mac[0] & 1 != 0) {
            let octets: Vec<String> = mac.iter().map(|octet| format!("{octet:02x}")).collect();
            return Err(Error::Mac { mac: octets.join(":") });
        }
        match self.vlan.filter(|vlan| *vlan > 4094) {
            Some(vlan) => Err(Error::Vlan { vlan }),
            None => Ok(()),
        }
    }

    /// All settings of a function, as the port reports them.
    pub(crate) fn as_seen(seen: &Seen) -> Self {
        Self {
            mac: Some(seen.mac),
            vlan: Some(seen.vlan.id),
            vlan_priority: seen.vlan.priority,
            is_service_vlan: seen.vlan.is_service,
            spoof_check: Some(seen.spoof_check),
            trusted: Some(seen.trusted),
        }
    }

    /// Of these settings, those that `wanted` changes.
    pub(crate) fn touched_by(&self, wanted: &Self) -> Self {
        Self {
            vlan_priority: self.vlan_priority,
            is_service_vlan: self.is_service_vlan,
            mac: self.mac.filter(|mac| wanted.mac.is_some_and(|wanted| wanted != *mac)),
            vlan: self.vlan.filter(|vlan| wanted.vlan.is_some_and(|wanted| wanted != *vlan)),
            spoof_check: self.spoof_check.filter(|on| wanted.spoof_check.is_some_and(|wanted| wanted != *on)),
            trusted: self.trusted.filter(|on| wanted.trusted.is_some_and(|wanted| wanted != *on)),
        }
    }
}

/// Settings of a function before a claim, for restoring them. The cleaner gets a copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FormerSettings {
    /// PCI address of the port.
    pub port: Address,
    /// Number of the function at the port.
    pub number: u32,
    /// PCI address of the function.
    pub address: Address,
    /// Former name of the function's interface.
    pub interface: String,
    /// Former values of those settings that the claim changes.
    pub settings: FunctionSettings,
}

/// A step towards the requested settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Change a setting at the port.
    Set(FunctionSetting),
    /// Unbind and bind the function's driver: igbvf reads its address from the port only when it is probed. This creates a new
    /// interface, possibly with another name.
    Rebind,
}

/// Steps from the present settings to the requested ones; empty if these are in force. Trust is set first, because a driver may
/// allow some settings for trusted functions only. The driver is rebound last.
pub fn steps(seen: &Seen, wanted: &FunctionSettings) -> Vec<Step> {
    let trusted = wanted.trusted.filter(|on| *on != seen.trusted).map(FunctionSetting::Trusted);
    let mac = wanted.mac.filter(|mac| *mac != seen.mac).map(FunctionSetting::Mac);
    let tag = |id| FunctionVlan { id, priority: wanted.vlan_priority, is_service: wanted.is_service_vlan };
    let vlan = wanted.vlan.filter(|vlan| *vlan != seen.vlan.id).map(|id| FunctionSetting::Vlan(tag(id)));
    let spoof_check =
        wanted.spoof_check.filter(|on| *on != seen.spoof_check).map(FunctionSetting::SpoofCheck);
    let set = [trusted, mac, vlan, spoof_check].into_iter().flatten().map(Step::Set);
    set.chain(mac.map(|_| Step::Rebind)).collect()
}
