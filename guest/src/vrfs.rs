//! Routers of several VRFs on one vCPU: each has its own NICs, route tables and neighbours, and nothing leads from one to
//! another. Frames of a NIC with VLANs in other VRFs than its own (a trunk) are sorted by their tags.

use arrayvec::ArrayVec;
use bootinfo::{BootFailure, MAX_NICS, MAX_TABLES};
use router::{Burst, Platform, Routes, Trunks};

use crate::boot::Vcpu;
use crate::buffer::FrameBuffer;
use crate::platform::Firmware;
use crate::roles::{self, Epoch, Placed};
use crate::serve::Duty;

/// A router, and its NICs as bits.
struct Vrf<R: 'static> {
    router: Placed<R>,
    nics: u32,
}

/// All routers of a vCPU. The first one has the NICs without a VRF, if there are any.
pub(crate) struct Vrfs<R: 'static> {
    all: ArrayVec<Vrf<R>, MAX_TABLES>,
    epoch: Epoch<R>,
    trunks: Trunks,
    /// The VRF of each NIC.
    owners: [u8; MAX_NICS],
}

/// Creates the routers; `routes` returns the routes of a VRF by its number.
pub(crate) fn routers<R: Routes + 'static>(
    vcpu: &mut Vcpu,
    routes: impl Fn(&Vcpu, usize) -> Result<R, BootFailure>,
) -> Result<Vrfs<R>, BootFailure> {
    let epoch = Epoch::new(routes(vcpu, 0)?);
    let mut all = ArrayVec::new_const();
    let (owners, trunks) = (owners(vcpu), trunks(vcpu));
    for number in 0..(vcpu.info.tables as usize).min(MAX_TABLES) {
        let own = routes(vcpu, number)?;
        let nics = nics(vcpu, number) & !trunks.nics();
        all.push(Vrf { router: roles::placed(vcpu, (number, own))?, nics });
    }
    Ok(Vrfs { all, epoch, trunks, owners })
}

/// Returns the VRF of each NIC.
fn owners(vcpu: &Vcpu) -> [u8; MAX_NICS] {
    vcpu.info.nics.each_ref().map(|nic| nic.table as u8)
}

/// Returns the VLANs with their VRFs.
fn trunks(vcpu: &Vcpu) -> Trunks {
    let mut trunks = Trunks::new();
    for vlan in roles::vlans(vcpu) {
        let of_nic = vcpu.info.nics[vlan.place.nic as usize].table;
        trunks.add(vlan.place, vlan.info.table as u8, of_nic as u8);
    }
    trunks
}

/// Returns the NICs of a VRF as bits.
fn nics(vcpu: &Vcpu, number: usize) -> u32 {
    let all = vcpu.info.nics.iter().take(vcpu.macs.len()).enumerate();
    all.filter(|(_, nic)| nic.table as usize == number).fold(0, |bits, (at, _)| bits | 1 << at)
}

impl<R: Routes + 'static> Vrfs<R> {
    /// Makes a pass over the trunks: each router gets its frames in their order. Returns how many there were.
    fn pass_trunks(&mut self, firmware: &mut Firmware) -> usize {
        let (mut nics, mut frames) = (self.trunks.nics(), 0);
        while nics != 0 {
            let nic = nics.trailing_zeros() as usize % MAX_NICS;
            nics &= nics - 1;
            let mut arrived = Burst::new();
            firmware.receive(nic, &mut arrived);
            frames += arrived.len();
            while !arrived.is_empty() {
                self.serve_one(firmware, nic, &mut arrived);
            }
        }
        frames
    }

    /// Gives the router of the first frame all that are for it, and leaves the other ones.
    fn serve_one(&mut self, firmware: &mut Firmware, nic: usize, arrived: &mut Burst<FrameBuffer>) {
        let (mut its, mut others, mut router) = (Burst::new(), Burst::<FrameBuffer>::new(), None);
        for mut frame in arrived.drain(..) {
            let of = self.trunks.router_of(&mut frame, nic as u8).unwrap_or(self.owners[nic]);
            let whose = if *router.get_or_insert(of) == of { &mut its } else { &mut others };
            // Each has room for all frames.
            let _ = whose.try_push(frame);
        }
        match router.and_then(|router| self.all.get_mut(usize::from(router))) {
            Some(vrf) => vrf.router.take(firmware, nic, &mut its),
            None => its.into_iter().for_each(|frame| firmware.free(frame)),
        }
        // Mostly there are none.
        for frame in others.drain(..) {
            let _ = arrived.try_push(frame);
        }
    }

    /// Tells the host the epoch of the routes that all of them have adopted: the host publishes that of the first one last,
    /// and the first one looks before all others.
    #[inline(always)]
    fn tell_epoch(&mut self, firmware: &Firmware) {
        if let Some(first) = self.all.first() {
            self.epoch.tell(firmware, first.router.routes_epoch());
        }
    }
}

impl<R: Routes + 'static> Duty for Vrfs<R> {
    fn pass(&mut self, firmware: &mut Firmware) -> usize {
        self.epoch.begin(firmware);
        let frames: usize = self.all.iter_mut().map(|vrf| vrf.router.poll_some(firmware, vrf.nics)).sum();
        let frames = frames + self.pass_trunks(firmware);
        self.tell_epoch(firmware);
        roles::count(firmware, frames)
    }

    fn deadline(&self) -> Option<u64> {
        self.all.iter().filter_map(|vrf| vrf.router.next_deadline()).min()
    }

    fn asleep(&mut self, firmware: &mut Firmware) {
        self.epoch.end(firmware);
    }

    fn after_sleep(&mut self, firmware: &mut Firmware) {
        self.epoch.begin(firmware);
        self.all.iter_mut().for_each(|vrf| vrf.router.tick(firmware));
        self.tell_epoch(firmware);
    }
}
