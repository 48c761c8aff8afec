//! The hot path for NICs at which IPv6 or VLAN tags are seen, or whose sources are filtered: handles one burst of IPv4 and IPv6
//! frames in passes, so that the memory reads of 64 frames overlap.
//!
//! Bursts of other NICs take the path of `crate::burst` and pay nothing. A NIC comes here with its first IPv6 frame or tag, and
//! leaves after a burst without any. Tags are looked for only in frames that are neither plain IPv4 nor plain IPv6.

use frame::{ethernet, ipv6};

use crate::burst::{NOT_FOR_US, STATIONS, classify, head_u32, head_word, mac_word, rewrite};
use crate::config::Nic;
use crate::platform::{Buffer, Burst, HEAD, Platform};
use crate::router::Router;
use crate::routes::{Routes, Routes6};
use crate::sources;
use crate::tags;

/// Length of an Ethernet header and a fixed IPv6 header.
const HEADERS: usize = ethernet::HEADER + ipv6::HEADER;
/// Ethertype IPv6 and version 6, as bits of a little-endian word.
const PLAIN: u64 = 0x60_dd86;
const PLAIN_MASK: u64 = 0xf0_ffff;

/// Way of a frame through the burst.
#[derive(Clone, Copy)]
enum Way<S, T> {
    /// The slow path.
    Slow,
    /// IPv4: destination and state of the lookup.
    Four(u32, S),
    /// IPv6: destination and state of the lookup.
    Six(u128, T),
}

/// The way of a frame with these tables.
type WayOf<R> = Way<<R as Routes>::Step, <<R as Routes>::Six as Routes6>::Step>;
/// The ways of a burst.
type Ways<R> = [WayOf<R>; ring::BURST];
/// The interfaces at which the frames of a burst arrive.
type Came = [u8; ring::BURST];

/// What is checked of frames that arrive at an interface.
#[derive(Clone, Copy)]
struct Arrival {
    nic: usize,
    /// Receiver of its frames, and of those with IPv6: [`NOBODY`] if it takes no part in that.
    own: u64,
    own6: u64,
    /// True if it has a filter of sources.
    checked: bool,
}

/// No receiver of a frame, as a number.
const NOBODY: u64 = u64::MAX;
const _: () = assert!(STATIONS < NOBODY);

/// Returns true if a frame says that it is IPv6.
#[inline(always)]
fn is_six<B: Buffer>(buffer: &mut B) -> bool {
    head_word(buffer.head(), 12) & 0xffff == PLAIN & 0xffff
}

#[inline(always)]
fn address(head: &[u8; HEAD], at: usize) -> u128 {
    let mut octets = [0; 16];
    octets.copy_from_slice(&head[at..at + 16]);
    u128::from_be_bytes(octets)
}

/// Returns the address to look up for an IPv6 frame that the hot path can forward: to us, with right lengths, without
/// hop-by-hop options, not expired, between addresses that are forwarded. `None` for all other frames.
#[inline(always)]
fn classify6<B: Buffer>(buffer: &mut B, own: u64, is_ours: impl Fn(u128) -> bool) -> Option<u128> {
    let len = buffer.len();
    let head = buffer.head();
    let to_us = head_word(head, 0) & STATIONS == own;
    let plain = head_word(head, 12) & PLAIN_MASK == PLAIN;
    let payload = usize::from(u16::from_be_bytes([head[18], head[19]]));
    let lengths = payload + HEADERS <= len;
    let (source, destination) = (address(head, 22), address(head, 38));
    let addresses = ipv6::is_forwardable(source) & ipv6::is_forwardable(destination);
    let simple = (head[20] != ipv6::next::HOP_BY_HOP) & (head[21] > 1);
    (to_us & plain & lengths & simple & addresses && !is_ours(source)).then_some(destination)
}

/// Decrements the hop limit and writes the prepared Ethernet header.
#[inline(always)]
pub(crate) fn age<B: Buffer>(buffer: &mut B, header: &[u8; ethernet::HEADER]) {
    let head = buffer.head();
    head[21] = head[21].wrapping_sub(1);
    head[..ethernet::HEADER].copy_from_slice(header);
}

/// Returns true if `source` is an address of one of these NICs.
#[cold]
#[inline(never)]
fn is_ours6(nics: &[Nic], source: u128) -> bool {
    nics.iter().any(|nic| nic.six.position(source).is_some())
}

