//! Descriptor formats (82540EM manual, "Receive Descriptor Format", "Legacy Transmit Descriptor Format", "TCP/IP
//! Context Transmit Descriptor Format", "TCP/IP Data Descriptor Format").

/// A private copy of one descriptor: its two little-endian words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Descriptor {
    /// Guest-physical address of the buffer; in a context descriptor, the offsets of checksums.
    pub address: u64,
    /// Second word: all other fields. A device writes back only this word.
    pub rest: u64,
}

/// Bits of transmit descriptors.
pub mod tx {
    /// CMD: end of packet.
    pub const EOP: u8 = 1 << 0;
    /// CMD: the device is to append the FCS.
    pub const IFCS: u8 = 1 << 1;
    /// CMD of a legacy descriptor: the device is to insert a checksum.
    pub const IC: u8 = 1 << 2;
    /// DCMD and TUCMD of an extended descriptor: TCP segmentation.
    pub const TSE: u8 = 1 << 2;
    /// CMD: report status, the device is to set [`DD`].
    pub const RS: u8 = 1 << 3;
    /// CMD: the descriptor is extended, a context or a data descriptor.
    pub const DEXT: u8 = 1 << 5;
    /// CMD: the device is to insert the VLAN tag.
    pub const VLE: u8 = 1 << 6;
    /// CMD: the interrupt may be delayed (TIDV, TADV).
    pub const IDE: u8 = 1 << 7;
    /// STA: descriptor done.
    pub const DD: u8 = 1 << 0;
    /// DTYP of a context descriptor.
    pub const CONTEXT: u8 = 0;
    /// DTYP of a data descriptor.
    pub const DATA: u8 = 1;
    /// POPTS of a data descriptor: insert the IP checksum.
    pub const IXSM: u8 = 1 << 0;
    /// POPTS of a data descriptor: insert the TCP or UDP checksum.
    pub const TXSM: u8 = 1 << 1;
    /// TUCMD of a context descriptor: the packet is TCP (otherwise UDP).
    pub const TCP: u8 = 1 << 0;
    /// TUCMD of a context descriptor: the packet is IPv4 (otherwise IPv6).
    pub const IP: u8 = 1 << 1;
}

/// Bits of receive descriptors.
pub mod rx {
    /// Status: descriptor done.
    pub const DD: u8 = 1 << 0;
    /// Status: end of packet.
    pub const EOP: u8 = 1 << 1;
    /// Status: ignore the checksum indications.
    pub const IXSM: u8 = 1 << 2;
    /// Status: the packet has a VLAN tag that VFTA or VET matched.
    pub const VP: u8 = 1 << 3;
    /// Status: the TCP or UDP checksum was computed.
    pub const TCPCS: u8 = 1 << 5;
    /// Status: the IP checksum was computed.
    pub const IPCS: u8 = 1 << 6;
    /// Status: passed by the inexact filter only.
    pub const PIF: u8 = 1 << 7;
    /// Errors: wrong TCP or UDP checksum.
    pub const TCPE: u8 = 1 << 5;
    /// Errors: wrong IP checksum.
    pub const IPE: u8 = 1 << 6;
}

impl Descriptor {
    /// A legacy descriptor that sends `length` octets of a buffer.
    #[inline(always)]
    pub const fn legacy(address: u64, length: u16, command: u8) -> Self {
        Self { address, rest: length as u64 | (command as u64) << 24 }
    }

    /// A receive descriptor that posts a buffer.
    #[inline(always)]
    pub const fn buffer(address: u64) -> Self {
        Self { address, rest: 0 }
    }

    /// Returns the command: CMD of a legacy, DCMD of a data, or TUCMD of a context descriptor. The bits of [`tx`] that
    /// several of them have lie at equal places in all.
    #[inline(always)]
    pub const fn command(self) -> u8 {
        (self.rest >> 24) as u8
    }

    /// Returns DTYP of an extended descriptor.
    #[inline(always)]
    pub const fn kind(self) -> u8 {
        (self.rest >> 20) as u8 & 0xf
    }

    /// Returns the second word of a transmit descriptor with [`tx::DD`] set.
    #[inline(always)]
    pub const fn done(self) -> u64 {
        self.rest | (tx::DD as u64) << 32
    }
}

/// A legacy transmit descriptor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Legacy {
    /// Address of the buffer.
    pub address: u64,
    /// Length of the buffer in octets.
    pub length: u16,
    /// Offset in the packet at which the checksum is inserted.
    pub cso: u8,
    /// CMD.
    pub command: u8,
    /// STA.
    pub status: u8,
    /// Offset in the packet at which the checksum begins.
    pub css: u8,
    /// The VLAN tag.
    pub special: u16,
}

impl From<Descriptor> for Legacy {
    #[inline(always)]
    fn from(Descriptor { address, rest }: Descriptor) -> Self {
        let (length, cso, command) = (rest as u16, (rest >> 16) as u8, (rest >> 24) as u8);
        let (status, css, special) = ((rest >> 32) as u8 & 0xf, (rest >> 40) as u8, (rest >> 48) as u16);
        Self { address, length, cso, command, status, css, special }
    }
}

