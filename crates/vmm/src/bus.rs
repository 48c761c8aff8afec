//! Where a guest's memory accesses outside its RAM arrive: PCI configuration space and BARs.

use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use bootinfo::map;
use ledger::VcpuExits;
use nic_port::Kicks;
use ring::Region;
use ring::hand_over::HandOver;

/// PCI slots of bus 0.
pub const SLOTS: usize = 32;

/// A device on the bus: an access has effects beyond the model (queues start, interrupts are routed), so what sits
/// here is the model together with the code that carries the effects out.
pub trait BusDevice: Send {
    /// Reads configuration space.
    fn config_read(&mut self, offset: u16, data: &mut [u8]);
    /// Writes configuration space.
    fn config_write(&mut self, offset: u16, data: &[u8]);
    /// Reads the BAR at a guest-physical address; false if no BAR of the device is there.
    fn memory_read(&mut self, address: u64, data: &mut [u8]) -> bool;
    /// Writes the BAR at a guest-physical address; false if no BAR of the device is there.
    fn memory_write(&mut self, address: u64, data: &[u8]) -> bool;
    /// Reads an I/O port; false if no BAR of the device is there.
    fn port_read(&mut self, _port: u16, _data: &mut [u8]) -> bool {
        false
    }
    /// Writes an I/O port; false if no BAR of the device is there.
    fn port_write(&mut self, _port: u16, _data: &[u8]) -> bool {
        false
    }
    /// The cable of the device is plugged in or pulled out. It waits for nobody; one that would have to leaves all as it is.
    fn set_link(&mut self, _up: bool) {}
    /// It is about to be dropped, and others with it: asks back what it has handed on, and waits for nobody.
    fn recall(&mut self) {}
    /// Whether the last access has begun what is to be gone on with.
    fn has_more(&self) -> bool {
        false
    }
    /// Goes on with it, for no longer than an access may have the device.
    fn go_on(&mut self) {}
    /// What is to be rung for the last access when nobody waits for the device any more, because ringing it may take its time.
    fn take_kicks(&mut self) -> Option<Kicks> {
        None
    }
    /// How long the thread that made the last accesses must sleep for what they cost the host.
    fn take_debt(&mut self) -> Option<Duration> {
        None
    }
}

/// A place on the bus.
struct Slot {
    device: Mutex<Option<Box<dyn BusDevice>>>,
    /// Whether its cable is to be plugged in ([`PLUGGED`]) or out ([`PULLED`]).
    cable: HandOver<AtomicU32>,
}

/// Orders for a device's cable.
const PLUGGED: u32 = 1;
const PULLED: u32 = 2;

impl Slot {
    fn empty() -> Self {
        Self { device: Mutex::default(), cable: HandOver::default() }
    }

    /// For an access of the guest's, which may wait for another one. What it has begun is done in turns, between which others may
    /// have the device.
    fn with<R>(&self, act: impl FnOnce(&mut dyn BusDevice) -> R) -> Option<R> {
        let (done, mut has_more) = self.turn(act)?;
        while has_more {
            has_more = self.turn(|device| device.go_on()).is_some_and(|((), has_more)| has_more);
        }
        Some(done)
    }

    /// Has the device once; what came of it, and whether there is more to do.
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
    /// How long an access that costs the host something is paid for.
    rest: Box<dyn Fn(Duration) + Send + Sync>,
}

impl Bus {
    /// An empty bus in front of this RAM.
    pub fn new(ram: Region) -> Arc<Self> {
        Self::resting(ram, Box::new(std::thread::sleep))
    }

    /// An empty bus whose guests rest otherwise than by sleeping.
    fn resting(ram: Region, rest: Box<dyn Fn(Duration) + Send + Sync>) -> Arc<Self> {
        Arc::new(Self { slots: std::array::from_fn(|_| Slot::empty()), used: Default::default(), ram, rest })
    }

    /// Puts a device into a slot.
    pub fn insert(&self, slot: usize, device: Box<dyn BusDevice>) {
        if let Some(place) = self.slots.get(slot) {
            *place.device.lock().unwrap_or_else(PoisonError::into_inner) = Some(device);
            self.used.fetch_max(slot + 1, std::sync::atomic::Ordering::AcqRel);
        }
    }

    /// Empties all slots: the devices let go of what they hold. Each may wait for what it has handed on; all have asked for it before.
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

