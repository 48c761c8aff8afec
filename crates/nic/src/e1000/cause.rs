//! Bits of ICR, ICS, IMS and IMC (82540EM manual, "Interrupt Cause Read Register").

/// A transmit descriptor was written back (RS).
pub const TXDW: u32 = 1 << 0;
/// The transmit ring has become empty.
pub const TXQE: u32 = 1 << 1;
/// The link's status has changed.
pub const LSC: u32 = 1 << 2;
/// Receive sequence error.
pub const RXSEQ: u32 = 1 << 3;
/// The number of free receive descriptors has fallen to the threshold (RCTL.RDMTS).
pub const RXDMT0: u32 = 1 << 4;
/// A frame was lost for want of a receive descriptor.
pub const RXO: u32 = 1 << 6;
/// Frames were received, and the receive delay timer (RDTR, RADV) has expired.
pub const RXT0: u32 = 1 << 7;
/// An MDIC access is complete.
pub const MDAC: u32 = 1 << 9;
/// Few used transmit descriptors are left (TXDCTL.LWTHRESH).
pub const TXD_LOW: u32 = 1 << 15;
/// A small frame was received (RSRPD).
pub const SRPD: u32 = 1 << 16;
/// All bits of ICR. Bits 5 and 8 are reserved, but can be set and enabled like the others, and drivers that test
/// their interrupt do.
pub const ALL: u32 = 0x1_ffff;

/// Not a bit of ICR: the data path passes it to [`Interrupts::raise`](super::Interrupts::raise) if descriptors with IDE
/// were written back, so that TIDV and TADV delay [`TXDW`].
pub const TXDW_DELAYED: u32 = 1 << 31;
