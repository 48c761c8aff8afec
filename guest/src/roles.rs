//! Duties of a firmware, created from the boot information.

use core::sync::atomic::Ordering::{Acquire, Release, SeqCst};
use core::sync::atomic::fence;

use arrayvec::ArrayVec;
use bootinfo::{BootFailure, MAX_ADDRESSES, NicInfo, map};
use fib::layout::{self, GROUP};
use fib::six::{self, layout as layout6};
use fib::{Memory, Table};
use frame::Mac;
use router::roles::{Echo, Sink, Source, SourceSink, Tally, Traffic};
use router::{
    Address, Adjacencies, Config, Interface, Ip, MAX_INTERFACES, Neighbour, ReversePath, Router,
    RouterResources, Routes, Vlan, Waiting,
};

use crate::boot::Vcpu;
use crate::buffer::FrameBuffer;
use crate::platform::Firmware;
use crate::serve::Duty;
use crate::six::Six;

/// Router together with the route table that it reads.
pub(crate) struct Forwarding<R> {
    router: Router<'static, FrameBuffer, R>,
    routes: R,
    /// Epoch last announced to the host.
    epoch: u32,
}

impl<R: Routes> Forwarding<R> {
    /// Announces to the host that this vCPU looks up routes from now on, in the present epoch or a later one.
    fn come_online(&mut self, firmware: &Firmware) {
        self.epoch = self.routes.epoch();
        firmware.shared().fib_epoch.0.store(self.epoch, Release);
        // The host reads the word after it has removed entries that it wants to reuse: either it sees the word, or
        // we see the removal.
        fence(SeqCst);
    }

    /// Announces to the host which epoch of the routes this vCPU has adopted.
    #[inline(always)]
    fn tell_epoch(&mut self, firmware: &Firmware) {
        let epoch = self.router.routes_epoch();
        if epoch != self.epoch {
            self.epoch = epoch;
            firmware.shared().fib_epoch.0.store(epoch, Release);
        }
    }
}

impl<R: Routes> Duty for Forwarding<R> {
    #[inline(always)]
    fn pass(&mut self, firmware: &mut Firmware) -> usize {
        if self.epoch == fib::OFFLINE {
            self.come_online(firmware);
        }
        let frames = self.router.poll(firmware);
        self.tell_epoch(firmware);
        frames
    }

    fn deadline(&self) -> Option<u64> {
        self.router.next_deadline()
    }

    fn asleep(&mut self, firmware: &mut Firmware) {
        self.epoch = fib::OFFLINE;
        firmware.shared().fib_epoch.0.store(fib::OFFLINE, Release);
    }

    fn after_sleep(&mut self, firmware: &mut Firmware) {
        self.come_online(firmware);
        self.router.tick(firmware);
        self.tell_epoch(firmware);
    }
}

/// Creates the router of one vCPU.
pub(crate) fn router(vcpu: &mut Vcpu) -> Result<Forwarding<Table<'static>>, BootFailure> {
    let table = table(vcpu)?;
    forwarding(vcpu, table)
}

/// Returns the route table that the host has mapped.
pub(crate) fn table(vcpu: &Vcpu) -> Result<Table<'static>, BootFailure> {
    Ok(Table::new(route_table(vcpu.info.fib).ok_or(BootFailure::BootInfo)?))
}

/// Creates a router over any routes. Every vCPU sees ARP requests only on its own queues, and answers those.
pub(crate) fn forwarding<R: Routes>(vcpu: &mut Vcpu, routes: R) -> Result<Forwarding<R>, BootFailure> {
    let all = interfaces(vcpu);
    let addresses: ArrayVec<ArrayVec<Address, MAX_ADDRESSES>, MAX_INTERFACES> =
        all.iter().map(|(info, ..)| addresses(info)).collect();
    let sixes: ArrayVec<Six, MAX_INTERFACES> = all.iter().map(|(info, ..)| Six::new(info)).collect();
    let advertise: ArrayVec<_, MAX_INTERFACES> = sixes.iter().map(Six::advertise).collect();
    let interfaces: ArrayVec<Interface<'_>, MAX_INTERFACES> = all
        .iter()
        .zip(&addresses)
        .zip(sixes.iter().zip(&advertise))
        .map(|(((info, mac, vlan), addresses), (six, advertise))| Interface {
            mac: *mac,
            mtu: info.mtu.min(0xffff) as u16,
            addresses,
            addresses6: &six.addresses,
            advertise: advertise.as_ref(),
            vlan: *vlan,
            reverse_path: reverse_path(info),
        })
        .collect();
    let first = vcpu.index == 0;
    if first {
        add_static_neighbours(vcpu);
    }
    // SAFETY: without headers all fields are numbers and false, so zeros are empty caches.
    let adjacencies = unsafe { vcpu.arena.zeroed::<Adjacencies>() }.ok_or(BootFailure::Memory)?;
    let waiting = vcpu.arena.keep(Waiting::new()).ok_or(BootFailure::Memory)?;
    let counters = &vcpu.firmware.shared().router;
    let redirects = vcpu.info.redirects != 0;
    let config = Config { interfaces: &interfaces, keeper: first, answers_arp: true, redirects };
    let parts = RouterResources { routes, neighbours: vcpu.neighbours, adjacencies, waiting, counters };
    Ok(Forwarding { router: Router::new(&config, parts), routes, epoch: fib::OFFLINE })
}

