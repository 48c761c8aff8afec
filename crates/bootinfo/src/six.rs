//! Boot information about IPv6 of a NIC.

/// Maximum number of prefixes in the router advertisements of a NIC.
pub const MAX_PREFIXES: usize = 8;
/// Maximum number of DNS servers in the router advertisements of a NIC.
pub const MAX_DNS: usize = 4;

/// IPv6 address with the prefix length of its network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Address6 {
    /// The address in network byte order.
    pub ip: [u8; 16],
    /// Prefix length, 0 to 128.
    pub prefix: u32,
}

/// A prefix in router advertisements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct AdvertisedPrefix {
    /// The prefix in network byte order.
    pub prefix: [u8; 16],
    /// Length of the prefix, 0 to 128.
    pub len: u32,
    /// Bit 0: its addresses are on the link; bit 1: hosts may form addresses in it.
    pub flags: u32,
    /// Seconds for which it is on the link.
    pub valid: u32,
    /// Seconds for which addresses in it are preferred.
    pub preferred: u32,
}

/// Router advertisements of a NIC.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct AdvertiseInfo {
    /// 1 if the NIC advertises itself.
    pub on: u32,
    /// Smallest and largest number of seconds between advertisements.
    pub interval: [u32; 2],
    /// Hop limit that hosts should use.
    pub hop_limit: u32,
    /// Bit 0: addresses come from DHCPv6; bit 1: other settings do; bit 2: the MTU is told.
    pub flags: u32,
    /// Seconds for which it is a default router; 0: it is none.
    pub lifetime: u32,
    /// Number of valid entries in `prefixes` and in `dns`.
    pub counts: [u32; 2],
    /// Prefixes of the link.
    pub prefixes: [AdvertisedPrefix; MAX_PREFIXES],
    /// DNS servers in network byte order.
    pub dns: [[u8; 16]; MAX_DNS],
}
