//! Configuration space of a type 0 function (PCI Local Bus 3.0, chapter 6).
//!
//! Each octet has a mask of the bits that software may write. The masks implement everything else: read-only registers,
//! the sizing of a BAR by writing all ones, and accesses of any size and alignment.
//!
//! Memory BARs have 32 bits, so that every window lies below 4 GiB. Octets from 256 on (extended space, where a
//! function with a PCI Express capability would list more capabilities) read as zero.

use super::{BarWindow, read_registers};

/// Size of a conventional function's configuration space in octets.
pub const LEN: usize = 256;
/// Offset of the command register.
pub const COMMAND: u16 = 0x04;
/// Command bit: the function decodes its I/O BARs.
pub const COMMAND_IO: u16 = 1 << 0;
/// Command bit: the function decodes its memory BARs.
pub const COMMAND_MEMORY: u16 = 1 << 1;
/// Command bit: the function may access memory and send messages.
pub const COMMAND_BUS_MASTER: u16 = 1 << 2;
/// Command bit: the function must not use its interrupt pin. Software may set it even if there is no pin.
pub const COMMAND_INTERRUPT_DISABLE: u16 = 1 << 10;
/// Offset of BAR 0.
pub const BAR0: u16 = 0x10;
/// Offset of the pointer to the first capability.
pub const CAPABILITIES_POINTER: u16 = 0x34;

const STATUS: usize = 0x06;
const STATUS_CAPABILITIES: u8 = 1 << 4;
const CACHE_LINE_SIZE: usize = 0x0c;
const INTERRUPT_LINE: usize = 0x3c;
const INTERRUPT_PIN: usize = 0x3d;
const FIRST_CAPABILITY: usize = 0x40;
const BARS: usize = 6;
/// Lowest bit of a BAR: the BAR is for I/O ports.
const BAR_IO: u8 = 1;

/// Identification registers of a function.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// Vendor id.
    pub vendor: u16,
    /// Device id.
    pub device: u16,
    /// Revision id.
    pub revision: u8,
    /// Class, subclass and programming interface, 24 bits.
    pub class: u32,
    /// Subsystem vendor id.
    pub subsystem_vendor: u16,
    /// Subsystem id.
    pub subsystem: u16,
}

/// Configuration registers of one function.
#[derive(Clone, Debug)]
pub struct ConfigSpace {
    octets: [u8; LEN],
    writable: [u8; LEN],
    bar_len: [u32; BARS],
    /// True for each BAR that is for I/O ports.
    ports: [bool; BARS],
    /// Offset at which the pointer to the next capability will be stored.
    link: usize,
    /// Offset of the first octet that no capability uses.
    free: usize,
}

impl ConfigSpace {
    /// Creates a function without BARs and capabilities, with all decoding disabled.
    pub fn new(identity: &Identity) -> Self {
        let mut space = Self {
            octets: [0; LEN],
            writable: [0; LEN],
            bar_len: [0; BARS],
            ports: [false; BARS],
            link: usize::from(CAPABILITIES_POINTER),
            free: FIRST_CAPABILITY,
        };
        space.store(0x00, &identity.vendor.to_le_bytes());
        space.store(0x02, &identity.device.to_le_bytes());
        space.store(0x08, &[identity.revision]);
        space.store(0x09, &identity.class.to_le_bytes()[..3]);
        space.store(0x2c, &identity.subsystem_vendor.to_le_bytes());
        space.store(0x2e, &identity.subsystem.to_le_bytes());
        let command = COMMAND_MEMORY | COMMAND_BUS_MASTER | COMMAND_INTERRUPT_DISABLE;
        space.allow(usize::from(COMMAND), &command.to_le_bytes());
        space.allow(CACHE_LINE_SIZE, &[0xff]);
        space.allow(INTERRUPT_LINE, &[0xff]);
        space
    }

    /// Adds a 32-bit memory BAR of `len` octets, not prefetchable, without an address.
    ///
    /// # Panics
    /// If `len` is not a power of two of at least 16, or there is no BAR `index` (bugs of the device model).
    pub fn add_memory_bar(&mut self, index: u8, len: u32) {
        assert!(len.is_power_of_two() && len >= 16, "a BAR of {len} octets");
        let index = usize::from(index);
        self.bar_len[index] = len;
        self.allow(bar_register(index), &(!(len - 1)).to_le_bytes());
    }

