//! Offsets of the registers in BAR 0 (82540EM manual, "Register Descriptions"). Names are the manual's.

/// Device control.
pub const CTRL: u64 = 0x0000;
/// Device control, second address.
pub const CTRL_DUP: u64 = 0x0004;
/// Device status.
pub const STATUS: u64 = 0x0008;
/// EEPROM and flash control: the Microwire pins.
pub const EECD: u64 = 0x0010;
/// EEPROM read.
pub const EERD: u64 = 0x0014;
/// Extended device control.
pub const CTRL_EXT: u64 = 0x0018;
/// Flash access.
pub const FLA: u64 = 0x001c;
/// MDI control: PHY registers.
pub const MDIC: u64 = 0x0020;
/// Flow control address, low.
pub const FCAL: u64 = 0x0028;
/// Flow control address, high.
pub const FCAH: u64 = 0x002c;
/// Flow control type.
pub const FCT: u64 = 0x0030;
/// EtherType of VLAN tags.
pub const VET: u64 = 0x0038;
/// Interrupt causes; cleared by reading.
pub const ICR: u64 = 0x00c0;
/// Least time between interrupts, in units of 250 ns.
pub const ITR: u64 = 0x00c4;
/// Sets interrupt causes.
pub const ICS: u64 = 0x00c8;
/// Enables interrupts of causes.
pub const IMS: u64 = 0x00d0;
/// Disables interrupts of causes.
pub const IMC: u64 = 0x00d8;
/// Receive control.
pub const RCTL: u64 = 0x0100;
/// Flow control transmit timer value.
pub const FCTTV: u64 = 0x0170;
/// Transmit configuration word (TBI).
pub const TXCW: u64 = 0x0178;
/// Receive configuration word (TBI).
pub const RXCW: u64 = 0x0180;
/// Transmit control.
pub const TCTL: u64 = 0x0400;
/// Transmit inter-packet gap.
pub const TIPG: u64 = 0x0410;
/// Adaptive inter-frame spacing throttle.
pub const AIT: u64 = 0x0458;
/// LED control.
pub const LEDCTL: u64 = 0x0e00;
/// Packet buffer allocation.
pub const PBA: u64 = 0x1000;
/// Flow control receive threshold, low.
pub const FCRTL: u64 = 0x2160;
/// Flow control receive threshold, high.
pub const FCRTH: u64 = 0x2168;
/// Receive FIFO: head, and from here every 8 octets tail, head saved, tail saved, packet count.
pub const RDFH: u64 = 0x2410;
/// Receive ring's address, low.
pub const RDBAL: u64 = 0x2800;
/// Receive ring's address, high.
pub const RDBAH: u64 = 0x2804;
/// Receive ring's length in octets.
pub const RDLEN: u64 = 0x2808;
/// Receive ring's head.
pub const RDH: u64 = 0x2810;
/// Receive ring's tail.
pub const RDT: u64 = 0x2818;
/// Receive interrupt delay, in units of 1.024 µs.
pub const RDTR: u64 = 0x2820;
/// Receive descriptor control.
pub const RXDCTL: u64 = 0x2828;
/// Receive interrupt absolute delay, in units of 1.024 µs.
pub const RADV: u64 = 0x282c;
/// Address of the status block, low half; an extension, not part of Intel's device (seed paper 001, section
/// 3.3).
pub const CSBAL: u64 = 0x2830;
/// Address of the status block, high half; an extension as [`CSBAL`].
pub const CSBAH: u64 = 0x2834;
/// Receive small packet detect.
pub const RSRPD: u64 = 0x2c00;
/// Transmit DMA control.
pub const TXDMAC: u64 = 0x3000;
/// Transmit FIFO: head, and from here every 8 octets tail, head saved, tail saved, packet count.
pub const TDFH: u64 = 0x3410;
/// Transmit ring's address, low.
pub const TDBAL: u64 = 0x3800;
/// Transmit ring's address, high.
pub const TDBAH: u64 = 0x3804;
/// Transmit ring's length in octets.
pub const TDLEN: u64 = 0x3808;
/// Transmit ring's head.
pub const TDH: u64 = 0x3810;
/// Transmit ring's tail.
pub const TDT: u64 = 0x3818;
/// Transmit interrupt delay, in units of 1.024 µs.
pub const TIDV: u64 = 0x3820;
/// Transmit descriptor control.
pub const TXDCTL: u64 = 0x3828;
/// Transmit interrupt absolute delay, in units of 1.024 µs.
pub const TADV: u64 = 0x382c;
/// TCP segmentation pad and threshold.
pub const TSPMT: u64 = 0x3830;
/// First statistics register.
pub const STATISTICS: u64 = 0x4000;
/// Receive checksum control.
pub const RXCSUM: u64 = 0x5000;
/// Multicast table array, 128 registers.
pub const MTA: u64 = 0x5200;
/// Receive addresses: 16 pairs of low and high words.
pub const RAL: u64 = 0x5400;
/// High word of the first receive address.
pub const RAH: u64 = 0x5404;
/// VLAN filter table array, 128 registers.
pub const VFTA: u64 = 0x5600;
/// Wake-up control.
pub const WUC: u64 = 0x5800;
/// Wake-up filter control.
pub const WUFC: u64 = 0x5808;
/// Wake-up status.
pub const WUS: u64 = 0x5810;
/// Management control.
pub const MANC: u64 = 0x5820;
/// IP address valid.
pub const IPAV: u64 = 0x5838;
/// IPv4 address table, four entries 8 octets apart.
pub const IP4AT: u64 = 0x5840;
/// IPv6 address table, four registers.
pub const IP6AT: u64 = 0x5880;
/// Wake-up packet length.
pub const WUPL: u64 = 0x5900;
/// Wake-up packet memory, 32 registers.
pub const WUPM: u64 = 0x5a00;
/// Flexible filter length table, four entries 8 octets apart.
pub const FFLT: u64 = 0x5f00;
/// Flexible filter mask table, 128 entries 8 octets apart.
pub const FFMT: u64 = 0x9000;
/// Flexible filter value table, 128 entries 8 octets apart.
pub const FFVT: u64 = 0x9800;

