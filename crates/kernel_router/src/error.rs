//! Errors of this crate, each formatted as one line.

use std::io;

use rustix::io::Errno;

use crate::{Fault, Mode, Object, Obstacle, Origin, Setting, Step};

/// Reason for which a router is not in the desired state.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration is invalid on every host.
    #[error("router `{router}`: {fault}")]
    Fault {
        /// Name of the router.
        router: String,
        /// The reason.
        fault: Fault,
    },
    /// Something in the namespace is in the way.
    #[error("router `{router}`: {obstacle}")]
    Obstacle {
        /// Name of the router.
        router: String,
        /// The reason.
        obstacle: Obstacle,
    },
    /// The kernel refused an operation.
    #[error("router `{router}`: {doing}: {why}")]
    Refused {
        /// Name of the router.
        router: String,
        /// The attempted operation.
        doing: String,
        /// The reason, and what to do about it.
        why: String,
        /// True if a name that the router needs is in use by another program.
        in_use: bool,
    },
    /// The namespace could not be created, published or entered.
    #[error("router `{router}`: {error}")]
    Namespace {
        /// Name of the router.
        router: String,
        /// The reason.
        error: netns::Error,
    },
}

impl Error {
    /// Returns true if a name that the router needs is in use: in /run/netns, or as the other end of a pair. After a crash it may
    /// belong to a leftover that is about to be removed.
    pub fn is_in_use(&self) -> bool {
        matches!(
            self,
            Self::Refused { in_use: true, .. } | Self::Namespace { error: netns::Error::InUse { .. }, .. }
        )
    }

    /// Error of a refused step.
    pub(crate) fn of_step(router: &str, step: &Step, refusal: Refusal) -> Self {
        let (why, in_use) = refusal.told(step);
        Self::Refused { router: router.to_owned(), doing: step.to_string(), why, in_use }
    }

    /// Error of another refused operation.
    pub(crate) fn refused(router: &str, doing: impl Into<String>, why: impl ToString) -> Self {
        let (doing, why) = (doing.into(), why.to_string());
        Self::Refused { router: router.to_owned(), doing, why, in_use: false }
    }

    /// Converts an error about the namespace of this router.
    pub(crate) fn of_namespace(router: &str) -> impl Fn(netns::Error) -> Self + use<> {
        let router = router.to_owned();
        move |error| Self::Namespace { router: router.clone(), error }
    }
}

/// Reason for which a step was not carried out.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The kernel's error.
    Kernel(io::Error),
    /// A sentence that explains it.
    Told(String),
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::Kernel(error)
    }
}

impl From<netns::Error> for Refusal {
    fn from(error: netns::Error) -> Self {
        match error {
            netns::Error::System { answer, .. } if answer.raw_os_error().is_some() => Self::Kernel(answer),
            other => Self::Told(other.to_string()),
        }
    }
}

impl Refusal {
    /// Explains why this step was refused. The second value is true if a name is in use by another program.
    fn told(self, step: &Step) -> (String, bool) {
        let error = match self {
            Self::Told(why) => return (why, false),
            Self::Kernel(error) => error,
        };
        let Some(errno) = error.raw_os_error().map(Errno::from_raw_os_error) else {
            return (error.to_string(), false);
        };
        let in_use = errno == Errno::EXIST && matches!(step, Step::Add(Object::Interface(_)));
        (sentence(step, errno).unwrap_or_else(|| error.to_string()), in_use)
    }
}

/// Reason for which there can be no VRF.
const NO_VRFS: &str = "this kernel has no VRFs: load them (`modprobe vrf`), or write another engine";
/// Reason for which a route cannot be added.
const ROUTE_EXISTS: &str = "another routing protocol has installed such a route: delete it";

