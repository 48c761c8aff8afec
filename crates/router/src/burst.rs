//! The hot path: handles one burst of one NIC in four passes, so that the memory reads of 64 frames overlap.

use frame::{checksum, ipv4};

use crate::platform::{Buffer, Burst, HEAD, Platform};
use crate::router::Router;
use crate::routes::Routes;
use crate::sources;

/// Placeholder destination of a frame that the hot path does not handle; never a valid address.
pub(crate) const NOT_FOR_US: u32 = 0;
/// Length of an Ethernet header and an IPv4 header without options.
const HEADERS: usize = frame::ethernet::HEADER + ipv4::HEADER;

/// Converts an Ethernet address to the number that [`head_word`] returns for a frame's receiver.
#[inline(always)]
pub(crate) fn mac_word(mac: frame::Mac) -> u64 {
    let [a, b, c, d, e, f] = mac.0;
    u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
}

/// Reads eight octets of a head by one load.
#[inline(always)]
pub(crate) fn head_word(head: &[u8; HEAD], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&head[at..at + 8]);
    u64::from_le_bytes(word)
}

/// Mask for the first eight octets of a frame: its receiver, and the group bit of its sender.
pub(crate) const STATIONS: u64 = 0x0001_ffff_ffff_ffff;
/// Ethertype IPv4, version 4 and header length 20, as the low three octets of a little-endian word.
const PLAIN: u64 = 0x45_0008;

/// Reads four octets of a head in network byte order.
#[inline(always)]
pub(crate) fn head_u32(head: &[u8; HEAD], at: usize) -> u32 {
    u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]])
}

/// Returns the address to look up for a frame that the hot path can forward; [`NOT_FOR_US`] for all other frames: to
/// another station or from a group, not IPv4, with options, with wrong lengths or checksum, with an expired time to
/// live, or from or to an address that is never forwarded (RFC 1812, 5.2.2 and 5.3.7). `is_ours` tells whether a source
/// must not be forwarded because it belongs to the router.
#[inline(always)]
pub(crate) fn classify<B: Buffer>(buffer: &mut B, own: u64, is_ours: impl Fn(u32) -> bool) -> u32 {
    let len = buffer.len();
    let head = buffer.head();
    let to_us = head_word(head, 0) & STATIONS == own;
    let plain = head_word(head, 12) & 0xff_ffff == PLAIN;
    let total = usize::from(u16::from_be_bytes([head[16], head[17]]));
    let lengths = total >= ipv4::HEADER && total + frame::ethernet::HEADER <= len;
    let mut header = [0; ipv4::HEADER];
    header.copy_from_slice(&head[frame::ethernet::HEADER..HEADERS]);
    let intact = checksum::holds20(&header);
    let (source, destination) = (head_u32(head, 26), head_u32(head, 30));
    let addresses = !ipv4::is_martian(source) & !ipv4::is_martian(destination) & !is_ours(source);
    if to_us & plain & lengths & intact & (head[22] > 1) & addresses { destination } else { NOT_FOR_US }
}

/// Decrements the time to live and writes the prepared Ethernet header.
#[inline(always)]
pub(crate) fn rewrite<B: Buffer>(buffer: &mut B, header: &[u8; frame::ethernet::HEADER]) {
    let head = buffer.head();
    let aged = ipv4::age([head[22], head[23], head[24], head[25]]);
    head[22..26].copy_from_slice(&aged);
    head[..frame::ethernet::HEADER].copy_from_slice(header);
}

/// State of a frame between the passes.
#[derive(Clone, Copy, Default)]
struct Lookup<S> {
    destination: u32,
    step: S,
}

impl<B: Buffer, R: Routes> Router<'_, B, R> {
    /// Handles one burst from a NIC; returns its size.
    #[inline(always)]
    pub(crate) fn serve<P: Platform<Buffer = B>>(&mut self, platform: &mut P, nic: usize) -> usize {
        let mut burst = Burst::new();
        platform.receive(nic, &mut burst);
        if burst.is_empty() {
            return 0;
        }
        self.handle(platform, nic, &mut burst)
    }

    /// Handles one burst that a NIC has received, which is empty afterwards; returns its size.
    #[inline(always)]
    pub(crate) fn handle<P: Platform<Buffer = B>>(
        &mut self,
        platform: &mut P,
        nic: usize,
        burst: &mut Burst<B>,
    ) -> usize {
        if (self.mixed | self.checked) >> nic & 1 != 0 {
            return self.serve_both(platform, nic, burst);
        }
        for buffer in burst.iter() {
            buffer.prefetch();
        }
        let own = mac_word(self.nics[nic].mac);
        let mut lookups = [Lookup::default(); ring::BURST];
        let routes = self.routes;
        let (nics, sources) = (&self.nics, &self.sources);
        let is_ours = |source| sources.suspects(source) && sources::is_ours(nics, source);
        for (buffer, lookup) in burst.iter_mut().zip(&mut lookups) {
            lookup.destination = classify(buffer, own, is_ours);
            routes.prefetch(lookup.destination);
        }
        for (lookup, _) in lookups.iter_mut().zip(burst.iter()) {
            lookup.step = routes.first(lookup.destination);
        }
        self.forward(platform, nic, burst, &lookups)
    }

    /// The last pass: second step of the lookup, rewrite, append to the burst of the output NIC.
    #[inline(always)]
    fn forward<P: Platform<Buffer = B>>(
        &mut self,
        platform: &mut P,
        nic: usize,
        burst: &mut Burst<B>,
        lookups: &[Lookup<R::Step>; ring::BURST],
    ) -> usize {
        let frames = burst.len();
        let routes = self.routes;
        let mut forwarded = 0;
        for (mut buffer, lookup) in burst.drain(..).zip(lookups) {
            let hop = routes.second(lookup.step);
            let entry = self.adjacencies.find(hop, lookup.destination, buffer.wire_len(), self.generation);
            if let Some(entry) = entry
                && lookup.destination != NOT_FOR_US
            {
                rewrite(&mut buffer, &entry.header);
                let out = entry.nic();
                self.append(platform, out, buffer);
                forwarded += 1;
            } else {
                forwarded += self.detour(platform, buffer, (hop, lookup.destination), nic as u8);
            }
        }
        self.counters.forwarded.add(forwarded);
        frames
    }
}
