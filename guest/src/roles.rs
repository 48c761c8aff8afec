//! Duties of a firmware, created from the boot information.

use core::sync::atomic::Ordering::SeqCst;
use core::sync::atomic::fence;

use arrayvec::ArrayVec;
use bootinfo::{BootFailure, MAX_ADDRESSES, MAX_NICS, NicInfo};
use fib::Table;
use frame::Mac;
use router::roles::{Balancer, Echo, Sink, Source, SourceSink, Tally, Traffic};
use router::{
    Address, Adjacencies, Config, Interface, Interfaces, Ip, MAX_INTERFACES, Neighbour, Neighbours,
    ReversePath, Router, RouterResources, Routes, Vlan, Waiting,
};

use crate::boot::Vcpu;
use crate::buffer::FrameBuffer;
use crate::platform::Firmware;
use crate::serve::Duty;
use crate::six::Six;
use crate::tables::table;

/// A router, in the arena: it is too large to be moved from one stack frame to the next.
pub(crate) type Placed<R> = &'static mut Router<'static, FrameBuffer, R>;

/// The epoch of the routes that this vCPU has told the host.
pub(crate) struct Epoch<R> {
    routes: R,
    told: u32,
}

impl<R: Routes> Epoch<R> {
    /// `routes`: those whose epoch is told.
    pub(crate) fn new(routes: R) -> Self {
        Self { routes, told: fib::OFFLINE }
    }

    /// Announces to the host that this vCPU looks up routes from now on, in the present epoch or a later one, unless it has.
    #[inline(always)]
    pub(crate) fn begin(&mut self, firmware: &Firmware) {
        if self.told == fib::OFFLINE {
            self.come_online(firmware);
        }
    }

    fn come_online(&mut self, firmware: &Firmware) {
        self.told = self.routes.epoch();
        firmware.tell_epoch(self.told);
        // The host reads the word after it has removed entries that it wants to reuse: either it sees the word, or
        // we see the removal.
        fence(SeqCst);
    }

    /// Announces to the host which epoch of the routes this vCPU has adopted.
    #[inline(always)]
    pub(crate) fn tell(&mut self, firmware: &Firmware, epoch: u32) {
        if epoch != self.told {
            self.told = epoch;
            firmware.tell_epoch(epoch);
        }
    }

    /// Announces to the host that this vCPU looks nothing up.
    pub(crate) fn end(&mut self, firmware: &Firmware) {
        self.told = fib::OFFLINE;
        firmware.tell_epoch(fib::OFFLINE);
    }
}

/// Router together with the route table that it reads.
pub(crate) struct Forwarding<R: 'static> {
    router: Placed<R>,
    epoch: Epoch<R>,
}

impl<R: Routes + 'static> Duty for Forwarding<R> {
    #[inline(always)]
    fn pass(&mut self, firmware: &mut Firmware) -> usize {
        self.epoch.begin(firmware);
        let frames = self.router.poll(firmware);
        self.epoch.tell(firmware, self.router.routes_epoch());
        frames
    }

    fn deadline(&self) -> Option<u64> {
        self.router.next_deadline()
    }

    fn asleep(&mut self, firmware: &mut Firmware) {
        self.epoch.end(firmware);
    }

    fn after_sleep(&mut self, firmware: &mut Firmware) {
        self.epoch.begin(firmware);
        self.router.tick(firmware);
        self.epoch.tell(firmware, self.router.routes_epoch());
    }
}

/// Creates the router of one vCPU.
pub(crate) fn router(vcpu: &mut Vcpu) -> Result<Forwarding<Table<'static>>, BootFailure> {
    let table = table(vcpu, 0)?;
    forwarding(vcpu, table)
}

/// Creates a router over any routes.
pub(crate) fn forwarding<R: Routes + 'static>(
    vcpu: &mut Vcpu,
    routes: R,
) -> Result<Forwarding<R>, BootFailure> {
    Ok(Forwarding { router: placed(vcpu, (0, routes))?, epoch: Epoch::new(routes) })
}

/// Creates the router of the VRF with this number over its routes. To it the interfaces of other VRFs have no addresses. Every
/// vCPU sees ARP requests only on its own queues, and answers those.
pub(crate) fn placed<R: Routes + 'static>(
    vcpu: &mut Vcpu,
    (number, routes): (usize, R),
) -> Result<Placed<R>, BootFailure> {
    let nothing: &'static NicInfo = vcpu.arena.keep(NicInfo::default()).ok_or(BootFailure::Memory)?;
    let neighbours = vcpu.neighbours.get(number).ok_or(BootFailure::BootInfo)?;
    let all = interfaces(vcpu, (number, nothing));
    let addresses: ArrayVec<ArrayVec<Address, MAX_ADDRESSES>, MAX_INTERFACES> =
        all.iter().map(|(info, ..)| addresses(info)).collect();
    let sixes = sixes(vcpu, &all)?;
    let advertise: ArrayVec<_, MAX_INTERFACES> = sixes.iter().map(|six| six.advertise()).collect();
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
        add_static_neighbours(vcpu, (number, neighbours));
    }
    // SAFETY: without headers all fields are numbers and false, so zeros are empty caches.
    let adjacencies = unsafe { vcpu.arena.zeroed::<Adjacencies>() }.ok_or(BootFailure::Memory)?;
    let waiting = vcpu.arena.keep(Waiting::new()).ok_or(BootFailure::Memory)?;
    let states = vcpu.arena.keep(Interfaces::new()).ok_or(BootFailure::Memory)?;
    let place = vcpu.arena.place().ok_or(BootFailure::Memory)?;
    let config = Config {
        interfaces: &interfaces,
        keeper: first,
        answers_arp: true,
        redirects: vcpu.info.redirects != 0,
        shares_addresses: vcpu.info.shares_addresses != 0,
        table: number as u8,
    };
    let shared = vcpu.firmware.shared();
    let parts = RouterResources {
        routes,
        neighbours,
        adjacencies,
        interfaces: states,
        waiting,
        counters: &shared.router,
        vlans: &shared.vlans,
    };
    Ok(place.write(Router::new(&config, parts)))
}