    /// Adds an I/O BAR of `len` ports, without an address.
    ///
    /// # Panics
    /// If `len` is not a power of two from 4 to 256, or there is no BAR `index` (bugs of the device model).
    pub fn add_port_bar(&mut self, index: u8, len: u32) {
        assert!(len.is_power_of_two() && (4..=256).contains(&len), "a BAR of {len} ports");
        let index = usize::from(index);
        (self.bar_len[index], self.ports[index]) = (len, true);
        self.store(bar_register(index), &[BAR_IO]);
        self.allow(bar_register(index), &(!(len - 1)).to_le_bytes());
        self.writable[usize::from(COMMAND)] |= COMMAND_IO as u8;
    }

    /// Sets the interrupt pin, 1 (INTA) to 4 (INTD).
    pub fn set_interrupt_pin(&mut self, pin: u8) {
        self.store(INTERRUPT_PIN, &[pin]);
    }

    /// Appends a capability: its identifier, then `body` from its third octet on, of which software may write the bits
    /// set in `writable` (missing octets: none). Returns its offset. Capabilities start at multiples of 8, so that
    /// software can scan them with few 8-octet reads.
    ///
    /// # Panics
    /// If the capabilities do not fit into configuration space (a bug of the device model).
    pub fn add_capability(&mut self, id: u8, body: &[u8], writable: &[u8]) -> u16 {
        let offset = self.free;
        self.store(self.link, &[offset as u8]);
        self.store(offset, &[id, 0]);
        self.store(offset + 2, body);
        self.allow(offset + 2, writable);
        self.octets[STATUS] |= STATUS_CAPABILITIES;
        self.link = offset + 1;
        self.free = (offset + 2 + body.len()).next_multiple_of(8);
        offset as u16
    }

    /// Reads any number of octets; offsets beyond the registers read as zero.
    pub fn read(&self, offset: u16, data: &mut [u8]) {
        read_registers(&self.octets, u64::from(offset), data);
    }

    /// Writes the writable bits and leaves all others unchanged.
    pub fn write(&mut self, offset: u16, data: &[u8]) {
        let registers = self.octets.iter_mut().zip(&self.writable).skip(usize::from(offset));
        for ((octet, mask), new) in registers.zip(data) {
            *octet = (*octet & !mask) | (new & mask);
        }
    }

    /// Changes octets on behalf of the device model, including read-only ones; they must be inside configuration space.
    pub fn store(&mut self, offset: usize, octets: &[u8]) {
        self.octets[offset..offset + octets.len()].copy_from_slice(octets);
    }

    /// Reads a 16-bit register; zero beyond configuration space.
    pub fn word(&self, offset: u16) -> u16 {
        let mut octets = [0; 2];
        self.read(offset, &mut octets);
        u16::from_le_bytes(octets)
    }

    /// Reads a 32-bit register; zero beyond configuration space.
    pub fn double_word(&self, offset: u16) -> u32 {
        let mut octets = [0; 4];
        self.read(offset, &mut octets);
        u32::from_le_bytes(octets)
    }

    /// Returns true if the function may access memory and send messages.
    pub fn bus_master(&self) -> bool {
        self.word(COMMAND) & COMMAND_BUS_MASTER != 0
    }

    /// Returns the window of memory BAR `index`, if the BAR exists, has an address (not 0) and memory decoding is
    /// enabled.
    pub fn bar(&self, index: u8) -> Option<BarWindow> {
        self.window(index, false)
    }

    /// Returns the window of I/O BAR `index`, if the BAR exists, has an address (not 0) and I/O decoding is enabled;
    /// its address is that of the first port.
    pub fn port_bar(&self, index: u8) -> Option<BarWindow> {
        self.window(index, true)
    }

    fn window(&self, index: u8, ports: bool) -> Option<BarWindow> {
        let place = usize::from(index);
        let len = *self.bar_len.get(place)?;
        let (bit, low) = if ports { (COMMAND_IO, 0x3) } else { (COMMAND_MEMORY, 0xf) };
        let address = self.double_word(bar_register(place) as u16) & !low;
        let here = len != 0 && self.ports[place] == ports && address != 0;
        (here && self.word(COMMAND) & bit != 0).then_some(BarWindow {
            index,
            address: u64::from(address),
            len: u64::from(len),
        })
    }

    /// Returns all memory windows that are decoded now.
    pub fn bars(&self) -> Vec<BarWindow> {
        (0..BARS as u8).filter_map(|index| self.bar(index)).collect()
    }

    fn allow(&mut self, offset: usize, mask: &[u8]) {
        self.writable[offset..offset + mask.len()].copy_from_slice(mask);
    }
}

/// Returns the offset of the BAR with this number.
const fn bar_register(index: usize) -> usize {
    BAR0 as usize + 4 * index
}

#[cfg(test)]
mod tests;