/// Explains the kernel's error of a step, where its meaning is known.
fn sentence(step: &Step, errno: Errno) -> Option<String> {
    if matches!(errno, Errno::PERM | Errno::ACCESS) {
        return Some("not permitted; run as root (CAP_NET_ADMIN and CAP_SYS_ADMIN)".to_owned());
    }
    match step {
        Step::Add(Object::Interface(made)) => of_interface(&made.origin, errno),
        Step::Add(Object::Route(route)) => match errno {
            Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::INVAL => route.via.map(|via| {
                let interface = &route.interface;
                format!(
                    "{via} lies in no network that is connected to `{interface}`: give it an address there"
                )
            }),
            Errno::EXIST => Some(ROUTE_EXISTS.to_owned()),
            _ => None,
        },
        Step::Add(Object::SpreadRoute(_)) => of_spread(errno),
        Step::Add(Object::TypedRoute(_)) if errno == Errno::EXIST => Some(ROUTE_EXISTS.to_owned()),
        // VRFs need rules.
        Step::Add(Object::LocalRule { .. }) if matches!(errno, Errno::OPNOTSUPP | Errno::AFNOSUPPORT) => {
            Some(NO_VRFS.to_owned())
        }
        Step::Add(Object::Address { .. }) => match errno {
            Errno::EXIST => {
                Some("the interface already has this address, which ringroad has not set".to_owned())
            }
            _ => None,
        },
        Step::Parameter { .. } if errno == Errno::NOENT => {
            Some("this kernel has no such parameter".to_owned())
        }
        Step::Parameter { .. } if errno == Errno::INVAL => Some("it does not take this value".to_owned()),
        Step::Set { to: Setting::Threaded(_), .. } if errno == Errno::NOENT => {
            Some("this kernel does not support it: it needs Linux 5.12 and ethtool netlink".to_owned())
        }
        Step::Set { to: Setting::Queue(Some(queue)), .. } if errno == Errno::NOENT => {
            Some(format!("this kernel has no queueing discipline {}: choose another", queue.kind.name()))
        }
        Step::Set { .. } if errno == Errno::NODEV => Some("the interface is gone".to_owned()),
        _ => None,
    }
}

/// Explains that the host does not have an interface which is to be moved into a router.
pub(crate) fn not_on_host(link: &str) -> String {
    format!("the host has no interface `{link}`, or another router has taken it")
}

fn of_spread(errno: Errno) -> Option<String> {
    let why = match errno {
        Errno::OPNOTSUPP => {
            "this kernel has no groups of next hops (Linux 5.3): write one gateway, or another engine"
        }
        Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::INVAL => {
            "a gateway lies in no network that is connected to its interface: give it an address there"
        }
        Errno::NETDOWN => "an interface has lost its carrier meanwhile",
        Errno::EXIST => ROUTE_EXISTS,
        _ => return None,
    };
    Some(why.to_owned())
}

fn of_interface(origin: &Origin, errno: Errno) -> Option<String> {
    let why = match (origin, errno) {
        (Origin::Veth { peer, at, .. }, Errno::EXIST) => {
            format!("there is an interface `{peer}` {at} already: delete it, or choose another name")
        }
        (Origin::Veth { .. }, Errno::OPNOTSUPP) => {
            "this kernel has no veth driver: load it (`modprobe veth`)".to_owned()
        }
        (Origin::Macvlan { .. }, Errno::OPNOTSUPP) => {
            "this kernel has no macvlan driver: load it (`modprobe macvlan`)".to_owned()
        }
        (Origin::Macvlan { parent, .. }, Errno::NODEV) => format!("the host has no interface `{parent}`"),
        (Origin::Macvlan { parent, .. }, Errno::BUSY) => {
            format!("`{parent}` is in a bridge, bond or Open vSwitch: take it out of there")
        }
        (Origin::Macvlan { parent, .. }, Errno::ADDRINUSE) => {
            format!("another station on `{parent}` has the same Ethernet address: choose another `mac`")
        }
        (Origin::Macvlan { parent, mode: Mode::Passthru }, Errno::INVAL) => {
            format!("`{parent}` already has macvlans or macvtaps, but passthru needs it exclusively")
        }
        (Origin::Macvlan { parent, .. }, Errno::INVAL) => format!(
            "`{parent}` cannot have a macvlan: it is not an Ethernet interface, has one in mode passthru, or has a smaller MTU"
        ),
        (Origin::Vlan { .. } | Origin::ServiceVlan { .. }, Errno::OPNOTSUPP) => {
            "this kernel has no VLANs (802.1Q): load them (`modprobe 8021q`), or write another engine"
                .to_owned()
        }
        (Origin::Vlan { lower, id }, Errno::EXIST) => {
            format!("there is an interface of this name, or for VLAN {id} of `{lower}`, already: delete it")
        }
        (Origin::ServiceVlan { lower, id }, Errno::EXIST) => {
            format!("there is an interface for service VLAN {id} of `{lower}` already: delete it")
        }
        (Origin::Vlan { lower, .. } | Origin::ServiceVlan { lower, .. }, Errno::RANGE) => {
            format!("its MTU is larger than that of `{lower}`")
        }
        (Origin::Vrf { .. }, Errno::OPNOTSUPP) => NO_VRFS.to_owned(),
        (Origin::Moved { link }, Errno::NODEV) => not_on_host(link),
        (Origin::Moved { link }, Errno::INVAL) => {
            format!("`{link}` cannot leave its namespace: its driver does not support that")
        }
        _ => return None,
    };
    Some(why)
}
