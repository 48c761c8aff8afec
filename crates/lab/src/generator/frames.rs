//! Prebuilt frames, each in a slot of whole cache lines.

use anyhow::{Context, Result, ensure};
use frame::{ethernet, ipv4, ipv6, udp};

use super::Settings;
use crate::tag;

/// Octets of a cache line; each slot is aligned to one.
const LINE: usize = 64;
/// Limit for prebuilt frames, in octets. If more would be needed, frames are patched in a ring of slots as they are
/// sent. Half a megabyte stays in a core's own caches; where generator and sink share a core, several megabytes of
/// prebuilt frames cost more per frame than patching.
const PREBUILT: usize = 512 << 10;
/// Fewest slots, so that a burst is seldom split at the end of the slots.
const FEWEST: usize = 128;
/// Slots of the ring for patched frames; every slot is free again once its burst has been delivered.
const PATCHED: usize = 128;
/// First source port; flows count up from here.
const FIRST_PORT: u32 = 1024;
/// Distinct source ports.
const PORTS: u32 = 60_000;

/// Octets of a frame that depend on its flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patch {
    pub(super) destination: [u8; 4],
    pub(super) checksum: [u8; 2],
    pub(super) port: [u8; 2],
}

impl Patch {
    /// Turns the frame in `octets`, whatever its flow, into a frame of `flow`.
    #[inline(always)]
    pub(super) fn apply(&self, octets: &mut [u8], flow: u32) {
        octets[tag::IP + 10..tag::IP + 12].copy_from_slice(&self.checksum);
        octets[tag::IP + 16..tag::IP + 20].copy_from_slice(&self.destination);
        octets[tag::UDP..tag::UDP + 2].copy_from_slice(&self.port);
        octets[tag::FLOW..tag::SEQUENCE].copy_from_slice(&flow.to_be_bytes());
    }
}

/// Octets of an IPv6 frame that differ between flows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patch6 {
    destination: [u8; 16],
    port: [u8; 2],
}

impl Patch6 {
    /// Turns the frame in `octets`, whatever its flow, into a frame of `flow`.
    #[inline(always)]
    pub(super) fn apply(&self, octets: &mut [u8], flow: u32) {
        const AT: usize = tag::IP + 24;
        octets[AT..AT + 16].copy_from_slice(&self.destination);
        octets[UDP6..UDP6 + 2].copy_from_slice(&self.port);
        octets[FLOW6..FLOW6 + 4].copy_from_slice(&flow.to_be_bytes());
    }
}

/// Offsets in an IPv6 frame.
const UDP6: usize = tag::UDP + tag::LONGER;
const FLOW6: usize = tag::FLOW + tag::LONGER;

/// Patches of all flows, of one family; none if every slot belongs to one flow permanently.
#[derive(Debug, Default)]
pub(super) struct Patches {
    pub(super) four: Vec<Patch>,
    pub(super) six: Vec<Patch6>,
}

/// Buffer of frame slots.
#[derive(Debug)]
pub(super) struct Slots {
    octets: Vec<u8>,
    first: usize,
    pub(super) stride: usize,
    pub(super) count: usize,
}

impl Slots {
    /// Builds the frames of `flows` flows, flow by flow, repeated until the fewest slots are filled. Also returns the
    /// patches of the flows.
    pub(super) fn build(settings: &Settings, flows: u32) -> Result<(Self, Patches)> {
        let stride = stride(settings.frame);
        let rounds = FEWEST.div_ceil(flows as usize);
        let whole = flows as usize * rounds;
        let patched = whole * stride > PREBUILT;
        let count = if patched { PATCHED } else { whole };
        let octets = vec![0; count * stride + LINE];
        let first = octets.as_ptr().align_offset(LINE);
        ensure!(first < LINE, "no memory on a cache line boundary for the generator's frames");
        let mut slots = Self { octets, first, stride, count };
        for (slot, octets) in slots.run(0, count).enumerate() {
            write_frame(settings, slot as u32 % flows, &mut octets[..settings.frame])?;
        }
        let patched_flows = if patched { 0..flows } else { 0..0 };
        let mut patches = Patches::default();
        if settings.is_six() {
            patches.six = patched_flows.map(|flow| patch6(settings, flow)).collect();
        } else {
            patches.four = patched_flows.map(|flow| patch(settings, flow)).collect::<Result<_>>()?;
        }
        Ok((slots, patches))
    }

    /// Returns slots `at` to `at + n`.
    #[inline(always)]
    pub(super) fn run(&mut self, at: usize, n: usize) -> std::slice::ChunksExactMut<'_, u8> {
        let from = self.first + at * self.stride;
        self.octets[from..from + n * self.stride].chunks_exact_mut(self.stride)
    }
}

/// Octets between slots: whole cache lines, but not a multiple of 1024 octets, since such strides map to few sets of
/// the L1 cache.
fn stride(frame: usize) -> usize {
    let lines = frame.next_multiple_of(LINE);
    if lines.is_multiple_of(1024) { lines + LINE } else { lines }
}

fn patch(settings: &Settings, flow: u32) -> Result<Patch> {
    let mut frame = [0; tag::SHORTEST];
    write_frame(settings, flow, &mut frame)?;
    let patch = (|| {
        Some(Patch {
            destination: *frame.get(tag::IP + 16..)?.first_chunk()?,
            checksum: *frame.get(tag::IP + 10..)?.first_chunk()?,
            port: *frame.get(tag::UDP..)?.first_chunk()?,
        })
    })();
    patch.context("a frame is shorter than its headers")
}

fn patch6(settings: &Settings, flow: u32) -> Patch6 {
    Patch6 { destination: destination6(settings, flow).to_be_bytes(), port: port(flow).to_be_bytes() }
}

fn destination6(settings: &Settings, flow: u32) -> u128 {
    settings.destinations6[flow as usize % settings.destinations6.len()]
}

/// Source port of a flow.
fn port(flow: u32) -> u16 {
    (FIRST_PORT + flow % PORTS) as u16
}

/// Writes a frame without its sequence number. The length in the headers is always that of `settings`. Neither family has a
/// checksum of UDP: no router looks at it.
fn write_frame(settings: &Settings, flow: u32, octets: &mut [u8]) -> Result<()> {
    let shift = settings.shift();
    let payload = (settings.frame - tag::UDP - shift) as u16;
    let ethernet = ethernet::Header {
        destination: settings.destination_mac,
        source: settings.source_mac,
        ethertype: if settings.is_six() { ethernet::IPV6 } else { ethernet::IPV4 },
    };
    ethernet.write(octets)?;
    let ip = &mut octets[tag::IP..];
    if settings.is_six() {
        let destination = destination6(settings, flow);
        ipv6::Header::new(ipv6::next::UDP, settings.source6, destination, payload).write(ip)?;
    } else {
        let destination = settings.destinations[flow as usize % settings.destinations.len()];
        ipv4::Header::new(ipv4::UDP, settings.source, destination, payload).write(ip)?;
    }
    let udp =
        udp::Header { source: port(flow), destination: settings.destination_port, len: payload, checksum: 0 };
    udp.write(&mut octets[tag::UDP + shift..])?;
    octets[tag::FLOW + shift..tag::SEQUENCE + shift].copy_from_slice(&flow.to_be_bytes());
    Ok(())
}
