//! Hostile router, which breaks the rules: the host and its other routers must withstand it.
//!
//! It forwards like any other router for a moment, so that its start and restart can be observed; then it commits
//! [`BootInfo::misdeed`](bootinfo::BootInfo::misdeed), in its packet loop, so that it still answers the host. The same vCPU of
//! the same router does the same each time.

mod card;
mod device;
mod frozen;
mod random;
mod registers;
mod rings;

use arrayvec::ArrayVec;
use bootinfo::{BootFailure, BootInfo, MAX_NICS, Misdeed, NicModel, map};
use fib::Table;
use router::Platform;

use crate::boot::{self, Vcpu};
use crate::halt::{self, Mailbox};
use crate::platform::Firmware;
use crate::roles::{self, Forwarding};
use crate::serve::{self, Duty};
use crate::tables;
use card::RawE1000;
use device::Device;
use frozen::Frozen;
use random::Random;

/// Time for which it behaves, in milliseconds.
const GOOD_TIME: u64 = 1000;
/// Time for which it burdens the host within the rules, before it breaks one, in milliseconds.
const BURDEN_TIME: u64 = 1000;
/// Doorbells of each queue in one pass: few, because each takes microseconds and the host must still be answered.
const KICKS: u32 = 2;
/// Questions that it asks of its host at once.
const QUESTIONS: u32 = 1000;
/// NICs are set up or sent commands in one of this many passes: that takes milliseconds, and the host must still be answered.
const PASSES: u32 = 64;

/// Serves, then misbehaves, until the host tells it to stop or intervenes.
pub(crate) fn run(vcpu: &mut Vcpu) -> Result<(), BootFailure> {
    let misdeed = Misdeed::from_number(vcpu.info.misdeed).ok_or(BootFailure::BootInfo)?;
    if misdeed == Misdeed::OldEpoch {
        let routes = Frozen::new(tables::table(vcpu, 0)?);
        let stubborn = frozen::EpochHoldingRouter(roles::forwarding(vcpu, routes)?);
        serve::serve(stubborn, vcpu);
        return Ok(());
    }
    let good = roles::router(vcpu)?;
    // One vCPU suffices to set a device up; two would interfere with each other.
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

/// Returns true if this misdeed replaces the NICs' driver.
fn takes_over(misdeed: Misdeed) -> bool {
    matches!(misdeed, Misdeed::Resets | Misdeed::Commands)
}

/// Creates replacement drivers for the virtio-net devices.
fn devices(misdeed: Misdeed, vcpu: &mut Vcpu) -> Result<ArrayVec<Device, MAX_NICS>, BootFailure> {
    let (info, mut devices) = (vcpu.info, ArrayVec::new_const());
    let is_ours = |model| model == NicModel::VirtioNet as u32 && takes_over(misdeed);
    for nic in info.nics.iter().take(info.nic_count as usize).filter(|nic| is_ours(nic.model)) {
        devices.push(Device::new(nic.slot, info.ram, &mut vcpu.arena).ok_or(BootFailure::Memory)?);
    }
    Ok(devices)
}

/// Router that turns hostile.
struct Hostile {
    good: Forwarding<Table<'static>>,
    misdeed: Misdeed,
    /// Time at which it stops behaving, in milliseconds of the firmware's clock.
    begins: u64,
    random: Random,
    vcpu: usize,
    /// Boot information, which tells the locations of NICs and memory.
    info: &'static BootInfo,
    /// Replacement drivers of the virtio-net devices, if the misdeed needs them.
    devices: ArrayVec<Device, MAX_NICS>,
    /// The e1000s among the NICs, once it misbehaves.
    cards: ArrayVec<RawE1000, MAX_NICS>,
    /// Number of times it has misbehaved.
    round: u32,
}

impl Duty for Hostile {
    fn pass(&mut self, firmware: &mut Firmware) -> usize {
        // A misdeed that writes an e1000's registers behind its driver's back would take back frames that the driver has sent
        // meanwhile; and a driver must not run once another one has taken its device.
        let is_driven = self.cards.is_empty() && !(self.round > 0 && takes_over(self.misdeed));
        let frames = if is_driven { self.good.pass(firmware) } else { 0 };
        if firmware.now() >= self.begins {
            self.misbehave(firmware);
            return frames.max(1);
        }
        // A vCPU that ends in a triple fault can take no interrupt before, so it must not sleep.
        if self.misdeed == Misdeed::TripleFault { frames.max(1) } else { frames }
    }

    fn deadline(&self) -> Option<u64> {
        // Soon enough: a sleeping vCPU has to wake up for its misdeed.
        Some(self.good.deadline().unwrap_or(GOOD_TIME).min(GOOD_TIME / 4))
    }

    fn asleep(&mut self, firmware: &mut Firmware) {
        self.good.asleep(firmware);
    }

    fn after_sleep(&mut self, firmware: &mut Firmware) {
        self.good.after_sleep(firmware);
    }
}

impl Hostile {
    /// Commits the misdeed once.
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
                    // A device that cannot be set up now is reset in the next round.
                    let _ = device.renew();
                }
                self.cards.iter_mut().for_each(RawE1000::renew);
            }
            Misdeed::Commands => {
                for device in &mut self.devices {
                    let _ = device.command();
                }
                self.cards.iter().for_each(RawE1000::command);
            }
            Misdeed::Sleep => self.sleep_for_ever(),
            Misdeed::Spin => spin_for_ever(),
            Misdeed::TripleFault => halt::die(),
            Misdeed::Tables => self.spoil_tables(firmware),
            // Handled by a duty of its own.
            Misdeed::OldEpoch => {}
        }
    }

    fn spoil_rings(&mut self, firmware: &mut Firmware) {
        let queues = firmware.pairs().flat_map(|pair| pair.exposed());
        for (number, (layout, bell)) in (0u32..).zip(queues) {
            let ring = rings::Ring::new(&layout, number.is_multiple_of(2), self.info.ram);
            // Vary the way from queue to queue.
            let way = self.round.wrapping_add(number);
            match self.misdeed {
                Misdeed::Descriptors => ring.random_descriptors(&mut self.random),
                Misdeed::Loops => ring.loops(way),
                // A chain that goes round and round.
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
            // Vary the way from ring to ring, and from round to round.
            let way = self.round.wrapping_add(number);
            match self.misdeed {
                Misdeed::Descriptors => ring.random_descriptors(&mut self.random),
                Misdeed::Loops => ring.loops(way),
                // A chain to a piece outside memory.
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

    /// Asks more often than a ring has places, then writes where only the host may write, which is its end.
    fn spoil_tables(&self, firmware: &mut Firmware) {
        (0..QUESTIONS).for_each(|ip| firmware.ask_for_neighbour(0, ip));
        let table = if self.info.group_neighbours > 0 { map::NEIGHBOURS } else { map::FIB };
        // SAFETY: the place is mapped for the firmware's whole life, and read-only: the store ends the vCPU, or the process, and
        // changes nothing.
        unsafe { core::ptr::write_volatile(table as *mut u64, u64::MAX) };
    }

    fn kick(&self, firmware: &Firmware) {
        for _ in 0..KICKS {
            firmware.pairs().flat_map(|pair| pair.exposed()).for_each(|(_, bell)| bell.kick());
            self.cards.iter().flat_map(|card| &card.rings).for_each(card::Ring::kick);
        }
    }

    /// Sleeps on, ignoring all events.
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
