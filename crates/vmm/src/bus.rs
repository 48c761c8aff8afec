//! Dispatches a guest's memory accesses outside its RAM: PCI configuration space and BARs.

use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use bootinfo::map;
use ledger::VcpuExits;
use nic_port::Kicks;
use ring::Region;
use ring::hand_over::HandOver;

/// Number of PCI slots of bus 0.
pub const SLOTS: usize = map::SLOTS;

/// A device on the bus. An access has effects beyond the model (queues start, interrupts are routed), so a
/// device consists of the model and the code that applies these effects.
pub trait BusDevice: Send {
    /// Reads configuration space.
    fn config_read(&mut self, offset: u16, data: &mut [u8]);
    /// Writes configuration space.
    fn config_write(&mut self, offset: u16, data: &[u8]);
    /// Reads the BAR at a guest-physical address; returns false if the device has no BAR there.
    fn memory_read(&mut self, address: u64, data: &mut [u8]) -> bool;
    /// Writes the BAR at a guest-physical address; returns false if the device has no BAR there.
    fn memory_write(&mut self, address: u64, data: &[u8]) -> bool;
    /// Reads an I/O port; returns false if the device has no BAR there.
    fn port_read(&mut self, _port: u16, _data: &mut [u8]) -> bool {
        false
    }
    /// Writes an I/O port; returns false if the device has no BAR there.
    fn port_write(&mut self, _port: u16, _data: &[u8]) -> bool {
        false
    }
    /// Plugs the cable of the device in or pulls it out. Must not block; a device that would have to block
    /// leaves its state unchanged.
    fn set_link(&mut self, _up: bool) {}
    /// Prepares for being dropped together with other devices: asks for the return of what it has handed out,
    /// without waiting.
    fn recall(&mut self) {}
    /// Returns true if the last access has begun work that is to be continued.
    fn has_more(&self) -> bool {
        false
    }
    /// Continues that work, for no longer than one access may hold the device.
    fn go_on(&mut self) {}
    /// Takes the kicks that the last access caused; they are sent after the device is unlocked, because that
    /// may block.
    fn take_kicks(&mut self) -> Option<Kicks> {
        None
    }
    /// Takes the time for which the thread that made the last accesses must sleep to pay for their cost to
    /// the host.
    fn take_debt(&mut self) -> Option<Duration> {
        None
    }
}

/// Slot of the bus.
struct Slot {
    device: Mutex<Option<Box<dyn BusDevice>>>,
    /// Requested state of its cable: [`PLUGGED`] or [`PULLED`].
    cable: HandOver<AtomicU32>,
}

/// States of a device's cable.
const PLUGGED: u32 = 1;
const PULLED: u32 = 2;

impl Slot {
    fn empty() -> Self {
        Self { device: Mutex::default(), cable: HandOver::default() }
    }

    /// Performs a guest's access, which may wait for another one. Work that it has begun is continued in
    /// steps, between which other threads may lock the device.
    fn with<R>(&self, act: impl FnOnce(&mut dyn BusDevice) -> R) -> Option<R> {
        let (done, mut has_more) = self.turn(act)?;
        while has_more {
            has_more = self.turn(|device| device.go_on()).is_some_and(|((), has_more)| has_more);
        }
        Some(done)
    }

    /// Locks the device once; returns the result, and whether there is more to do.
    fn turn<R>(&self, act: impl FnOnce(&mut dyn BusDevice) -> R) -> Option<(R, bool)> {
        let mut place = self.device.lock().unwrap_or_else(PoisonError::into_inner);
        let done =
            place.as_mut().map(|device| ((act(device.as_mut()), device.has_more()), device.take_kicks()));
        drop(place);
        self.cable.settle(|| self.try_lock(), set_link);
        let (done, kicks) = done?;
        if let Some(kicks) = kicks {
            kicks.ring();
        }
        Some(done)
    }

