//! Forwarding of packets whose prepared header is not in the entry that the hot path reads first: their route has a group of
//! next hops, or they leave by a VLAN. Both hot paths come here before they give a frame to the slow path, so that all others
//! pay nothing. They give the buffer away: one whose address they passed on would have to lie in memory for every frame.

use frame::{ethernet, ipv4, vlan};

use crate::burst::{NOT_FOR_US, rewrite};
use crate::platform::{Buffer, HEAD, Platform};
use crate::router::Router;
use crate::routes::{Routes, Routes6};
use crate::six::burst::age;

/// Offsets in a frame without tags of the time to live, with protocol and checksum behind it, and of the hop limit.
const TTL: usize = ethernet::HEADER + 8;
const HOPS: usize = ethernet::HEADER + 7;
const _: () = assert!(TTL + 4 + vlan::MOST * vlan::TAG <= HEAD);

impl<B: Buffer, R: Routes> Router<'_, B, R> {
    /// Forwards an IPv4 packet that came by interface `nic` and whose route has a group or leads by a VLAN, if the header of its
    /// next hop is prepared. Any other frame goes to the slow path. Returns how many frames were forwarded here: one, or none.
    #[cold]
    #[inline(never)]
    pub(crate) fn detour<P: Platform<Buffer = B>>(
        &mut self,
        platform: &mut P,
        mut buffer: B,
        way: (u32, u32),
        nic: u8,
    ) -> u64 {
        let out = self.prepared(&mut buffer, way);
        self.send_or_accept(platform, buffer, out, nic)
    }

    /// Handles an IPv6 packet as [`Router::detour`] does an IPv4 one.
    #[cold]
    #[inline(never)]
    pub(crate) fn detour6<P: Platform<Buffer = B>>(
        &mut self,
        platform: &mut P,
        mut buffer: B,
        way: (u32, u128),
        nic: u8,
    ) -> u64 {
        let out = self.prepared6(&mut buffer, way);
        self.send_or_accept(platform, buffer, out, nic)
    }

    #[inline(always)]
    fn send_or_accept<P: Platform<Buffer = B>>(
        &mut self,
        platform: &mut P,
        buffer: B,
        out: Option<usize>,
        nic: u8,
    ) -> u64 {
        match out {
            Some(out) => {
                self.append(platform, out, buffer);
                1
            }
            None => {
                self.accept(platform, buffer, nic);
                0
            }
        }
    }

    /// Rewrites an IPv4 packet, of which the number of the next hop and the destination are given; returns the NIC by which it
    /// leaves. `None`, and the packet is as before: its header is not prepared.
    #[inline(always)]
    fn prepared(&self, buffer: &mut B, (mut hop, destination): (u32, u32)) -> Option<usize> {
        let (entries, len, generation) = (&self.adjacencies, buffer.wire_len(), self.generation);
        if destination == NOT_FOR_US {
            return None;
        }
        if entries.is_group(hop, generation) {
            hop = self.routes.member(hop, self.flow(buffer));
            if let Some(entry) = entries.find(hop, destination, len, generation) {
                rewrite(buffer, &entry.header);
                return Some(entry.nic());
            }
        }
        let entry = entries.find_tagged(hop, destination, len, generation)?;
        let (port, tags) = self.tagged(entry.interface(), buffer)?;
        let head = buffer.head();
        let at = TTL + tags;
        let aged = ipv4::age([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        head[at..at + 4].copy_from_slice(&aged);
        head[..vlan::AT].copy_from_slice(&entry.header[..vlan::AT]);
        Some(port)
    }

    /// Rewrites an IPv6 packet as [`Router::prepared`] does an IPv4 one.
    #[inline(always)]
    fn prepared6(&self, buffer: &mut B, (mut hop, destination): (u32, u128)) -> Option<usize> {
        let (entries, len, generation) = (&self.adjacencies, buffer.wire_len(), self.generation);
        if entries.is_group6(hop, generation) {
            hop = self.routes.six().member(hop, self.flow(buffer));
            if let Some(entry) = entries.find6(hop, destination, len, generation) {
                age(buffer, &entry.header);
                return Some(entry.nic());
            }
        }
        let entry = entries.find_tagged6(hop, destination, len, generation)?;
        let (port, tags) = self.tagged(entry.interface(), buffer)?;
        let head = buffer.head();
        let at = HOPS + tags;
        head[at] = head[at].wrapping_sub(1);
        head[..vlan::AT].copy_from_slice(&entry.header[..vlan::AT]);
        Some(port)
    }
}
