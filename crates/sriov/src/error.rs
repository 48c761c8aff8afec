//! Errors of this crate, each formatted as one line.

use std::io;

use crate::Address;

/// Reason for which a virtual function could not be found, created or claimed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No interface has this name.
    #[error(
        "there is no interface `{interface}` with virtual functions in this network namespace; see `ip link`"
    )]
    NoInterface {
        /// The name.
        interface: String,
    },
    /// The interface has no PCI device: a veth or a bridge, for example.
    #[error(
        "`{interface}` is not a PCI device, so it has no virtual functions; use `macvlan:{interface}` instead"
    )]
    NotPci {
        /// The interface.
        interface: String,
    },
    /// The device, its driver or the kernel (`CONFIG_PCI_IOV`) does not support SR-IOV.
    #[error(
        "`{interface}` has no virtual functions: its device, its driver or this kernel (CONFIG_PCI_IOV) lacks SR-IOV; use \
         `macvlan:{interface}` instead"
    )]
    NoSriov {
        /// The interface.
        interface: String,
    },
    /// The port has no functions yet.
    #[error(
        "`{port}` has none of its up to {most} virtual functions enabled; write `functions = N`, or `echo N > \
         /sys/class/net/{port}/device/sriov_numvfs`"
    )]
    NoneMade {
        /// The port.
        port: String,
        /// Maximum number of functions of the port.
        most: u32,
    },
    /// More functions are requested than the device supports.
    #[error("`{port}` can have at most {most} virtual functions, not {wanted}")]
    TooMany {
        /// The port.
        port: String,
        /// Requested number of functions.
        wanted: u32,
        /// Maximum number of functions of the port.
        most: u32,
    },
    /// The number of functions cannot change while one of them is in use.
    #[error(
        "the number of virtual functions of `{port}` cannot change from {now} to {wanted}: that removes all of them, and function {busy} is \
         in use; stop the router that uses it, or write `functions = {now}`"
    )]
    Busy {
        /// The port.
        port: String,
        /// Present number of functions.
        now: u32,
        /// Requested number of functions.
        wanted: u32,
        /// Number of a function that is in use.
        busy: u32,
    },
    /// The port has no function of this number.
    #[error("`{port}` has no virtual function {number}: it has {now}, counted from 0")]
    NoFunction {
        /// The port.
        port: String,
        /// Number of the missing function.
        number: u32,
        /// Present number of functions.
        now: u32,
    },
    /// Two NICs request the same function.
    #[error(
        "{first} and {second} both request virtual function {number} of `{port}`; give one of them another `function`"
    )]
    TwoWant {
        /// The port.
        port: String,
        /// Number of the function.
        number: u32,
        /// One of the NICs, as in `edge.wan`.
        first: String,
        /// The other NIC.
        second: String,
    },
    /// Fewer functions are free than are requested.
    #[error(
        "no virtual function of `{port}` is free for {nic}: all {now} are in use or requested; enable more (`functions`)"
    )]
    NoneLeft {
        /// The port.
        port: String,
        /// The NIC, as in `edge.wan`.
        nic: String,
        /// Present number of functions.
        now: u32,
    },
    /// The function has no interface in our namespace.
    #[error("virtual function {number} of `{port}` ({address}) {why}")]
    NotHere {
        /// The port.
        port: String,
        /// Number of the function.
        number: u32,
        /// PCI address of the function.
        address: Address,
        /// Where its interface is, and what to do about it.
        why: String,
    },
    /// A multicast address: no single station can have it.
    #[error(
        "{mac} cannot be the address of a virtual function: expected a unicast address, e.g. 02:00:00:00:00:01"
    )]
    Mac {
        /// The address.
        mac: String,
    },
    /// The VLAN ID is out of range.
    #[error("VLAN {vlan} is out of range: expected 1 to 4094, or 0 for no VLAN")]
    Vlan {
        /// The VLAN ID.
        vlan: u16,
    },
    /// The kernel refused an operation.
    #[error("{what}: {answer}")]
    System {
        /// The attempted operation.
        what: String,
        /// The kernel's error.
        answer: io::Error,
    },
}

impl Error {
    pub(crate) fn system(what: impl Into<String>, answer: io::Error) -> Self {
        Self::System { what: what.into(), answer }
    }
}