impl From<Legacy> for Descriptor {
    #[inline(always)]
    fn from(legacy: Legacy) -> Self {
        let low = u64::from(legacy.length) | u64::from(legacy.cso) << 16 | u64::from(legacy.command) << 24;
        let high =
            u64::from(legacy.status & 0xf) | u64::from(legacy.css) << 8 | u64::from(legacy.special) << 16;
        Self { address: legacy.address, rest: low | high << 32 }
    }
}

/// A data descriptor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Data {
    /// Address of the buffer.
    pub address: u64,
    /// Length of the buffer in octets, less than 2 to the 20th.
    pub length: u32,
    /// DCMD; [`tx::DEXT`] is added when the descriptor is encoded.
    pub command: u8,
    /// STA.
    pub status: u8,
    /// POPTS.
    pub options: u8,
    /// The VLAN tag.
    pub special: u16,
}

impl From<Descriptor> for Data {
    #[inline(always)]
    fn from(Descriptor { address, rest }: Descriptor) -> Self {
        let (length, command, status) =
            (rest as u32 & 0xf_ffff, (rest >> 24) as u8, (rest >> 32) as u8 & 0xf);
        let (options, special) = ((rest >> 40) as u8, (rest >> 48) as u16);
        Self { address, length, command, status, options, special }
    }
}

impl From<Data> for Descriptor {
    #[inline(always)]
    fn from(data: Data) -> Self {
        let command = u64::from(data.command | tx::DEXT);
        let low = u64::from(data.length & 0xf_ffff) | u64::from(tx::DATA) << 20 | command << 24;
        let high =
            u64::from(data.status & 0xf) | u64::from(data.options) << 8 | u64::from(data.special) << 16;
        Self { address: data.address, rest: low | high << 32 }
    }
}

/// A context descriptor: parameters for the offloads of the data descriptors that follow it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Context {
    /// IPCSS: offset at which the IP checksum begins.
    pub ip_start: u8,
    /// IPCSO: offset at which the IP checksum is stored.
    pub ip_offset: u8,
    /// IPCSE: last octet covered by the IP checksum; 0: the last of the packet.
    pub ip_end: u16,
    /// TUCSS: offset at which the TCP or UDP checksum begins.
    pub tcp_start: u8,
    /// TUCSO: offset at which the TCP or UDP checksum is stored.
    pub tcp_offset: u8,
    /// TUCSE: last octet covered by the TCP or UDP checksum; 0: the last of the packet.
    pub tcp_end: u16,
    /// PAYLEN: octets to be segmented, without headers; less than 2 to the 20th.
    pub payload: u32,
    /// TUCMD; [`tx::DEXT`] is added when the descriptor is encoded.
    pub command: u8,
    /// STA.
    pub status: u8,
    /// HDRLEN: length of all headers in octets.
    pub header: u8,
    /// MSS: octets of payload in each segment.
    pub mss: u16,
}

impl From<Descriptor> for Context {
    fn from(Descriptor { address, rest }: Descriptor) -> Self {
        Self {
            ip_start: address as u8,
            ip_offset: (address >> 8) as u8,
            ip_end: (address >> 16) as u16,
            tcp_start: (address >> 32) as u8,
            tcp_offset: (address >> 40) as u8,
            tcp_end: (address >> 48) as u16,
            payload: rest as u32 & 0xf_ffff,
            command: (rest >> 24) as u8,
            status: (rest >> 32) as u8 & 0xf,
            header: (rest >> 40) as u8,
            mss: (rest >> 48) as u16,
        }
    }
}

impl From<Context> for Descriptor {
    fn from(context: Context) -> Self {
        let ip =
            u64::from(context.ip_start) | u64::from(context.ip_offset) << 8 | u64::from(context.ip_end) << 16;
        let tcp = u64::from(context.tcp_start)
            | u64::from(context.tcp_offset) << 8
            | u64::from(context.tcp_end) << 16;
        let low = u64::from(context.payload & 0xf_ffff)
            | u64::from(tx::CONTEXT) << 20
            | u64::from(context.command | tx::DEXT) << 24;
        let high =
            u64::from(context.status & 0xf) | u64::from(context.header) << 8 | u64::from(context.mss) << 16;
        Self { address: ip | tcp << 32, rest: low | high << 32 }
    }
}

/// Write-back fields of a receive descriptor, as a device fills them in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Octets that the device wrote into the buffer.
    pub length: u16,
    /// The packet checksum.
    pub checksum: u16,
    /// Status bits of [`rx`].
    pub status: u8,
    /// Error bits of [`rx`].
    pub errors: u8,
    /// The VLAN tag.
    pub special: u16,
}

impl Received {
    /// Decodes a descriptor's second word.
    #[inline(always)]
    pub const fn from_rest(rest: u64) -> Self {
        let (length, checksum, status) = (rest as u16, (rest >> 16) as u16, (rest >> 32) as u8);
        Self { length, checksum, status, errors: (rest >> 40) as u8, special: (rest >> 48) as u16 }
    }

    /// Encodes the descriptor's second word.
    #[inline(always)]
    pub const fn rest(self) -> u64 {
        let low = self.length as u64 | (self.checksum as u64) << 16;
        low | (self.status as u64) << 32 | (self.errors as u64) << 40 | (self.special as u64) << 48
    }
}
