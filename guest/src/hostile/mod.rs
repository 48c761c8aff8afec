//! A router that breaks the rules: what the host and its other routers must stand.
//!
//! It forwards like any other for a moment, so that it can be seen to come up, and to come up again; then it does
//! what [`BootInfo::misdeed`](bootinfo::BootInfo::misdeed) says, in its packet loop, so that it answers the host
//! meanwhile. The same vCPU of the same router does the same each time.

mod frozen;
mod random;
mod registers;
mod rings;

use bootinfo::{Misdeed, Trouble};
use fib::Table;
use router::Platform;

use crate::boot::{self, Vcpu};
use crate::halt::{self, Mailbox};
use crate::platform::Firmware;
use crate::roles::{self, Forwarding};
use crate::serve::{self, Duty};
use frozen::Frozen;
use random::Random;

/// How long it behaves, in milliseconds.
const GOOD_TIME: u64 = 1000;
/// Doorbells of each queue in one pass: few, for each takes microseconds and the host is to be answered.
const KICKS: u32 = 2;

/// Serves, then misbehaves, until the host says stop or does more.
pub(crate) fn run(vcpu: &mut Vcpu) -> Result<(), Trouble> {
    let misdeed = Misdeed::from_number(vcpu.info.misdeed).ok_or(Trouble::BootInfo)?;
    if misdeed == Misdeed::OldEpoch {
        let routes = Frozen::new(roles::table(vcpu)?);
        let stubborn = frozen::Stubborn(roles::forwarding(vcpu, routes)?);
        serve::serve(stubborn, vcpu);
        return Ok(());
    }
    let hostile = Hostile {
        good: roles::router(vcpu)?,
        misdeed,
        begins: vcpu.firmware.now() + GOOD_TIME,
        random: Random::new(vcpu.info.traffic.flows, vcpu.index),
        vcpu: vcpu.index,
        slots: vcpu.info.nic_count,
        ram: vcpu.info.ram,
        round: 0,
    };
    serve::serve(hostile, vcpu);
    Ok(())
}

/// A router that will not stay one.
struct Hostile {
    good: Forwarding<Table<'static>>,
    misdeed: Misdeed,
    /// When it stops behaving, in milliseconds of the firmware's clock.
    begins: u64,
    random: Random,
    vcpu: usize,
    /// PCI slots with a NIC; the first is 1.
    slots: u32,
    /// Octets of RAM.
    ram: u64,
    /// How often it has done it.
    round: u32,
}

impl Duty for Hostile {
    fn pass(&mut self, firmware: &mut Firmware) -> usize {
        let frames = self.good.pass(firmware);
        if firmware.now() >= self.begins {
            self.misbehave(firmware);
            return frames.max(1);
        }
        // Who ends in a triple fault can take no interrupt before, so it must not sleep.
        if self.misdeed == Misdeed::TripleFault { frames.max(1) } else { frames }
    }

    fn deadline(&self) -> Option<u64> {
        // Soon enough: whoever sleeps now is to wake up for its misdeed.
        Some(self.good.deadline().unwrap_or(GOOD_TIME).min(GOOD_TIME / 4))
    }

    fn asleep(&mut self, firmware: &mut Firmware) {
        self.good.asleep(firmware);
    }

    fn woken(&mut self, firmware: &mut Firmware) {
        self.good.woken(firmware);
    }
}

impl Hostile {
    /// Does it once.
    fn misbehave(&mut self, firmware: &mut Firmware) {
        self.round = self.round.wrapping_add(1);
        match self.misdeed {
            Misdeed::Registers => registers::access(&mut self.random, self.slots, self.ram),
            Misdeed::Descriptors | Misdeed::Loops | Misdeed::Addresses | Misdeed::Indices => {
                self.spoil_rings(firmware);
            }
            Misdeed::Kicks => kick(firmware),
            Misdeed::Sleep => self.sleep_for_ever(),
            Misdeed::Spin => spin_for_ever(),
            Misdeed::TripleFault => halt::die(),
            // Served by a duty of its own.
            Misdeed::OldEpoch => {}
        }
    }

    fn spoil_rings(&mut self, firmware: &mut Firmware) {
        let queues = firmware.pairs().flat_map(|pair| pair.exposed());
        for (number, (layout, bell)) in (0u32..).zip(queues) {
            let ring = rings::Ring::new(&layout, number.is_multiple_of(2), self.ram);
            // Each queue in another way.
            let way = self.round.wrapping_add(number);
            match self.misdeed {
                Misdeed::Descriptors => ring.random_descriptors(&mut self.random),
                Misdeed::Loops => ring.loops(way),
                Misdeed::Addresses => ring.addresses(way),
                _ => ring.indices(way, &mut self.random),
            }
            bell.kick();
        }
    }

    /// Sleeps whatever comes.
    fn sleep_for_ever(&self) -> ! {
        let mailbox = Mailbox::new(&boot::shared().mailbox[self.vcpu].0);
        loop {
            mailbox.sleep(mailbox.seen());
        }
    }
}

fn kick(firmware: &Firmware) {
    for _ in 0..KICKS {
        firmware.pairs().flat_map(|pair| pair.exposed()).for_each(|(_, bell)| bell.kick());
    }
}

fn spin_for_ever() -> ! {
    loop {
        core::hint::spin_loop();
    }
}