    fn try_lock(&self) -> Option<Place<'_>> {
        match self.device.try_lock() {
            Ok(place) => Some(place),
            Err(TryLockError::Poisoned(place)) => Some(place.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

type Place<'s> = MutexGuard<'s, Option<Box<dyn BusDevice>>>;

fn set_link(place: &mut Place<'_>, order: u32) {
    if let Some(device) = place.as_mut() {
        device.set_link(order == PLUGGED);
    }
}

/// PCI bus 0 of one guest.
pub struct Bus {
    slots: [Slot; SLOTS],
    used: std::sync::atomic::AtomicUsize,
    ram: Region,
    /// Rests for this time, to pay for an access that is costly to the host.
    pay_by_sleeping: Box<dyn Fn(Duration) + Send + Sync>,
}

impl Bus {
    /// Creates an empty bus for this RAM.
    pub fn new(ram: Region) -> Arc<Self> {
        Self::resting(ram, Box::new(std::thread::sleep))
    }

    /// Creates an empty bus with another way to rest than sleeping.
    fn resting(ram: Region, pay_by_sleeping: Box<dyn Fn(Duration) + Send + Sync>) -> Arc<Self> {
        Arc::new(Self {
            slots: std::array::from_fn(|_| Slot::empty()),
            used: Default::default(),
            ram,
            pay_by_sleeping,
        })
    }

    /// Inserts a device into a slot.
    pub fn insert(&self, slot: usize, device: Box<dyn BusDevice>) {
        if let Some(place) = self.slots.get(slot) {
            *place.device.lock().unwrap_or_else(PoisonError::into_inner) = Some(device);
            self.used.fetch_max(slot + 1, std::sync::atomic::Ordering::AcqRel);
        }
    }

    /// Empties all slots: the devices release what they hold. Each may wait for the return of what it has
    /// handed out, which all of them have requested before.
    pub fn clear(&self) {
        for slot in &self.slots {
            if let Some(device) = slot.device.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
                device.recall();
            }
        }
        for slot in &self.slots {
            slot.device.lock().unwrap_or_else(PoisonError::into_inner).take();
        }
    }

    /// Plugs the cable of the device in a slot in, or pulls it out; if the guest is accessing the device,
    /// afterwards. Never blocks. A device may be unable to take the change at the moment: callers repeat it
    /// about ten times a second.
    pub fn set_link(&self, slot: usize, up: bool) {
        if let Some(slot) = self.slots.get(slot) {
            slot.cable.post(if up { PLUGGED } else { PULLED }, || slot.try_lock(), set_link);
        }
    }

    /// Performs a guest's read outside its RAM. Unclaimed addresses read as all ones, as on a PCI bus.
    pub fn read(&self, address: u64, data: &mut [u8], exits: &VcpuExits) {
        data.fill(0xff);
        if let Some((slot, offset)) = config_address(address) {
            return self.config_read(slot, offset, data, exits);
        }
        exits.register_read.add(1);
        self.pay(self.any_slot(|device| device.memory_read(address, data)), exits);
    }

    /// Performs a guest's read of a slot's configuration space, by ECAM or by ports.
    pub(crate) fn config_read(&self, slot: usize, offset: u16, data: &mut [u8], exits: &VcpuExits) {
        exits.pci_config_read.add(1);
        self.pay(self.with_slot(slot, |device| device.config_read(offset, data)), exits);
    }

    /// Performs a guest's write to a slot's configuration space, by ECAM or by ports.
    pub(crate) fn config_write(&self, slot: usize, offset: u16, data: &[u8], exits: &VcpuExits) {
        exits.pci_config_write.add(1);
        self.pay(self.with_slot(slot, |device| device.config_write(offset, data)), exits);
    }

    /// Performs a guest's write outside its RAM. Writes to unclaimed addresses are lost.
    pub fn write(&self, address: u64, data: &[u8], exits: &VcpuExits) {
        if let Some((slot, offset)) = config_address(address) {
            return self.config_write(slot, offset, data, exits);
        }
        exits.register_write.add(1);
        self.pay(self.any_slot(|device| device.memory_write(address, data)), exits);
    }

    /// Performs a guest's read of an I/O port. Unclaimed ports read as all ones.
    pub fn port_read(&self, port: u16, data: &mut [u8], exits: &VcpuExits) {
        data.fill(0xff);
        exits.port_io.add(1);
        self.pay(self.any_slot(|device| device.port_read(port, data)), exits);
    }

    /// Performs a guest's write to an I/O port. Writes to unclaimed ports are lost.
    pub fn port_write(&self, port: u16, data: &[u8], exits: &VcpuExits) {
        exits.port_io.add(1);
        self.pay(self.any_slot(|device| device.port_write(port, data)), exits);
    }

    /// Returns eight octets of guest RAM, for diagnostics; 0 outside it.
    pub(crate) fn read_ram(&self, address: u64) -> u64 {
        self.ram.bytes(address, 8).and_then(|bytes| bytes.read::<8>(0)).map_or(0, u64::from_le_bytes)
    }

    /// Returns the debt of the access, to be paid after the device is unlocked.
    fn with_slot(&self, slot: usize, act: impl FnOnce(&mut dyn BusDevice)) -> Option<Duration> {
        let pay = |device: &mut dyn BusDevice| {
            act(device);
            device.take_debt()
        };
        self.slots.get(slot)?.with(pay).flatten()
    }

    /// Rests to pay for the cost of an access to the host.
    fn pay(&self, debt: Option<Duration>, exits: &VcpuExits) {
        if let Some(debt) = debt {
            exits.paced.add(1);
            (self.pay_by_sleeping)(debt);
        }
    }

    fn any_slot(&self, mut act: impl FnMut(&mut dyn BusDevice) -> bool) -> Option<Duration> {
        let used = self.used.load(std::sync::atomic::Ordering::Acquire);
        let mut owed = |device: &mut dyn BusDevice| act(device).then(|| device.take_debt());
        self.slots[..used].iter().find_map(|slot| slot.with(&mut owed).flatten()).flatten()
    }
}

/// Returns slot and register of an address in the configuration window; function 0 only (the others read as
/// absent).
fn config_address(address: u64) -> Option<(usize, u16)> {
    let offset = address.checked_sub(map::ECAM).filter(|offset| *offset < map::ECAM_LEN)?;
    let function = offset >> 12 & 7;
    let slot = if function == 0 { (offset >> 15) as usize } else { SLOTS };
    Some((slot, (offset & 0xfff) as u16))
}

#[cfg(test)]
mod tests;