/// An interface: its settings, its Ethernet address, and the VLAN that it is.
type Wanted = (&'static NicInfo, Mac, Option<Vlan>);

/// Returns all interfaces: the NICs, then VLANs of them.
fn interfaces(vcpu: &Vcpu) -> ArrayVec<Wanted, MAX_INTERFACES> {
    let info = vcpu.info;
    let nics = info.nics.iter().zip(&vcpu.macs).map(|(nic, mac)| (nic, Mac(*mac), None));
    let vlans = info.vlans.iter().take(info.vlan_count as usize).filter_map(|own| {
        let mac = vcpu.macs.get(own.nic as usize)?;
        let outer = (own.outer != 0).then_some(own.outer as u16);
        Some((&own.info, Mac(*mac), Some(Vlan { nic: own.nic as u8, outer, id: own.id as u16 })))
    });
    nics.chain(vlans).take(MAX_INTERFACES).collect()
}

fn reverse_path(info: &NicInfo) -> ReversePath {
    match info.reverse_path {
        0 => ReversePath::Off,
        1 => ReversePath::Loose,
        _ => ReversePath::Strict,
    }
}

fn add_static_neighbours(vcpu: &Vcpu) {
    let count = (vcpu.info.neighbour_count as usize).min(bootinfo::MAX_NEIGHBOURS);
    for known in &vcpu.info.neighbours[..count] {
        let [a, b, c, d, e, f, _, _] = known.mac;
        let ip = Ip::v6(u128::from_be_bytes(known.ip));
        vcpu.neighbours.add_static(Neighbour { nic: known.nic as u8, ip, mac: Mac([a, b, c, d, e, f]) });
    }
}

/// Returns the addresses of a NIC.
pub(crate) fn addresses(nic: &NicInfo) -> ArrayVec<Address, MAX_ADDRESSES> {
    let count = (nic.address_count as usize).min(MAX_ADDRESSES);
    nic.addresses[..count].iter().map(|a| Address { ip: a.ip, prefix: a.prefix.min(32) as u8 }).collect()
}

/// Returns the IPv6 route table that the host has mapped behind the IPv4 one, if there is one.
pub(crate) fn six_table(vcpu: &Vcpu) -> Option<six::Table<'static>> {
    let len = vcpu.info.fib as usize;
    let at = route_table(vcpu.info.fib)?.header.six_at.load(Acquire) as usize;
    if at == 0 || at % 4096 != 0 || at.checked_add(layout6::NODES_AT)? > len {
        return None;
    }
    let base = map::FIB as usize + at;
    // SAFETY: the header lies in the memory that is mapped for the guest's whole life, read-only, and consists of atomics.
    let header = unsafe { &*(base as *const six::Header) };
    let (nodes, ranges) = (header.nodes.load(Acquire) as usize, header.ranges.load(Acquire) as usize);
    if !header.is_valid() || at + layout6::len(nodes, ranges) > len {
        return None;
    }
    let nodes_at = base + layout6::NODES_AT;
    // SAFETY: all parts lie inside the memory (checked above), at the offsets and alignments that `fib::six::layout` gives,
    // and consist of atomics only.
    let memory = unsafe {
        six::Memory {
            header,
            next_hops: &*((base + layout6::NEXT_HOPS_AT) as *const _),
            root: &*((base + layout6::ROOT_AT) as *const _),
            nodes: core::slice::from_raw_parts(nodes_at as *const _, nodes * layout6::NODE),
            ranges: core::slice::from_raw_parts((nodes_at + 8 * layout6::NODE * nodes) as *const _, ranges),
        }
    };
    Some(six::Table::new(memory))
}

