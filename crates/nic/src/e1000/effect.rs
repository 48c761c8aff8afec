//! What a register access asks the world around the device to do.

use std::sync::Arc;

use ring::e1000::{Ends, Layout};

use super::filters::Filters;
use super::statistics::Statistics;

/// An order to whoever runs the device, given by [`take_effects`](super::E1000::take_effects). Orders are to be carried
/// out one after the other, before the driver's access returns.
#[derive(Clone, Debug)]
pub enum Effect {
    /// [`bars`](super::E1000::bars) has changed.
    BarsMoved,
    /// Transmit from this ring, which was not served before.
    TransmitStarted(TxSetup),
    /// Touch the transmit ring no more.
    TransmitStopped,
    /// TDT of a running transmit ring was written; [`Ends`] has it already.
    TransmitTail,
    /// The running transmit ring works by other settings now.
    TransmitChanged(TxSettings),
    /// Receive into this ring, which was not served before.
    ReceiveStarted(RxSetup),
    /// Touch the receive ring no more.
    ReceiveStopped,
    /// RDT of a running receive ring was written; [`Ends`] has it already.
    ReceiveTail,
    /// The running receive ring works by other settings now.
    ReceiveChanged(RxSettings),
    /// Interrupt causes, their mask or their timers have changed: ask [`Interrupts::line`](super::Interrupts::line).
    LineChanged,
}

/// A transmit ring as the driver set it up. Addresses are its word: check them against guest memory.
#[derive(Clone, Debug)]
pub struct TxSetup {
    /// Where it lies.
    pub layout: Layout,
    /// Head and tail: what TDH and TDT read.
    pub ends: Arc<Ends>,
    /// Guest-physical address of the status block, if the driver gave one.
    pub block: Option<u64>,
    /// Where to count.
    pub statistics: Arc<Statistics>,
    /// How to transmit.
    pub settings: TxSettings,
}

/// A receive ring as the driver set it up, see [`TxSetup`].
#[derive(Clone, Debug)]
pub struct RxSetup {
    /// Where it lies.
    pub layout: Layout,
    /// Head and tail: what RDH and RDT read.
    pub ends: Arc<Ends>,
    /// Guest-physical address of the status block, if the driver gave one.
    pub block: Option<u64>,
    /// Where to count.
    pub statistics: Arc<Statistics>,
    /// How to receive.
    pub settings: RxSettings,
}

/// How frames are transmitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxSettings {
    /// Pad frames to 60 octets (TCTL.PSP).
    pub pad_short: bool,
    /// Insert the VLAN tags that descriptors ask for (CTRL.VME).
    pub vlan: bool,
    /// EtherType of the tags (VET).
    pub vlan_type: u16,
    /// Octets of the longest frame that leaves, without FCS and VLAN tag: MTU and Ethernet header.
    pub longest: usize,
    /// TXD_LOW when so few descriptors wait: 8 times TXDCTL.LWTHRESH.
    pub low: u16,
    /// Frames go to the own receive ring (RCTL.LBM) instead of out.
    pub loopback: bool,
}

/// How frames are received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RxSettings {
    /// Octets of each buffer (RCTL.BSIZE, BSEX).
    pub buffer_len: u32,
    /// Octets of the longest frame that is taken, without FCS (RCTL.LPE).
    pub longest: usize,
    /// Four octets for the FCS follow each frame in memory and count in its length (RCTL.SECRC is 0).
    pub fcs: bool,
    /// Move VLAN tags from frames to descriptors (CTRL.VME).
    pub vlan: bool,
    /// EtherType of the tags (VET).
    pub vlan_type: u16,
    /// Which frames are taken.
    pub filters: Arc<Filters>,
    /// What is told of checksums.
    pub checksum: RxChecksum,
    /// RXDMT0 when fewer than the ring's entries divided by this are free: 2, 4 or 8 (RCTL.RDMTS).
    pub threshold: u32,
    /// Only frames of the own transmit ring arrive (RCTL.LBM).
    pub loopback: bool,
}

/// What receive descriptors tell of checksums (RXCSUM).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RxChecksum {
    /// The packet checksum starts at this octet of the frame (PCSS).
    pub start: u8,
    /// Check the IPv4 header (IPOFL).
    pub ip: bool,
    /// Check TCP and UDP (TUOFL).
    pub transport: bool,
}
