//! Routes that never change, no matter what the host publishes.

use router::{CHOICES, NextHop, Routes};

use crate::platform::Firmware;
use crate::roles::Forwarding;
use crate::serve::Duty;

/// Routes whose epoch remains the one at which they were first seen.
#[derive(Clone, Copy)]
pub(super) struct Frozen<R> {
    routes: R,
    epoch: u32,
}

impl<R: Routes> Frozen<R> {
    /// Freezes the routes at their current epoch.
    pub(super) fn new(routes: R) -> Self {
        Self { epoch: routes.epoch(), routes }
    }
}

impl<R: Routes> Routes for Frozen<R> {
    type Step = R::Step;
    type Six = R::Six;

    fn six(&self) -> R::Six {
        self.routes.six()
    }

    fn prefetch(&self, destination: u32) {
        self.routes.prefetch(destination);
    }

    fn first(&self, destination: u32) -> R::Step {
        self.routes.first(destination)
    }

    fn second(&self, step: R::Step) -> u32 {
        self.routes.second(step)
    }

    fn next_hop(&self, index: u32) -> NextHop {
        self.routes.next_hop(index)
    }

    fn members(&self, index: u32, hash: u32) -> [u32; CHOICES] {
        self.routes.members(index, hash)
    }

    fn leads_by(&self, index: u32, nic: u8) -> bool {
        self.routes.leads_by(index, nic)
    }

    fn epoch(&self) -> u32 {
        self.epoch
    }
}

/// Router that keeps announcing its epoch even while it sleeps.
pub(super) struct EpochHoldingRouter<R: 'static>(pub(super) Forwarding<Frozen<R>>);

impl<R: Routes + 'static> Duty for EpochHoldingRouter<R> {
    fn pass(&mut self, firmware: &mut Firmware) -> usize {
        self.0.pass(firmware)
    }

    fn deadline(&self) -> Option<u64> {
        self.0.deadline()
    }

    fn after_sleep(&mut self, firmware: &mut Firmware) {
        self.0.after_sleep(firmware);
    }
}
