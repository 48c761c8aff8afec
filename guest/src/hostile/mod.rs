//! A router that breaks the rules: what the host and its other routers must stand.
//!
//! It forwards like any other for a moment, so that it can be seen to come up, and to come up again; then it does
//! what [`BootInfo::misdeed`](bootinfo::BootInfo::misdeed) says, in its packet loop, so that it answers the host
//! meanwhile. The same vCPU of the same router does the same each time.

mod card;
mod device;
mod frozen;
mod random;
mod registers;
mod rings;

use arrayvec::ArrayVec;
use bootinfo::{BootInfo, MAX_NICS, Misdeed, NicModel, Trouble};
use fib::Table;
use router::Platform;

use crate::boot::{self, Vcpu};
use crate::halt::{self, Mailbox};
use crate::platform::Firmware;
use crate::roles::{self, Forwarding};
use crate::serve::{self, Duty};
use card::Card;
use device::Device;
use frozen::Frozen;
use random::Random;

/// How long it behaves, in milliseconds.
const GOOD_TIME: u64 = 1000;
/// How long it burdens the host by rules that it keeps, before it breaks one, in milliseconds.
const BURDEN_TIME: u64 = 1000;
/// Doorbells of each queue in one pass: few, for each takes microseconds and the host is to be answered.
const KICKS: u32 = 2;
/// In one of so many passes NICs are set up, or commanded: that takes milliseconds, and the host is to be answered.
const PASSES: u32 = 64;

/// Serves, then misbehaves, until the host says stop or does more.
pub(crate) fn run(vcpu: &mut Vcpu) -> Result<(), Trouble> {
    let misdeed = Misdeed::from_number(vcpu.info.misdeed).ok_or(Trouble::BootInfo)?;
    if misdeed == Misdeed::OldEpoch {
        let routes = Frozen::new(roles::table(vcpu)?);
        let stubborn = frozen::Stubborn(roles::forwarding(vcpu, routes)?);
        serve::serve(stubborn, vcpu);
        return Ok(());
    }
    let good = roles::router(vcpu)?;
    // One vCPU is enough to set a device up, and two would take it from each other.
    let begins =
        if vcpu.index > 0 && takes_over(misdeed) { u64::MAX } else { vcpu.firmware.now() + GOOD_TIME };
    let hostile = Hostile {
        good,
        misdeed,
        begins,
        random: Random::new(vcpu.info.traffic.flows, vcpu.index),
        vcpu: vcpu.index,
        info: vcpu.info,
        devices: devices(misdeed, vcpu)?,
        cards: ArrayVec::new_const(),
        round: 0,
    };
    serve::serve(hostile, vcpu);
    Ok(())
}

/// Whether the NICs have another driver from then on.
fn takes_over(misdeed: Misdeed) -> bool {
    matches!(misdeed, Misdeed::Resets | Misdeed::Commands)
}

/// The virtio-net devices that get another driver.
fn devices(misdeed: Misdeed, vcpu: &mut Vcpu) -> Result<ArrayVec<Device, MAX_NICS>, Trouble> {
    let (info, mut devices) = (vcpu.info, ArrayVec::new_const());
    let is_ours = |model| model == NicModel::VirtioNet as u32 && takes_over(misdeed);
    for nic in info.nics.iter().take(info.nic_count as usize).filter(|nic| is_ours(nic.model)) {
        devices.push(Device::new(nic.slot, info.ram, &mut vcpu.arena).ok_or(Trouble::Memory)?);
    }
    Ok(devices)
}

/// A router that will not stay one.
struct Hostile {
    good: Forwarding<Table<'static>>,
    misdeed: Misdeed,
    /// When it stops behaving, in milliseconds of the firmware's clock.
    begins: u64,
    random: Random,
    vcpu: usize,
    /// The orders, which tell where NICs and memory are.
    info: &'static BootInfo,
    /// The virtio-net devices among the NICs, if it is going to drive them itself.
    devices: ArrayVec<Device, MAX_NICS>,
    /// The e1000s among the NICs, once it misbehaves.
    cards: ArrayVec<Card, MAX_NICS>,
    /// How often it has done it.
    round: u32,
}

