//! Membership of a TAP in a bridge: whether it still is a member, and how it is added again. Bridges belong
//! to others, and come and go: a TAP without its bridge carries no frames, and reports no error.

use std::fs;
use std::sync::{Arc, Mutex, PoisonError};

use crate::{Error, Links, bridge, ovs};

/// Membership of a TAP in a bridge. Clones share the state in which the TAP was last added.
#[derive(Clone, Debug)]
pub struct Membership {
    tap: String,
    bridge: String,
    kind: Kind,
    /// The kernel's view when the TAP was last added.
    good: Arc<Mutex<BridgeView>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Kernel,
    OpenVswitch,
}

/// The kernel's view of a TAP and its bridge, obtained by two requests and the read of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct BridgeView {
    /// Index of the interface with the name of the bridge. Open vSwitch creates one, with either datapath.
    bridge: Option<u32>,
    /// Index of the TAP's master in the kernel; `None` with a datapath in user space.
    master: Option<u32>,
    /// Packet sockets at the TAP, by inode: a datapath in user space reads the TAP by one of them. (`tcpdump`
    /// has one as well.)
    readers: Vec<u64>,
}

impl Membership {
    /// Records that a TAP was just added to a kernel bridge, in the calling thread's namespace.
    pub(crate) fn in_kernel(tap: &str, bridge: &str) -> Self {
        Self::now(tap, bridge, Kind::Kernel)
    }

    /// Records that a TAP was just added to a bridge of Open vSwitch, in the calling thread's namespace.
    pub(crate) fn in_open_vswitch(tap: &str, bridge: &str) -> Self {
        Self::now(tap, bridge, Kind::OpenVswitch)
    }

    fn now(tap: &str, bridge: &str, kind: Kind) -> Self {
        let good = Arc::new(Mutex::new(BridgeView::of(tap, bridge)));
        Self { tap: tap.to_owned(), bridge: bridge.to_owned(), kind, good }
    }

    /// Describes the bridge.
    pub fn place(&self) -> String {
        match self.kind {
            Kind::Kernel => format!("the bridge `{}`", self.bridge),
            Kind::OpenVswitch => format!("the bridge `{}` of Open vSwitch", self.bridge),
        }
    }

    /// Returns true unless there are signs that it was removed, in the calling thread's namespace. Cheap. A
    /// TAP that was moved to another bridge on purpose is left there.
    pub fn seems_attached(&self) -> bool {
        let now = BridgeView::of(&self.tap, &self.bridge);
        match self.kind {
            Kind::Kernel => now.master.is_some(),
            Kind::OpenVswitch => now == *self.good.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Adds it again if it was removed; returns true if it was. Open vSwitch may take seconds to answer.
    ///
    /// # Errors
    /// One line: the bridge does not exist yet, or Open vSwitch does not answer.
    pub fn restore(&self) -> Result<bool, Error> {
        let was_out = match self.kind {
            Kind::Kernel => self.join_kernel()?,
            Kind::OpenVswitch => self.join_open_vswitch()?,
        };
        let now = BridgeView::of(&self.tap, &self.bridge);
        *self.good.lock().unwrap_or_else(PoisonError::into_inner) = now;
        Ok(was_out)
    }

    fn join_kernel(&self) -> Result<bool, Error> {
        if self.seems_attached() {
            return Ok(false);
        }
        let links = Links::here()?;
        if links.index(&self.bridge).is_err() {
            return Err(self.refused("it is not there"));
        }
        bridge::join(&links, &self.tap, &self.bridge).map(|()| true)
    }

    /// Checks the datapath as well: the database may outlive the switch, and describe an old state.
    fn join_open_vswitch(&self) -> Result<bool, Error> {
        let was_out = ovs::rejoin(&self.tap, &self.bridge)?;
        let now = BridgeView::of(&self.tap, &self.bridge);
        if now.bridge.is_none() || !now.is_served() {
            return Err(self.refused("it is in the database, but nobody serves it; does ovs-vswitchd run?"));
        }
        Ok(was_out)
    }

    fn refused(&self, why: &str) -> Error {
        let what = format!("cannot put `{}` into {}", self.tap, self.place());
        Error::Refused { what, why: why.to_owned() }
    }
}

impl BridgeView {
    /// Queries the kernel; what cannot be queried counts as missing.
    fn of(tap: &str, bridge: &str) -> Self {
        let Ok(links) = Links::here() else { return Self::default() };
        let bridge = links.index(bridge).ok();
        let Ok(tap) = links.link(tap, "looking for") else { return Self { bridge, ..Self::default() } };
        let sockets = fs::read_to_string("/proc/thread-self/net/packet").unwrap_or_default();
        Self { bridge, master: tap.master, readers: readers(&sockets, tap.index) }
    }

    /// Returns true if a datapath may be reading the TAP.
    fn is_served(&self) -> bool {
        self.master.is_some() || !self.readers.is_empty()
    }
}

/// Returns the inodes of the packet sockets at an interface, from the kernel's list
/// (`net/packet/af_packet.c`, `packet_seq_show`).
fn readers(list: &str, interface: u32) -> Vec<u64> {
    const INTERFACE: usize = 4;
    const INODE: usize = 8;
    let of_line = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        let at: u32 = words.get(INTERFACE)?.parse().ok()?;
        if at == interface { words.get(INODE)?.parse().ok() } else { None }
    };
    let mut readers: Vec<u64> = list.lines().filter_map(of_line).collect();
    readers.sort_unstable();
    readers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packet_sockets_are_found_by_their_interface() {
        let list = "sk               RefCnt Type Proto  Iface R Rmem   User   Inode\n\
                    00000000a1b2c3d4 3      3    0003   4     1 0      0      90211\n\
                    00000000a1b2c3d5 3      3    0003   7     1 0      0      90315\n\
                    00000000a1b2c3d6 3      3    0003   4     1 0      0      90100\n\
                    damaged\n";
        assert_eq!(readers(list, 4), [90_100, 90_211]);
        assert_eq!(readers(list, 7), [90_315]);
        assert!(readers(list, 1).is_empty() && readers("", 4).is_empty());
    }
}
