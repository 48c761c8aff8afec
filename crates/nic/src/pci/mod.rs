//! Interface of a PCI function to its bus.

pub mod config_space;
pub mod msix;

pub use config_space::{ConfigSpace, Identity};
pub use msix::{Message, Msix};

/// Address window of a base address register (BAR).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarWindow {
    /// Number of the BAR, 0 to 5.
    pub index: u8,
    /// Guest-physical address of the window.
    pub address: u64,
    /// Length in octets, a power of two.
    pub len: u64,
}

/// A PCI function: configuration space and memory BARs. Accesses of odd sizes and offsets are handled as hardware does
/// (they read zeros or all ones, writes are ignored), never refused.
pub trait PciFunction {
    /// Reads `data.len()` (1, 2, 4 or 8) octets of configuration space.
    fn config_read(&mut self, offset: u16, data: &mut [u8]);
    /// Writes configuration space.
    fn config_write(&mut self, offset: u16, data: &[u8]);
    /// Returns the memory BARs that are enabled and have an address now.
    fn bars(&self) -> Vec<BarWindow>;
    /// Reads device memory behind a BAR.
    fn bar_read(&mut self, bar: u8, offset: u64, data: &mut [u8]);
    /// Writes device memory behind a BAR.
    fn bar_write(&mut self, bar: u8, offset: u64, data: &[u8]);
}

/// Handles a read at `offset` of registers that start at 0: returns the octets that exist, zeros beyond them.
pub(crate) fn read_registers(registers: &[u8], offset: u64, data: &mut [u8]) {
    data.fill(0);
    let start = usize::try_from(offset).unwrap_or(usize::MAX);
    if let Some(present) = registers.get(start..) {
        let n = present.len().min(data.len());
        data[..n].copy_from_slice(&present[..n]);
    }
}
