//! `vf:IF`: a virtual function of a port with SR-IOV, for a kernel router. Its interface is moved into the router's namespace,
//! and returned when the router ends; then the port's settings for it (address, VLAN, spoof check) are restored.

use kernel_router::Origin;
use sriov::{FunctionRequest, Port, Sysfs};

use crate::attach::interface;
use crate::{
    AttachmentProperties, Finding, KernelUse, Key, Kind, MissingRequirement, NicRequirements, Place, State,
    Takes, lack,
};

/// Key: number of the function at its port.
const FUNCTION: &str = "function";
/// Key: number of functions that the port should have.
const FUNCTIONS: &str = "functions";
const VLAN: &str = "vlan";
const SPOOF_CHECK: &str = "spoof_check";

pub(crate) const KIND: Kind = Kind {
    keys: &[
        Key {
            verb: "function ",
            ..Key::new(
                FUNCTION,
                Takes::Number(0..=1023),
                ("0 to 1023", "any that is free"),
                "number of the virtual function of a vf:",
            )
        },
        Key {
            verb: "of ",
            ..Key::new(
                FUNCTIONS,
                Takes::Number(1..=1024),
                ("1 to 1024", "as many as there are"),
                "number of virtual functions of the port",
            )
        },
        Key {
            verb: "VLAN ",
            ..Key::new(
                VLAN,
                Takes::Number(0..=4094),
                ("0 to 4094", "as it is"),
                "the VLAN that the port puts the function into; 0: none",
            )
        },
        Key {
            verb: "spoof check ",
            ..Key::new(
                SPOOF_CHECK,
                Takes::Flag,
                ("true, false", "as it is"),
                "have the port drop frames of the function with other source addresses",
            )
        },
    ],
    read: interface,
    traits: |_| AttachmentProperties {
        is_common: true,
        changes_interfaces: true,
        is_on_interface: true,
        ..AttachmentProperties::default()
    },
    kernel: Some(KernelUse { look, origin, open: None, has_napi: true, needs_tun: false }),
    ..Kind::plain("vf", Some("INTERFACE"), Place::Kernel)
};

/// Request of a NIC for a virtual function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// The requested interface and function.
    pub wish: FunctionRequest,
    /// Number of functions that the port should have; `None`: unchanged.
    pub count: Option<u32>,
    /// Settings that the port should have for the function.
    pub wanted: sriov::FunctionSettings,
}

impl NicRequirements {
    /// Returns the virtual function that the NIC requests, if it requests one.
    pub fn function(&self) -> Option<Function> {
        if self.attach.kind() != KIND.word {
            return None;
        }
        let number = |key| self.attach.key(key).and_then(|value| value.parse().ok());
        let (nic, interface) = (self.label(), self.attach.name().to_owned());
        let wish = FunctionRequest { nic, interface, function: number(FUNCTION), held: None };
        let spoof_check = self.attach.key(SPOOF_CHECK).map(|value| value == "true");
        let vlan = number(VLAN).and_then(|vlan| u16::try_from(vlan).ok());
        let wanted = sriov::FunctionSettings { vlan, spoof_check, ..sriov::FunctionSettings::default() };
        Some(Function { wish, count: number(FUNCTIONS), wanted })
    }
}

fn look(wanted: &NicRequirements) -> Result<Finding, Vec<MissingRequirement>> {
    let port = Sysfs::here().port_of(wanted.attach.name()).map_err(|error| lack(error.to_string()))?;
    let count = wanted.function().and_then(|function| function.count);
    if let Some(count) = count {
        let refused = |error: sriov::Error| vec![(FUNCTIONS, error.to_string())];
        let _ = sriov::plan_function_count(&port, count, &[]).map_err(refused)?;
    } else if port.functions.is_empty() {
        let none = sriov::Error::NoneMade { port: port.label(), most: port.max_functions };
        return Err(lack(none.to_string()));
    }
    Ok((State::Ok, told(&port, count)))
}

fn told(port: &Port, count: Option<u32>) -> String {
    let of = count.unwrap_or(port.count());
    format!(
        "takes one of the {of} virtual functions of {}, which moves into the router's namespace",
        port.label()
    )
}

/// The name of the function's interface is known only after the claim; until then the port's name is a placeholder.
fn origin(wanted: &NicRequirements) -> Origin {
    Origin::Moved { link: wanted.attach.name().to_owned() }
}
