//! Addresses and routes of the simulated router.

use std::cell::Cell;

use frame::Mac;
use router::{Address, Address6, CHOICES, NextHop, Refusal, Routes, Routes6};

thread_local! {
    /// How often a table has been asked what a next hop is, which only the slow path does.
    static ASKED: Cell<u32> = const { Cell::new(0) };
}

/// Returns how often the slow path has routed a packet since the last call.
pub(crate) fn slow_ones() -> u32 {
    ASKED.take()
}

/// Routes in a list that is scanned linearly.
#[derive(Clone, Copy)]
pub(crate) struct List(&'static [(u32, u8, NextHop)]);

impl Routes for List {
    type Step = u32;
    type Six = List6;

    fn six(&self) -> List6 {
        ROUTES6
    }

    fn prefetch(&self, _: u32) {}

    fn first(&self, destination: u32) -> u32 {
        destination
    }

    fn second(&self, destination: u32) -> u32 {
        let covers = |ip: u32, prefix: u8| Address { ip, prefix }.covers(destination);
        let matching = self.0.iter().enumerate().filter(|(_, (ip, prefix, _))| covers(*ip, *prefix));
        let best = matching.max_by_key(|(_, (_, prefix, _))| *prefix);
        // Routes to the same next hop share its number, as in the real table.
        let same = |(_, (_, _, hop)): (usize, &(u32, u8, NextHop))| self.0.iter().position(|r| r.2 == *hop);
        best.and_then(same).map_or(0, |at| at as u32 + 1)
    }

    fn next_hop(&self, index: u32) -> NextHop {
        ASKED.set(ASKED.get() + 1);
        index.checked_sub(1).map_or(NextHop::None, |at| self.0[at as usize].2)
    }

    /// Half of the flows prefer [`SILENT`], the others the gateway of NIC 2.
    fn members(&self, index: u32, hash: u32) -> [u32; CHOICES] {
        members(index, hash, self.next_hop(index), GROUPED)
    }

    fn epoch(&self) -> u32 {
        0
    }
}

/// IPv6 routes in a list that is scanned linearly.
#[derive(Clone, Copy)]
pub(crate) struct List6(&'static [(u128, u8, NextHop)]);

impl Routes6 for List6 {
    type Step = u128;

    const STEPS: usize = 2;

    fn first(&self, destination: u128) -> u128 {
        destination
    }

    fn is_done(&self, _: u128) -> bool {
        false
    }

    fn next(&self, step: u128) -> u128 {
        step
    }

    fn found(&self, destination: u128) -> u32 {
        let covers = |ip: u128, prefix: u8| Address6 { ip, prefix }.covers(destination);
        let matching = self.0.iter().enumerate().filter(|(_, (ip, prefix, _))| covers(*ip, *prefix));
        let best = matching.max_by_key(|(_, (_, prefix, _))| *prefix);
        let same = |(_, (_, _, hop)): (usize, &(u128, u8, NextHop))| self.0.iter().position(|r| r.2 == *hop);
        best.and_then(same).map_or(0, |at| at as u32 + 1)
    }

    fn next_hop(&self, index: u32) -> NextHop {
        ASKED.set(ASKED.get() + 1);
        index.checked_sub(1).map_or(NextHop::None, |at| self.0[at as usize].2)
    }

    /// Half of the flows prefer [`SILENT6`], the others the gateway of NIC 2.
    fn members(&self, index: u32, hash: u32) -> [u32; CHOICES] {
        members(index, hash, self.next_hop(index), GROUPED6)
    }

    fn epoch(&self) -> u32 {
        0
    }
}

/// Numbers of the next hops of the group in each list.
pub(crate) const GROUPED: [u32; 2] = [8, 6];
/// See [`GROUPED`].
pub(crate) const GROUPED6: [u32; 2] = [6, 5];

fn members(index: u32, hash: u32, hop: NextHop, [one, other]: [u32; 2]) -> [u32; CHOICES] {
    match (hop, hash >> 31) {
        (NextHop::Group, 0) => [one, other, 0, 0],
        (NextHop::Group, _) => [other, one, 0, 0],
        _ => [index, 0, 0, 0],
    }
}

/// Returns `host` in the network of NIC `nic`: `2001:db8:0:NIC::/64`.
pub(crate) const fn ip6(nic: u8, host: u64) -> u128 {
    0x2001_0db8 << 96 | (nic as u128) << 64 | host as u128
}

/// An IPv6 gateway that is not known yet.
pub(crate) const SILENT6: u128 = ip6(1, 0x77);

/// Destinations behind the gateways of NIC 1 and 2, and behind [`SILENT6`].
pub(crate) const BEYOND: [u128; 3] =
    [0x2001_0db8_0001 << 80 | 9, 0x2001_0db8_0002 << 80 | 9, 0x2001_0db8_0003 << 80 | 9];

pub(crate) const ROUTES6: List6 = List6(&[
    (ip6(0, 0), 64, NextHop::Connected { nic: 0 }),
    (ip6(1, 0), 64, NextHop::Connected { nic: 1 }),
    (ip6(2, 0), 64, NextHop::Connected { nic: 2 }),
    (0x2001_0db8_0001 << 80, 48, NextHop::Gateway6 { nic: 1, gateway: ip6(1, 2) }),
    (0x2001_0db8_0002 << 80, 48, NextHop::Gateway6 { nic: 2, gateway: ip6(2, 2) }),
    (0x2001_0db8_0003 << 80, 48, NextHop::Gateway6 { nic: 1, gateway: SILENT6 }),
    (0x2001_0db8_0004 << 80, 48, NextHop::None),
    (0x2001_0db8_0011 << 80, 48, NextHop::Refused(Refusal::Silent)),
    (0x2001_0db8_0012 << 80, 48, NextHop::Refused(Refusal::Unreachable)),
    (0x2001_0db8_0013 << 80, 48, NextHop::Refused(Refusal::Prohibited)),
    (0x2001_0db8_0014 << 80, 48, NextHop::Group),
    // Interfaces for VLANs.
    (ip6(3, 0), 64, NextHop::Connected { nic: 3 }),
    (ip6(4, 0), 64, NextHop::Connected { nic: 4 }),
    (0x2001_0db8_0015 << 80, 48, NextHop::Gateway6 { nic: 4, gateway: ip6(4, 9) }),
]);

pub(crate) const fn ip(a: u8, b: u8, c: u8, d: u8) -> u32 {
    u32::from_be_bytes([a, b, c, d])
}

/// Address of the router's NIC.
pub(crate) const fn own_mac(nic: u8) -> Mac {
    Mac([2, 0, 0, 0, 0x10, nic])
}

/// Address of the static neighbour 10.0.`nic`.2.
pub(crate) const fn peer_mac(nic: u8) -> Mac {
    Mac([2, 0, 0, 0, 0x20, nic])
}

/// A gateway that is not known yet.
pub(crate) const SILENT: u32 = ip(10, 0, 1, 77);

/// A gateway outside the networks of its NIC.
pub(crate) const OFF_LINK: u32 = ip(10, 99, 0, 1);

pub(crate) const ROUTES: List = List(&[
    (ip(10, 0, 0, 0), 24, NextHop::Connected { nic: 0 }),
    (ip(10, 0, 1, 0), 24, NextHop::Connected { nic: 1 }),
    (ip(10, 0, 2, 0), 24, NextHop::Connected { nic: 2 }),
    (ip(10, 0, 0, 1), 32, NextHop::Local),
    (ip(192, 168, 0, 0), 16, NextHop::Gateway { nic: 1, gateway: ip(10, 0, 1, 2) }),
    (ip(192, 168, 7, 0), 24, NextHop::Gateway { nic: 2, gateway: ip(10, 0, 2, 2) }),
    (ip(172, 16, 0, 0), 12, NextHop::Gateway { nic: 2, gateway: ip(10, 0, 2, 2) }),
    (ip(198, 51, 100, 0), 24, NextHop::Gateway { nic: 1, gateway: SILENT }),
    (ip(203, 0, 113, 0), 24, NextHop::None),
    (ip(9, 9, 9, 9), 32, NextHop::Local),
    (ip(20, 0, 0, 0), 8, NextHop::Connected { nic: 1 }),
    (ip(198, 18, 0, 0), 15, NextHop::Gateway { nic: 1, gateway: OFF_LINK }),
    // Addresses that are never forwarded, whatever the routes say.
    (ip(0, 0, 0, 0), 8, NextHop::Gateway { nic: 1, gateway: ip(10, 0, 1, 2) }),
    (ip(127, 0, 0, 0), 8, NextHop::Gateway { nic: 1, gateway: ip(10, 0, 1, 2) }),
    (ip(224, 0, 0, 0), 3, NextHop::Gateway { nic: 1, gateway: ip(10, 0, 1, 2) }),
    (ip(8, 0, 0, 0), 8, NextHop::Gateway { nic: 7, gateway: ip(10, 0, 1, 2) }),
    // Interfaces for VLANs.
    (ip(10, 0, 3, 0), 24, NextHop::Connected { nic: 3 }),
    (ip(10, 0, 4, 0), 24, NextHop::Connected { nic: 4 }),
    (ip(24, 0, 0, 0), 8, NextHop::Gateway { nic: 4, gateway: ip(10, 0, 4, 9) }),
    // IPv4 by an IPv6 next hop (RFC 8950).
    (ip(21, 0, 0, 0), 8, NextHop::Gateway6 { nic: 1, gateway: ip6(1, 2) }),
    (ip(22, 1, 0, 0), 16, NextHop::Refused(Refusal::Silent)),
    (ip(22, 2, 0, 0), 16, NextHop::Refused(Refusal::Unreachable)),
    (ip(22, 3, 0, 0), 16, NextHop::Refused(Refusal::Prohibited)),
    (ip(23, 0, 0, 0), 8, NextHop::Group),
]);
