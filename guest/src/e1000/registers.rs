//! The registers of the 82540EM that this driver uses (its manual, chapter "Register Descriptions"), and two of our own
//! (seed paper 001, section 3.3).

/// CTRL, Device Control.
pub(super) const CTRL: u64 = 0x0000;
/// CTRL: full duplex.
pub(super) const CTRL_FD: u32 = 1 << 0;
/// CTRL: set link up.
pub(super) const CTRL_SLU: u32 = 1 << 6;
/// CTRL: reset; clears itself.
pub(super) const CTRL_RST: u32 = 1 << 26;
/// STATUS, Device Status.
pub(super) const STATUS: u64 = 0x0008;
/// EERD, EEPROM Read: the word's address is written to bits 8 to 15, its content is read from bits 16 to 31.
pub(super) const EERD: u64 = 0x0014;
/// EERD: start.
pub(super) const EERD_START: u32 = 1 << 0;
/// EERD: done.
pub(super) const EERD_DONE: u32 = 1 << 4;
/// ICR, Interrupt Cause Read: reading clears it.
pub(super) const ICR: u64 = 0x00c0;
/// ITR, Interrupt Throttling: minimum interval between two interrupts, in units of 250 ns.
pub(super) const ITR: u64 = 0x00c4;
/// IMS, Interrupt Mask Set.
pub(super) const IMS: u64 = 0x00d0;
/// IMC, Interrupt Mask Clear.
pub(super) const IMC: u64 = 0x00d8;
/// RCTL, Receive Control.
pub(super) const RCTL: u64 = 0x0100;
/// RCTL: enable.
pub(super) const RCTL_EN: u32 = 1 << 1;
/// RCTL: accept all unicast frames (promiscuous).
pub(super) const RCTL_UPE: u32 = 1 << 3;
/// RCTL: accept all multicast frames.
pub(super) const RCTL_MPE: u32 = 1 << 4;
/// RCTL: accept frames longer than 1522 octets.
pub(super) const RCTL_LPE: u32 = 1 << 5;
/// RCTL: buffers of 8192 octets (BSEX, BSIZE) instead of 2048.
pub(super) const RCTL_8192: u32 = 1 << 25 | 2 << 16;
/// RCTL: accept broadcasts.
pub(super) const RCTL_BAM: u32 = 1 << 15;
/// RCTL: strip the FCS.
pub(super) const RCTL_SECRC: u32 = 1 << 26;
/// TCTL, Transmit Control.
pub(super) const TCTL: u64 = 0x0400;
/// TCTL: enable.
pub(super) const TCTL_EN: u32 = 1 << 1;
/// TCTL: pad short packets.
pub(super) const TCTL_PSP: u32 = 1 << 3;
/// TCTL: collision threshold and distance as the manual advises for full duplex.
pub(super) const TCTL_COLLISIONS: u32 = 0x0f << 4 | 0x40 << 12;
/// RDBAL, the receive ring's registers: base (low, high), length, head, tail.
pub(super) const RX_RING: u64 = 0x2800;
/// RDTR, Receive Delay Timer.
pub(super) const RDTR: u64 = 0x2820;
/// RADV, Receive Absolute Delay Timer.
pub(super) const RADV: u64 = 0x282c;
/// CSBAL: address of the status block, low half.
pub(super) const CSBAL: u64 = 0x2830;
/// CSBAH: address of the status block, high half.
pub(super) const CSBAH: u64 = 0x2834;
/// TDBAL, the transmit ring's registers, like those of the receive ring.
pub(super) const TX_RING: u64 = 0x3800;
/// TIDV, Transmit Interrupt Delay Value.
pub(super) const TIDV: u64 = 0x3820;
/// TADV, Transmit Absolute Interrupt Delay Value.
pub(super) const TADV: u64 = 0x382c;
/// RAL, Receive Address Low, of the first address.
pub(super) const RAL: u64 = 0x5400;
/// RAH, Receive Address High.
pub(super) const RAH: u64 = 0x5404;
/// RAH: the address is valid.
pub(super) const RAH_AV: u32 = 1 << 31;

/// Registers of a ring, as offsets from its base.
pub(super) mod ring {
    /// Base, low half.
    pub(in super::super) const BASE_LOW: u64 = 0x00;
    /// Base, high half.
    pub(in super::super) const BASE_HIGH: u64 = 0x04;
    /// Length of the ring in octets.
    pub(in super::super) const LENGTH: u64 = 0x08;
    /// Head: RDH or TDH.
    pub(in super::super) const HEAD: u64 = 0x10;
    /// Tail: RDT or TDT.
    pub(in super::super) const TAIL: u64 = 0x18;
}

/// Cause: transmit descriptor written back.
pub(super) const TXDW: u32 = 1 << 0;
/// Cause: link status change.
pub(super) const LSC: u32 = 1 << 2;
/// Cause: receive sequence error.
pub(super) const RXSEQ: u32 = 1 << 3;
/// Cause: receive descriptor minimum threshold; few receive descriptors are left.
pub(super) const RXDMT0: u32 = 1 << 4;
/// Cause: receive timer; a frame has been received.
pub(super) const RXT0: u32 = 1 << 7;
/// Causes that Linux's driver enables.
pub(super) const WANTED: u32 = TXDW | LSC | RXSEQ | RXDMT0 | RXT0;