/// Bits of CTRL.
pub mod ctrl {
    /// Full duplex.
    pub const FD: u32 = 1 << 0;
    /// Set link up.
    pub const SLU: u32 = 1 << 6;
    /// Device reset; clears itself.
    pub const RST: u32 = 1 << 26;
    /// VLAN mode: strip tags of received frames, insert tags that descriptors request.
    pub const VME: u32 = 1 << 30;
    /// PHY reset.
    pub const PHY_RST: u32 = 1 << 31;
}

/// Bits of STATUS.
pub mod status {
    /// Full duplex.
    pub const FD: u32 = 1 << 0;
    /// Link up.
    pub const LU: u32 = 1 << 1;
}

/// Bits of RCTL.
pub mod rctl {
    /// Receiver enabled.
    pub const EN: u32 = 1 << 1;
    /// All unicast frames.
    pub const UPE: u32 = 1 << 3;
    /// All multicast frames.
    pub const MPE: u32 = 1 << 4;
    /// Long packets.
    pub const LPE: u32 = 1 << 5;
    /// Broadcast frames.
    pub const BAM: u32 = 1 << 15;
    /// VLAN filter.
    pub const VFE: u32 = 1 << 18;
    /// Strip the FCS.
    pub const SECRC: u32 = 1 << 26;
}

/// Bits of TCTL.
pub mod tctl {
    /// Transmitter enabled.
    pub const EN: u32 = 1 << 1;
    /// Pad short frames.
    pub const PSP: u32 = 1 << 3;
}

/// Bits of RXCSUM.
pub mod rxcsum {
    /// Octet at which the packet checksum starts.
    pub const PCSS: u32 = 0xff;
    /// Check IP.
    pub const IPOFL: u32 = 1 << 8;
    /// Check TCP and UDP.
    pub const TUOFL: u32 = 1 << 9;
}

/// RDTR, TIDV: expire the timer at once.
pub const FLUSH: u32 = 1 << 31;
/// RAH: the address is valid.
pub const ADDRESS_VALID: u32 = 1 << 31;
