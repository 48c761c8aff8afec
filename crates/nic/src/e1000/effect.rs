//! Requests that a register access makes to the device's environment.

use std::sync::Arc;

use ring::e1000::{HeadTail, Layout};

use super::filters::Filters;
use super::statistics::Statistics;

/// A request to the VMM, returned by [`take_effects`](super::E1000::take_effects). The VMM must handle requests one
/// after the other, before the driver's access returns.
#[derive(Clone, Debug)]
pub enum Effect {
    /// [`bars`](super::E1000::bars) has changed.
    BarsMoved,
    /// Start to transmit from this ring, which was not served before.
    TransmitStarted(TxSetup),
    /// Stop all access to the transmit ring.
    TransmitStopped,
    /// The driver wrote TDT of a running transmit ring; [`HeadTail`] is already updated.
    TransmitTail,
    /// The settings of the running transmit ring have changed.
    TransmitChanged(TxSettings),
    /// Start to receive into this ring, which was not served before.
    ReceiveStarted(RxSetup),
    /// Stop all access to the receive ring.
    ReceiveStopped,
    /// The driver wrote RDT of a running receive ring; [`HeadTail`] is already updated.
    ReceiveTail,
    /// The settings of the running receive ring have changed.
    ReceiveChanged(RxSettings),
    /// Interrupt causes, their mask or their timers have changed: query [`Interrupts::line`](super::Interrupts::line).
    LineChanged,
}

/// A transmit ring as the driver set it up. The addresses are the driver's and unchecked: check them against guest
/// memory.
#[derive(Clone, Debug)]
pub struct TxSetup {
    /// Location of the ring.
    pub layout: Layout,
    /// Head and tail: the values of TDH and TDT.
    pub ends: Arc<HeadTail>,
    /// Guest-physical address of the status block, if the driver gave one.
    pub block: Option<u64>,
    /// Counters that the data path updates.
    pub statistics: Arc<Statistics>,
    /// Settings for transmission.
    pub settings: TxSettings,
}

/// A receive ring as the driver set it up, see [`TxSetup`].
#[derive(Clone, Debug)]
pub struct RxSetup {
    /// Location of the ring.
    pub layout: Layout,
    /// Head and tail: the values of RDH and RDT.
    pub ends: Arc<HeadTail>,
    /// Guest-physical address of the status block, if the driver gave one.
    pub block: Option<u64>,
    /// Counters that the data path updates.
    pub statistics: Arc<Statistics>,
    /// Settings for reception.
    pub settings: RxSettings,
}

/// Settings for transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxSettings {
    /// Pad frames to 60 octets (TCTL.PSP).
    pub pad_short: bool,
    /// Insert the VLAN tags that descriptors request (CTRL.VME).
    pub vlan: bool,
    /// EtherType of the tags (VET).
    pub vlan_type: u16,
    /// Longest frame that is sent, in octets without FCS and VLAN tag: MTU and Ethernet header.
    pub longest: usize,
    /// Threshold for TXD_LOW in waiting descriptors: 8 times TXDCTL.LWTHRESH.
    pub low: u16,
    /// Frames go to the device's own receive ring (RCTL.LBM) instead of out.
    pub loopback: bool,
}

/// Settings for reception.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RxSettings {
    /// Length of each buffer in octets (RCTL.BSIZE, BSEX).
    pub buffer_len: u32,
    /// Longest frame that is accepted, in octets without FCS (RCTL.LPE).
    pub longest: usize,
    /// Each frame is followed by four octets for the FCS, which its length includes (RCTL.SECRC is 0).
    pub fcs: bool,
    /// Move VLAN tags from frames to descriptors (CTRL.VME).
    pub vlan: bool,
    /// EtherType of the tags (VET).
    pub vlan_type: u16,
    /// Filters that select the frames to receive.
    pub filters: Arc<Filters>,
    /// Checksum offload.
    pub checksum: RxChecksum,
    /// Divisor for RXDMT0, which is raised when fewer than the ring's entries divided by it are free: 2, 4 or 8
    /// (RCTL.RDMTS).
    pub threshold: u32,
    /// Only frames of the device's own transmit ring are received (RCTL.LBM).
    pub loopback: bool,
}

/// Receive checksum offload: results that receive descriptors report (RXCSUM).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RxChecksum {
    /// Octet of the frame at which the packet checksum starts (PCSS).
    pub start: u8,
    /// Check the IPv4 header (IPOFL).
    pub ip: bool,
    /// Check TCP and UDP (TUOFL).
    pub transport: bool,
}