/// An interface: its settings, its Ethernet address, and the VLAN that it is.
type Wanted = (&'static NicInfo, Mac, Option<Vlan>);

/// A VLAN, and the settings of its interface.
pub(crate) struct VlanWanted {
    pub(crate) place: Vlan,
    pub(crate) info: &'static NicInfo,
}

/// Returns the VLANs of existing NICs, in the order of their interfaces.
pub(crate) fn vlans(vcpu: &Vcpu) -> impl Iterator<Item = VlanWanted> {
    let (info, nics) = (vcpu.info, vcpu.macs.len() as u32);
    let own = info.vlans.iter().take(info.vlan_count as usize).filter(move |own| own.nic < nics);
    own.map(|own| {
        let outer = (own.outer != 0).then_some(own.outer as u16);
        VlanWanted { place: Vlan { nic: own.nic as u8, outer, id: own.id as u16 }, info: &own.info }
    })
}

/// Returns all interfaces: the NICs, then VLANs of them. Those of other VRFs than this one have the settings `nothing`.
fn interfaces(vcpu: &Vcpu, (number, nothing): (usize, &'static NicInfo)) -> ArrayVec<Wanted, MAX_INTERFACES> {
    let info = vcpu.info;
    let of = |own: &'static NicInfo| if own.table as usize == number { own } else { nothing };
    let nics = info.nics.iter().zip(&vcpu.macs).map(|(nic, mac)| (of(nic), Mac(*mac), None));
    let vlans = vlans(vcpu).map(|own| {
        let mac = vcpu.macs[usize::from(own.place.nic)];
        (of(own.info), Mac(mac), Some(own.place))
    });
    nics.chain(vlans).take(MAX_INTERFACES).collect()
}

/// Reads the IPv6 settings of interfaces into the arena: all of them are too large for a stack.
fn sixes(vcpu: &mut Vcpu, all: &[Wanted]) -> Result<ArrayVec<&'static Six, MAX_INTERFACES>, BootFailure> {
    let read = |(info, ..): &Wanted| Ok(&*vcpu.arena.keep(Six::new(info)).ok_or(BootFailure::Memory)?);
    all.iter().map(read).collect()
}

fn reverse_path(info: &NicInfo) -> ReversePath {
    match info.reverse_path {
        0 => ReversePath::Off,
        1 => ReversePath::Loose,
        _ => ReversePath::Strict,
    }
}

/// Adds the static neighbours on NICs and interfaces of this VRF.
fn add_static_neighbours(vcpu: &Vcpu, (number, neighbours): (usize, &Neighbours<'_>)) {
    let info = vcpu.info;
    let count = (info.neighbour_count as usize).min(bootinfo::MAX_NEIGHBOURS);
    let vlan = |at: usize| info.vlans.get(at).map(|own| &own.info);
    let own = |nic: usize| match nic.checked_sub(info.nic_count as usize) {
        Some(at) => vlan(at),
        None => info.nics.get(nic),
    };
    let is_here = |nic: usize| own(nic).is_some_and(|own| own.table as usize == number);
    for known in info.neighbours[..count].iter().filter(|known| is_here(known.nic as usize)) {
        let [a, b, c, d, e, f, _, _] = known.mac;
        let ip = Ip::v6(u128::from_be_bytes(known.ip));
        neighbours.add_static(Neighbour { nic: known.nic as u8, ip, mac: Mac([a, b, c, d, e, f]) });
    }
}

/// Returns the addresses of a NIC.
pub(crate) fn addresses(nic: &NicInfo) -> ArrayVec<Address, MAX_ADDRESSES> {
    let count = (nic.address_count as usize).min(MAX_ADDRESSES);
    nic.addresses[..count].iter().map(|a| Address { ip: a.ip, prefix: a.prefix.min(32) as u8 }).collect()
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

/// Balancer, in the arena.
pub(crate) struct Balancing(&'static mut Balancer<FrameBuffer>);

impl Duty for Balancing {
    #[inline(always)]
    fn pass(&mut self, firmware: &mut Firmware) -> usize {
        let tally = &firmware.shared().balancer;
        let frames = self.0.pass(firmware, tally);
        count(firmware, frames)
    }
}

/// Creates a duty that spreads frames over the members of a group.
pub(crate) fn balancer(vcpu: &mut Vcpu) -> Result<Balancing, BootFailure> {
    let macs: ArrayVec<Mac, MAX_NICS> = vcpu.macs.iter().map(|mac| Mac(*mac)).collect();
    let place = vcpu.arena.place().ok_or(BootFailure::Memory)?;
    Ok(Balancing(place.write(Balancer::new(&macs))))
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