/// Returns the IPv4 table in the `len` octets that the host mapped for us.
fn route_table(len: u64) -> Option<Memory<'static>> {
    if (len as usize) < layout::len(0) {
        return None;
    }
    let base = map::FIB as usize;
    // SAFETY: the header lies in memory that is mapped for the guest's whole life, read-only, and consists of atomics.
    let six_at = unsafe { &*(base as *const fib::Header) }.six_at.load(Acquire) as usize;
    let end = if six_at == 0 { len as usize } else { six_at.min(len as usize) };
    if end < layout::len(0) {
        return None;
    }
    let groups = layout::groups(end);
    // SAFETY: `len` octets from `base` are mapped for the guest's whole life, read-only; all parts lie inside them
    // (checked above), at the offsets and alignments that `fib::layout` gives, and consist of atomics only.
    let memory = unsafe {
        Memory {
            header: &*(base as *const fib::Header),
            next_hops: &*((base + layout::NEXT_HOPS_AT) as *const _),
            tbl24: &*((base + layout::TBL24_AT) as *const _),
            tbl8: core::slice::from_raw_parts((base + layout::TBL8_AT) as *const _, groups * GROUP),
        }
    };
    memory.header.is_valid().then_some(memory)
}

impl Duty for Echo<FrameBuffer> {
    #[inline(always)]
    fn pass(&mut self, firmware: &mut Firmware) -> usize {
        let frames = Echo::pass(self, firmware);
        count(firmware, frames)
    }
}

impl Duty for Source<FrameBuffer> {
    const LISTENS: bool = false;

    #[inline(always)]
    fn pass(&mut self, firmware: &mut Firmware) -> usize {
        let frames = Source::pass(self, firmware);
        count(firmware, frames)
    }
}

impl Duty for Sink<FrameBuffer> {
    #[inline(always)]
    fn pass(&mut self, firmware: &mut Firmware) -> usize {
        let frames = Sink::pass(self, firmware);
        count(firmware, frames)
    }
}

/// Counts a pass of a duty that does not count its own passes.
#[inline(always)]
pub(crate) fn count(firmware: &Firmware, frames: usize) -> usize {
    let counters = &firmware.shared().router;
    counters.polls.add(1);
    if frames == 0 {
        counters.polls_empty.add(1);
    }
    frames
}

/// Creates a duty that sends received frames back.
pub(crate) fn echo() -> Echo<FrameBuffer> {
    Echo::new()
}

/// Creates a duty that counts received frames.
pub(crate) fn sink() -> Sink<FrameBuffer> {
    Sink::new()
}

/// Creates a duty that sends numbered frames out of NIC 0.
pub(crate) fn source(vcpu: &Vcpu) -> Result<Source<FrameBuffer>, BootFailure> {
    Ok(Source::new(&traffic(vcpu)?))
}

/// Source, and sink for the frames that come back.
pub(crate) struct Loop {
    ends: SourceSink<FrameBuffer>,
    /// Totals last added to the shared counters.
    told: Tally,
}

impl Duty for Loop {
    #[inline(always)]
    fn pass(&mut self, firmware: &mut Firmware) -> usize {
        let frames = self.ends.pass(firmware);
        let (tally, shared) = (self.ends.tally(), &firmware.shared().sink);
        // `lost` decreases when a frame arrives late; the counters wrap.
        shared.frames.add(tally.frames - self.told.frames);
        shared.lost.add(tally.lost.wrapping_sub(self.told.lost));
        shared.reordered.add(tally.reordered - self.told.reordered);
        shared.foreign.add(tally.foreign - self.told.foreign);
        self.told = tally;
        count(firmware, frames)
    }
}

/// Creates a source, with a sink for the frames that come back.
pub(crate) fn source_sink(vcpu: &Vcpu) -> Result<Loop, BootFailure> {
    Ok(Loop { ends: SourceSink::new(&traffic(vcpu)?), told: Tally::default() })
}

/// Returns the traffic that the host configured; each vCPU has flows of its own.
pub(crate) fn traffic(vcpu: &Vcpu) -> Result<Traffic, BootFailure> {
    let orders = &vcpu.info.traffic;
    let [a, b, c, d, e, f, _, _] = orders.to_mac;
    let flows = orders.flows.max(1);
    Ok(Traffic {
        frame_len: orders.frame_len as usize,
        flows,
        first_flow: flows * vcpu.index as u32,
        to_ip: orders.to_ip,
        from_ip: orders.from_ip,
        to_mac: Mac([a, b, c, d, e, f]),
        from_mac: Mac(*vcpu.macs.first().ok_or(BootFailure::Nic)?),
    })
}
