//! Devices on PCI bus 0, through the memory-mapped configuration space (ECAM). Each access exits the guest.

use bootinfo::map;

use crate::process;

/// ID of vendor-specific capabilities, which virtio uses for its register blocks.
pub(crate) const CAP_VENDOR: u8 = 0x09;
/// ID of the MSI-X capability.
pub(crate) const CAP_MSIX: u8 = 0x11;

const COMMAND: u64 = 0x04;
const BAR0: u64 = 0x10;
const CAP_POINTER: u64 = 0x34;
/// Memory decoding and bus mastering.
const COMMAND_ON: u16 = 1 << 1 | 1 << 2;
/// Disables interrupts by the pin (INTx).
const COMMAND_NO_PIN: u16 = 1 << 10;

/// Device registers, each of which must be read and written with one access of the right size.
#[derive(Clone, Copy)]
pub(crate) struct Registers(u64);

impl Registers {
    /// Creates the registers from this address on.
    pub(crate) fn at(address: u64) -> Self {
        Self(address)
    }

    /// Returns the address of a register.
    pub(crate) fn address(self, offset: u64) -> u64 {
        self.0 + offset
    }

    /// Reads the register at `offset`; `T` is an integer.
    pub(crate) fn read<T: Copy>(self, offset: u64) -> T {
        if process::is_running() {
            let value = process::read(self.0 + offset, size_of::<T>());
            // SAFETY: the first octets of an eight-octet integer are an integer of fewer, on a little-endian CPU.
            return unsafe { core::ptr::from_ref(&value).cast::<T>().read() };
        }
        // SAFETY: addresses in the configuration and BAR windows are mapped, and no memory is behind them.
        unsafe { ((self.0 + offset) as *const T).read_volatile() }
    }

    /// Writes the register at `offset`; `T` is an integer.
    pub(crate) fn write<T>(self, offset: u64, value: T) {
        if process::is_running() {
            let mut word = 0u64;
            // SAFETY: as in `read`: an integer of at most eight octets.
            unsafe { core::ptr::from_mut(&mut word).cast::<T>().write(value) };
            return process::write(self.0 + offset, word, size_of::<T>());
        }
        // SAFETY: as in `read`.
        unsafe { ((self.0 + offset) as *mut T).write_volatile(value) }
    }
}

/// Capability: its ID and its offset in configuration space.
#[derive(Clone, Copy)]
pub(crate) struct Capability {
    pub(crate) id: u8,
    pub(crate) at: u64,
    /// Fourth octet, behind ID, link and length: the type of a virtio capability.
    pub(crate) kind: u8,
}

/// One PCI function.
#[derive(Clone, Copy)]
pub(crate) struct Device {
    config: Registers,
}

impl Device {
    /// Returns the device in slot `slot`, if it has this vendor and device ID.
    pub(crate) fn find(slot: u32, vendor: u16, device: u16) -> Option<Self> {
        let config = Registers::at(map::ECAM + (u64::from(slot) << 15));
        let id: u32 = config.read(0);
        (id == u32::from(vendor) | u32::from(device) << 16).then_some(Self { config })
    }

    /// Returns its configuration space.
    pub(crate) fn config(self) -> Registers {
        self.config
    }

    /// Enables its BARs and bus mastering; it interrupts by messages (MSI-X).
    pub(crate) fn enable(self) {
        self.config.write(COMMAND, COMMAND_ON | COMMAND_NO_PIN);
    }

    /// Enables its BARs and bus mastering; it interrupts by its pin.
    pub(crate) fn enable_with_pin(self) {
        self.config.write(COMMAND, COMMAND_ON);
    }

    /// Returns the registers behind a memory BAR.
    pub(crate) fn bar(self, index: u8) -> Registers {
        let value: u32 = self.config.read(BAR0 + 4 * u64::from(index));
        Registers::at(u64::from(value & !0xf))
    }

    /// Iterates over its capabilities; an endless list is cut off.
    pub(crate) fn capabilities(self) -> impl Iterator<Item = Capability> {
        let mut next = self.config.read::<u8>(CAP_POINTER);
        (0..48).map_while(move |_| {
            let at = u64::from(next & !3);
            if at == 0 {
                return None;
            }
            let [id, link, _, kind] = self.config.read::<u32>(at).to_le_bytes();
            next = link;
            Some(Capability { id, at, kind })
        })
    }
}
