//! What a PCI function looks like from its bus.

pub mod config_space;
pub mod msix;

pub use config_space::{ConfigSpace, Identity};
pub use msix::{Message, Msix};

/// A base address register's window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarWindow {
    /// Which BAR, 0 to 5.
    pub index: u8,
    /// Guest-physical address it is placed at.
    pub address: u64,
    /// Octets, a power of two.
    pub len: u64,
}

/// A PCI function: configuration space and memory BARs. Accesses of odd sizes and offsets are answered as hardware
/// does (zeros or all ones, writes ignored), never refused.
pub trait PciFunction {
    /// Reads `data.len()` (1, 2, 4 or 8) octets of configuration space.
    fn config_read(&mut self, offset: u16, data: &mut [u8]);
    /// Writes configuration space.
    fn config_write(&mut self, offset: u16, data: &[u8]);
    /// Memory BARs that are enabled and placed now.
    fn bars(&self) -> Vec<BarWindow>;
    /// Reads device memory behind a BAR.
    fn bar_read(&mut self, bar: u8, offset: u64, data: &mut [u8]);
    /// Writes device memory behind a BAR.
    fn bar_write(&mut self, bar: u8, offset: u64, data: &[u8]);
}

/// Answers a read at `offset` from registers that start at 0: the octets that exist, zeros beyond them.
pub(crate) fn read_registers(registers: &[u8], offset: u64, data: &mut [u8]) {
    data.fill(0);
    let start = usize::try_from(offset).unwrap_or(usize::MAX);
    if let Some(present) = registers.get(start..) {
        let n = present.len().min(data.len());
        data[..n].copy_from_slice(&present[..n]);
    }
}
