//! Routers of several VRFs on one vCPU: each has its own NICs, route tables and neighbours, and nothing leads from one to
//! another.

use arrayvec::ArrayVec;
use bootinfo::{BootFailure, MAX_TABLES};
use router::Routes;

use crate::boot::Vcpu;
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
}

/// Creates the routers; `routes` returns the routes of a VRF by its number.
pub(crate) fn routers<R: Routes + 'static>(
    vcpu: &mut Vcpu,
    routes: impl Fn(&Vcpu, usize) -> Result<R, BootFailure>,
) -> Result<Vrfs<R>, BootFailure> {
    let epoch = Epoch::new(routes(vcpu, 0)?);
    let mut all = ArrayVec::new_const();
    for number in 0..(vcpu.info.tables as usize).min(MAX_TABLES) {
        let own = routes(vcpu, number)?;
        all.push(Vrf { router: roles::placed(vcpu, (number, own))?, nics: nics(vcpu, number) });
    }
    Ok(Vrfs { all, epoch })
}

/// Returns the NICs of a VRF as bits.
fn nics(vcpu: &Vcpu, number: usize) -> u32 {
    let all = vcpu.info.nics.iter().take(vcpu.macs.len()).enumerate();
    all.filter(|(_, nic)| nic.table as usize == number).fold(0, |bits, (at, _)| bits | 1 << at)
}

impl<R: Routes + 'static> Vrfs<R> {
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
