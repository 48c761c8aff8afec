//! The kernel's counters of interfaces (`struct rtnl_link_stats64` of `linux/if_link.h`).

use std::io;

use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkMessage, Stats64};

use crate::{Netlink, Object, Settings, Which};

/// Counters of an interface since its creation; `rx` is what the kernel received from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Frames received.
    pub rx_frames: u64,
    /// Octets received.
    pub rx_bytes: u64,
    /// Damaged frames received.
    pub rx_errors: u64,
    /// Frames received and lost: there was no room, or no protocol for them.
    pub rx_dropped: u64,
    /// Frames lost because the device had no room for them.
    pub rx_missed: u64,
    /// Frames received by an inactive port of a bond or the like, for which there is no handler.
    pub rx_no_handler: u64,
    /// Frames sent.
    pub tx_frames: u64,
    /// Octets sent.
    pub tx_bytes: u64,
    /// Frames that could not be sent.
    pub tx_errors: u64,
    /// Frames lost on transmission.
    pub tx_dropped: u64,
    /// Multicast frames received.
    pub multicast: u64,
}

impl Netlink {
    /// Returns the counters of all interfaces, by index.
    ///
    /// # Errors
    /// The kernel refuses, or the table changed during each attempt.
    pub fn statistics(&self) -> io::Result<Vec<(u32, Statistics)>> {
        let all: Vec<LinkStatistics> = self.all()?;
        Ok(all.into_iter().map(|counted| (counted.index, counted.statistics)).collect())
    }

    /// Reads the counters of one interface.
    ///
    /// # Errors
    /// ENODEV: there is none.
    pub fn statistics_of<'a>(&self, which: impl Into<Which<'a>>) -> io::Result<Statistics> {
        let message = Settings::default().message(Some(which.into()));
        let counted: LinkStatistics = self.one(RouteNetlinkMessage::GetLink(message))?;
        Ok(counted.statistics)
    }
}

/// An interface index with its counters.
#[derive(Clone, Debug, PartialEq)]
struct LinkStatistics {
    index: u32,
    statistics: Statistics,
}

impl Object for LinkStatistics {
    /// Interface index.
    type Id = u32;
    type Variant = ();

    fn wanted() -> RouteNetlinkMessage {
        RouteNetlinkMessage::GetLink(LinkMessage::default())
    }

    fn read(message: RouteNetlinkMessage) -> Option<(bool, Self)> {
        let RouteNetlinkMessage::NewLink(message) = message else { return None };
        let index = message.header.index;
        let counted = message.attributes.iter().find_map(|attribute| match attribute {
            LinkAttribute::Stats64(counted) => Some(Statistics::from(counted)),
            _ => None,
        });
        counted.map(|statistics| (true, Self { index, statistics }))
    }

    fn key(&self) -> (u32, ()) {
        (self.index, ())
    }
}

impl From<&Stats64> for Statistics {
    fn from(counted: &Stats64) -> Self {
        Self {
            rx_frames: counted.rx_packets,
            rx_bytes: counted.rx_bytes,
            rx_errors: counted.rx_errors,
            rx_dropped: counted.rx_dropped,
            rx_missed: counted.rx_missed_errors,
            rx_no_handler: counted.rx_nohandler,
            tx_frames: counted.tx_packets,
            tx_bytes: counted.tx_bytes,
            tx_errors: counted.tx_errors,
            tx_dropped: counted.tx_dropped,
            multicast: counted.multicast,
        }
    }
}