    /// Plugs the cable of the device in a slot in, or pulls it out; while the guest accesses the device, when it has done so.
    /// Waits for nobody. A device may be unable to take that at the moment: it is to be said again about ten times a second.
    pub fn set_link(&self, slot: usize, up: bool) {
        if let Some(slot) = self.slots.get(slot) {
            slot.cable.post(if up { PLUGGED } else { PULLED }, || slot.try_lock(), set_link);
        }
    }

    /// A guest's read outside its RAM. What nobody answers reads as all ones, as on a PCI bus.
    pub fn read(&self, address: u64, data: &mut [u8], exits: &VcpuExits) {
        data.fill(0xff);
        if let Some((slot, offset)) = config_address(address) {
            return self.config_read(slot, offset, data, exits);
        }
        exits.register_read.add(1);
        self.pay(self.any_slot(|device| device.memory_read(address, data)), exits);
    }

    /// A guest's read of a slot's configuration space, however it asks for it.
    pub(crate) fn config_read(&self, slot: usize, offset: u16, data: &mut [u8], exits: &VcpuExits) {
        exits.pci_config_read.add(1);
        self.pay(self.with_slot(slot, |device| device.config_read(offset, data)), exits);
    }

    /// A guest's write to a slot's configuration space, however it asks for it.
    pub(crate) fn config_write(&self, slot: usize, offset: u16, data: &[u8], exits: &VcpuExits) {
        exits.pci_config_write.add(1);
        self.pay(self.with_slot(slot, |device| device.config_write(offset, data)), exits);
    }

    /// A guest's write outside its RAM. What nobody answers is lost.
    pub fn write(&self, address: u64, data: &[u8], exits: &VcpuExits) {
        if let Some((slot, offset)) = config_address(address) {
            return self.config_write(slot, offset, data, exits);
        }
        exits.register_write.add(1);
        self.pay(self.any_slot(|device| device.memory_write(address, data)), exits);
    }

    /// A guest's read of an I/O port. What nobody answers reads as all ones.
    pub fn port_read(&self, port: u16, data: &mut [u8], exits: &VcpuExits) {
        data.fill(0xff);
        exits.port_io.add(1);
        self.pay(self.any_slot(|device| device.port_read(port, data)), exits);
    }

    /// A guest's write to an I/O port. What nobody answers is lost.
    pub fn port_write(&self, port: u16, data: &[u8], exits: &VcpuExits) {
        exits.port_io.add(1);
        self.pay(self.any_slot(|device| device.port_write(port, data)), exits);
    }

    /// Eight octets of guest RAM, for diagnostics; 0 outside it.
    pub(crate) fn read_ram(&self, address: u64) -> u64 {
        self.ram.bytes(address, 8).and_then(|bytes| bytes.read::<8>(0)).map_or(0, u64::from_le_bytes)
    }

    /// What is owed for the access is returned: it is paid when nobody waits for the device.
    fn with_slot(&self, slot: usize, act: impl FnOnce(&mut dyn BusDevice)) -> Option<Duration> {
        let pay = |device: &mut dyn BusDevice| {
            act(device);
            device.take_debt()
        };
        self.slots.get(slot)?.with(pay).flatten()
    }

    /// Rests for what an access cost the host.
    fn pay(&self, debt: Option<Duration>, exits: &VcpuExits) {
        if let Some(debt) = debt {
            exits.paced.add(1);
            (self.rest)(debt);
        }
    }

    fn any_slot(&self, mut act: impl FnMut(&mut dyn BusDevice) -> bool) -> Option<Duration> {
        let used = self.used.load(std::sync::atomic::Ordering::Acquire);
        let mut owed = |device: &mut dyn BusDevice| act(device).then(|| device.take_debt());
        self.slots[..used].iter().find_map(|slot| slot.with(&mut owed).flatten()).flatten()
    }
}

/// Slot and register of an address in the configuration window; function 0 only (the others read as absent).
fn config_address(address: u64) -> Option<(usize, u16)> {
    let offset = address.checked_sub(map::ECAM).filter(|offset| *offset < map::ECAM_LEN)?;
    let function = offset >> 12 & 7;
    let slot = if function == 0 { (offset >> 15) as usize } else { SLOTS };
    Some((slot, (offset & 0xfff) as u16))
}

#[cfg(test)]
mod tests;
