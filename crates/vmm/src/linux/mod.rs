//! An unmodified Linux on our devices: kernel and initramfs are put into memory as a boot loader would (`load`), beside
//! the tables that a PC's firmware leaves (`mp_table`, `acpi`), and CPU 0 starts in 64-bit mode (`cpu`).
//!
//! ```text
//! 0x0000_1000  page tables, zero page, GDT          0xe000_0000  PCI (as `bootinfo::map` has it)
//! 0x0002_0000  command line                         0xfec0_0000  I/O APIC, local APICs: KVM's
//! 0x000a_0000  nothing; 0xe0000 tables, reserved    ports: `ports`, serial console: `serial`, clock: `cmos`
//! 0x0010_0000  kernel; initramfs at the top of RAM
//! ```
//!
//! The devices are those of a firmware's machine. What the firmware shares with the host lies outside of this guest's
//! memory, where only the host writes.

mod acpi;
mod cmos;
mod console;
mod cpu;
mod cpuid;
mod host_bridge;
mod load;
mod mp_table;
mod ports;
mod serial;
mod vm;

pub use console::ConsoleCounters;
pub use cpu::Cpu;
pub use vm::{Config, Vm};

/// Most octets of RAM: what follows belongs to devices.
pub const MAX_RAM: u64 = 3 << 30;
/// Least octets of RAM: less holds no kernel of these days.
pub const MIN_RAM: u64 = 64 << 20;

/// Octets that a file holds to which a console is written: what a kernel says in weeks, and little for a disk.
pub const CONSOLE_ROOM: u64 = 16 << 20;

/// How a guest ends by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It turned itself off.
    Off,
    /// It reset itself.
    Reset,
    /// Its kernel panicked, for this reason.
    Panic(String),
}

/// I/O APIC: its identifier, which must differ from all CPUs', and its address.
const IOAPIC: (u8, u32) = (0x20, 0xfec0_0000);
/// Inputs of the I/O APIC that stand for the interrupts of the ISA bus.
const ISA_INTERRUPTS: u8 = 16;
/// Interrupt of the serial port.
const SERIAL_INTERRUPT: u8 = 4;
/// Interrupt of ACPI's events, of which there are none.
const ACPI_INTERRUPT: u8 = 9;

/// The fuzz target `linux_load`.
#[cfg(feature = "fuzz")]
pub fn fuzz_load(input: &[u8]) {
    load::fuzzed::run(input);
}

/// The fuzz target `linux_ports`.
#[cfg(feature = "fuzz")]
pub fn fuzz_ports(input: &[u8]) {
    ports::fuzzed::run(input);
}

/// An octet that makes all of `octets` add up to zero.
fn checksum(octets: &[u8]) -> u8 {
    octets.iter().fold(0_u8, |sum, octet| sum.wrapping_sub(*octet))
}
