//! Unmodified Linux guests on our devices: kernel and initramfs are loaded as by a boot loader (`load`),
//! together with the tables that a PC's firmware provides (`mp_table`, `acpi`), and CPU 0 starts in 64-bit
//! mode (`cpu`).
//!
//! ```text
//! 0x0000_1000  page tables, zero page, GDT          0xe000_0000  PCI (as `bootinfo::map` has it)
//! 0x0002_0000  command line                         0xfec0_0000  I/O APIC, local APICs: KVM's
//! 0x000a_0000  nothing; 0xe0000 tables, reserved    ports: `ports`, serial console: `serial`, clock: `cmos`
//! 0x0010_0000  kernel; initramfs at the top of RAM
//! ```
//!
//! The devices are those of a firmware's machine. The words that a firmware would share with the host lie
//! outside this guest's memory, where only the host writes them.

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

/// Maximum octets of RAM: addresses above belong to devices.
pub const MAX_RAM: u64 = 3 << 30;
/// Minimum octets of RAM: a current kernel does not fit into less.
pub const MIN_RAM: u64 = 64 << 20;

/// Maximum octets of a console file: the output of a kernel in weeks, and little for a disk.
pub const CONSOLE_ROOM: u64 = 16 << 20;

/// Way in which a guest ended by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It powered itself off.
    Off,
    /// It reset itself.
    Reset,
    /// Its kernel panicked, with this reason.
    Panic(String),
}

/// I/O APIC: its identifier, which must differ from those of all CPUs, and its address.
const IOAPIC: (u8, u32) = (0x20, 0xfec0_0000);
/// Number of I/O APIC inputs for the interrupts of the ISA bus.
const ISA_INTERRUPTS: u8 = 16;
/// Interrupt of the serial port.
const SERIAL_INTERRUPT: u8 = 4;
/// Interrupt of ACPI events, which never occur.
const ACPI_INTERRUPT: u8 = 9;

/// Entry point of the fuzz target `linux_load`.
#[cfg(feature = "fuzz")]
pub fn fuzz_load(input: &[u8]) {
    load::fuzzed::run(input);
}

/// Entry point of the fuzz target `linux_ports`.
#[cfg(feature = "fuzz")]
pub fn fuzz_ports(input: &[u8]) {
    ports::fuzzed::run(input);
}

/// Returns the octet that makes the sum of all `octets` zero.
fn checksum(octets: &[u8]) -> u8 {
    octets.iter().fold(0_u8, |sum, octet| sum.wrapping_sub(*octet))
}