impl<B: Buffer, R: Routes> Router<'_, B, R> {
    /// Handles a burst of both families; returns its size.
    #[inline(never)]
    pub(crate) fn serve_both<P: Platform<Buffer = B>>(
        &mut self,
        platform: &mut P,
        nic: usize,
        burst: &mut Burst<B>,
    ) -> usize {
        for buffer in burst.iter() {
            buffer.prefetch();
        }
        let mut ways: Ways<R> = [Way::Slow; ring::BURST];
        let mut came = [nic as u8; ring::BURST];
        if self.begin(nic, burst, (&mut ways, &mut came)) == 0 {
            self.mixed &= !(1 << nic);
        }
        let table = self.routes.six();
        for _ in 0..<R::Six as Routes6>::STEPS {
            let mut left = false;
            for way in &mut ways[..burst.len()] {
                if let Way::Six(_, step) = way
                    && !table.is_done(*step)
                {
                    *step = table.next(*step);
                    left = true;
                }
            }
            if !left {
                break;
            }
        }
        self.finish_burst(platform, burst, (&ways, &came))
    }

    /// The first passes: takes tags off, classifies the frames and begins their lookups; `came` gets the interfaces at which they
    /// arrive. Returns the number of IPv6 frames and of frames with tags.
    #[inline(always)]
    fn begin(&self, nic: usize, burst: &mut Burst<B>, (ways, came): (&mut Ways<R>, &mut Came)) -> usize {
        let arrival = self.arrival(nic);
        let routes = self.routes;
        let mut mixed = 0;
        for ((buffer, way), came) in burst.iter_mut().zip(ways.iter_mut()).zip(came) {
            *way = self.way(buffer, arrival);
            match way {
                Way::Four(..) => {}
                Way::Six(..) => mixed += 1,
                Way::Slow => {
                    mixed += usize::from(is_six(buffer));
                    if tags::has_tag(buffer) {
                        mixed += 1;
                        if let Some(interface) = self.untag(buffer, nic as u8) {
                            *came = interface;
                            *way = self.way(buffer, self.arrival(interface.into()));
                        }
                    }
                }
            }
        }
        for way in ways.iter_mut().take(burst.len()) {
            if let Way::Four(destination, step) = way {
                *step = routes.first(*destination);
            }
        }
        mixed
    }

    /// Returns what is checked of frames that arrive at an interface.
    #[inline(always)]
    fn arrival(&self, nic: usize) -> Arrival {
        let interface = &self.nics[nic];
        let own = mac_word(interface.mac);
        let own6 = if interface.six.is_on() { own } else { NOBODY };
        Arrival { nic, own, own6, checked: self.checked >> nic & 1 != 0 }
    }

    /// Returns the way of a frame without tags that arrives at an interface; begins its lookup.
    #[inline(always)]
    fn way(&self, buffer: &mut B, Arrival { nic, own, own6, checked }: Arrival) -> WayOf<R> {
        let (routes, table) = (self.routes, self.routes.six());
        let (nics, filter) = (&self.nics, &self.sources);
        if is_six(buffer) {
            let ours = |source| filter.suspects6(source) && is_ours6(nics, source);
            return match classify6(buffer, own6, ours) {
                Some(destination) if !checked || self.is_expected6(address(buffer.head(), 22), nic) => {
                    Way::Six(destination, table.first(destination))
                }
                _ => Way::Slow,
            };
        }
        let ours = |source| filter.suspects(source) && sources::is_ours(nics, source);
        let destination = classify(buffer, own, ours);
        if destination == NOT_FOR_US || checked && !self.is_expected(head_u32(buffer.head(), 26), nic) {
            return Way::Slow;
        }
        routes.prefetch(destination);
        Way::Four(destination, R::Step::default())
    }

    /// The last pass: ends the lookups, rewrites the frames, and appends them to the bursts of their NICs.
    #[inline(always)]
    fn finish_burst<P: Platform<Buffer = B>>(
        &mut self,
        platform: &mut P,
        burst: &mut Burst<B>,
        (ways, came): (&Ways<R>, &Came),
    ) -> usize {
        let frames = burst.len();
        let (routes, table) = (self.routes, self.routes.six());
        let mut forwarded = 0;
        for ((mut buffer, way), came) in burst.drain(..).zip(ways).zip(came) {
            let (len, generation) = (buffer.wire_len(), self.generation);
            let out = match *way {
                Way::Slow => {
                    self.accept(platform, buffer, *came);
                    continue;
                }
                Way::Four(destination, step) => {
                    let hop = routes.second(step);
                    let Some(entry) = self.adjacencies.find(hop, destination, len, generation) else {
                        forwarded += self.detour(platform, buffer, (hop, destination), *came);
                        continue;
                    };
                    rewrite(&mut buffer, &entry.header);
                    entry.nic()
                }
                Way::Six(destination, step) => {
                    let hop = table.found(step);
                    let Some(entry) = self.adjacencies.find6(hop, destination, len, generation) else {
                        forwarded += self.detour6(platform, buffer, (hop, destination), *came);
                        continue;
                    };
                    age(&mut buffer, &entry.header);
                    entry.nic()
                }
            };
            self.append(platform, out, buffer);
            forwarded += 1;
        }
        self.counters.forwarded.add(forwarded);
        frames
    }
}