impl Duty for Hostile {
    fn pass(&mut self, firmware: &mut Firmware) -> usize {
        // Who writes an e1000's registers past its driver would take frames back that the driver has sent meanwhile; and a driver
        // is out of place whose device has another one.
        let is_driven = self.cards.is_empty() && !(self.round > 0 && takes_over(self.misdeed));
        let frames = if is_driven { self.good.pass(firmware) } else { 0 };
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
        if self.round == 1 && self.misdeed != Misdeed::Registers {
            self.cards = card::find(self.info);
        }
        match self.misdeed {
            Misdeed::Registers => registers::access(&mut self.random, self.info),
            Misdeed::Descriptors | Misdeed::Loops | Misdeed::Addresses | Misdeed::Indices => {
                self.spoil_rings(firmware);
                self.spoil_cards();
            }
            Misdeed::Chains if firmware.now() < self.begins + BURDEN_TIME => self.burden(firmware),
            Misdeed::Chains => {
                self.spoil_rings(firmware);
                self.spoil_cards();
            }
            Misdeed::Kicks => self.kick(firmware),
            Misdeed::Resets | Misdeed::Commands if self.round % PASSES != 1 => {}
            Misdeed::Resets => {
                for device in &mut self.devices {
                    // What cannot be set up now is reset in the next round.
                    let _ = device.renew();
                }
                self.cards.iter_mut().for_each(Card::renew);
            }
            Misdeed::Commands => {
                for device in &mut self.devices {
                    let _ = device.command();
                }
                self.cards.iter().for_each(Card::command);
            }
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
            let ring = rings::Ring::new(&layout, number.is_multiple_of(2), self.info.ram);
            // Each queue in another way.
            let way = self.round.wrapping_add(number);
            match self.misdeed {
                Misdeed::Descriptors => ring.random_descriptors(&mut self.random),
                Misdeed::Loops => ring.loops(way),
                // Round and round.
                Misdeed::Chains => ring.loops(1),
                Misdeed::Addresses => ring.addresses(way),
                _ => ring.indices(way, &mut self.random),
            }
            bell.kick();
        }
    }

    fn spoil_cards(&mut self) {
        let rings = self.cards.iter().flat_map(|card| &card.rings);
        for (number, ring) in (0u32..).zip(rings) {
            // Each ring in another way, and each in all of them.
            let way = self.round.wrapping_add(number);
            match self.misdeed {
                Misdeed::Descriptors => ring.random_descriptors(&mut self.random),
                Misdeed::Loops => ring.loops(way),
                // To a piece that is not there.
                Misdeed::Chains => ring.loops(3),
                Misdeed::Addresses => ring.addresses(way),
                _ => ring.indices(way, &mut self.random),
            }
        }
    }

    fn burden(&self, firmware: &Firmware) {
        let queues = firmware.pairs().flat_map(|pair| pair.exposed());
        for (number, (layout, bell)) in (0u32..).zip(queues) {
            let ring = rings::Ring::new(&layout, number.is_multiple_of(2), self.info.ram);
            if ring.longest_chains(self.round.wrapping_add(number)) {
                bell.kick();
            }
        }
        let rings = self.cards.iter().flat_map(|card| &card.rings);
        for (number, ring) in (0u32..).zip(rings) {
            ring.longest_chains(self.round.wrapping_add(number));
        }
    }

    fn kick(&self, firmware: &Firmware) {
        for _ in 0..KICKS {
            firmware.pairs().flat_map(|pair| pair.exposed()).for_each(|(_, bell)| bell.kick());
            self.cards.iter().flat_map(|card| &card.rings).for_each(card::Ring::kick);
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

fn spin_for_ever() -> ! {
    loop {
        core::hint::spin_loop();
    }
}
