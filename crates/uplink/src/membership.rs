//! The bridge that a TAP of ours is a member of: whether it still is, and how it becomes one again. Bridges are somebody
//! else's, and come and go: a TAP that stays behind without one carries nothing and says nothing.

use std::io;

use crate::netlink::Netlink;
use crate::{Error, Links, bridge, ovs};

/// That a TAP belongs into a bridge.
#[derive(Clone, Debug)]
pub struct Membership {
    tap: String,
    bridge: String,
    kind: Kind,
    /// What the kernel showed when it was put in.
    good: Sight,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Kernel,
    OpenVswitch,
}

/// What the kernel shows of a TAP and its bridge, for the price of two requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sight {
    /// Index of the interface that has the name of the bridge. Open vSwitch makes one, in either datapath.
    bridge: Option<u32>,
    /// Index of what the TAP is a member of, as the kernel knows it; none in a datapath in user space.
    master: Option<u32>,
    /// Times somebody has asked to hear everything by the TAP: who takes a port asks, and takes it back.
    promiscuous: Option<u32>,
}

impl Membership {
    /// A TAP that was put into a bridge of the kernel just now, in the calling thread's namespace.
    pub(crate) fn in_kernel(tap: &str, bridge: &str) -> Self {
        Self::now(tap, bridge, Kind::Kernel)
    }

    /// A TAP that was put into a bridge of Open vSwitch just now, in the calling thread's namespace.
    pub(crate) fn in_open_vswitch(tap: &str, bridge: &str) -> Self {
        Self::now(tap, bridge, Kind::OpenVswitch)
    }

    fn now(tap: &str, bridge: &str, kind: Kind) -> Self {
        Self { tap: tap.to_owned(), bridge: bridge.to_owned(), kind, good: Sight::of(tap, bridge) }
    }

    /// The bridge, in words.
    pub fn place(&self) -> String {
        match self.kind {
            Kind::Kernel => format!("the bridge `{}`", self.bridge),
            Kind::OpenVswitch => format!("the bridge `{}` of Open vSwitch", self.bridge),
        }
    }

    /// Whether nothing speaks for its having been put out, in the calling thread's namespace. Cheap. What somebody has put
    /// into another bridge on purpose is well where it is.
    pub fn looks_well(&self) -> bool {
        let now = Sight::of(&self.tap, &self.bridge);
        match self.kind {
            Kind::Kernel => now.master.is_some(),
            Kind::OpenVswitch => now == self.good,
        }
    }

    /// Puts it in again if it is out; true if it was. Open vSwitch may take seconds to answer.
    ///
    /// # Errors
    /// One line: there is no such bridge yet, or Open vSwitch does not answer.
    pub fn restore(&mut self) -> Result<bool, Error> {
        let was_out = match self.kind {
            Kind::Kernel => self.join_kernel()?,
            Kind::OpenVswitch => self.join_open_vswitch()?,
        };
        self.good = Sight::of(&self.tap, &self.bridge);
        Ok(was_out)
    }

    fn join_kernel(&self) -> Result<bool, Error> {
        if self.looks_well() {
            return Ok(false);
        }
        let links = Links::here()?;
        if links.index(&self.bridge).is_err() {
            return Err(self.refused("it is not there"));
        }
        bridge::join(&links, &self.tap, &self.bridge).map(|()| true)
    }

    fn join_open_vswitch(&self) -> Result<bool, Error> {
        // Its database may outlive it, and tell what was.
        if Sight::of(&self.tap, &self.bridge).bridge.is_none() {
            return Err(self.refused("its interface is not there; does ovs-vswitchd run?"));
        }
        ovs::rejoin(&self.tap, &self.bridge)
    }

    fn refused(&self, why: &str) -> Error {
        let what = format!("cannot put `{}` into {}", self.tap, self.place());
        Error::Refused { what, why: why.to_owned() }
    }
}

impl Sight {
    /// What cannot be asked is not there.
    fn of(tap: &str, bridge: &str) -> Self {
        let Ok(links) = Links::here() else { return Self::default() };
        let attributes = |index| {
            let kernel = Netlink::open()?;
            let number = |kind| Ok::<_, io::Error>(number(kernel.attribute(index, kind)?));
            Ok((number(libc::IFLA_MASTER)?, number(libc::IFLA_PROMISCUITY)?))
        };
        let of_tap: io::Result<_> = links.index(tap).map_err(io::Error::other).and_then(attributes);
        let (master, promiscuous) = of_tap.unwrap_or_default();
        Self { bridge: links.index(bridge).ok(), master, promiscuous }
    }
}

/// An attribute of four octets.
fn number(attribute: Option<Vec<u8>>) -> Option<u32> {
    attribute?.first_chunk().copied().map(u32::from_ne_bytes)
}
