//! Memory map of a firmware guest, which is mapped one to one with 2 MiB pages.
//!
//! ```text
//! 0x0000_0000  ring 0's own 2 MiB page: page tables, GDT, IDT, TSS, stubs; not accessible from ring 3
//! 0x0020_0000  the firmware image, its data and (from the top down) one stack a vCPU
//! 0x0060_0000  BootInfo
//! 0x0062_0000  Shared
//! 0x0080_0000  virtqueues and frame buffers, to the end of RAM
//! 0xc000_0000  the neighbour table of a group, read-only, for its members
//! 0xd000_0000  a member's desk (`Desk`)
//! 0xe000_0000  PCI configuration space (ECAM, bus 0), then BARs: every access leaves the guest
//! 0xfee0_0000  local APIC, ring 0 only
//! 0x1_0000_0000 the route table, read-only
//! ```

/// Size of a page of the guest's page tables, in octets.
pub const PAGE: u64 = 2 << 20;
/// First address of the firmware image (the linker's image base).
pub const IMAGE: u64 = 0x0020_0000;
/// Top of the stack of vCPU 0; vCPU `n` starts `n * STACK` octets below.
pub const STACK_TOP: u64 = 0x0060_0000;
/// Octets of stack for each vCPU: 16 stacks take the upper half of the image's 4 MiB.
pub const STACK: u64 = 0x0002_0000;
/// End of the lowest stack: the image and its data are below.
pub const STACKS: u64 = STACK_TOP - STACK * crate::MAX_VCPUS as u64;
/// Address of the boot information.
pub const BOOT_INFO: u64 = 0x0060_0000;
/// Address of the shared words.
pub const SHARED: u64 = 0x0062_0000;
/// First address of virtqueues and frame buffers.
pub const POOL: u64 = 0x0080_0000;
/// Maximum octets of RAM: addresses above belong to devices and to ring 0.
pub const MAX_RAM: u64 = 0x7fe0_0000;
/// Address of the neighbour table of a group.
pub const NEIGHBOURS: u64 = 0xc000_0000;
/// Most octets of it.
pub const NEIGHBOURS_LEN: u64 = 64 << 20;
/// Address of the words that a member of a group shares with the host beside those of its RAM.
pub const DESK: u64 = 0xd000_0000;
/// PCI configuration space: 4 KiB for each of 32 slots of bus 0, eight functions each.
pub const ECAM: u64 = 0xe000_0000;
/// Octets of PCI configuration space.
pub const ECAM_LEN: u64 = 1 << 20;
/// Initial address of the BARs, assigned by the VMM; a guest may move them inside the window.
pub const BARS: u64 = 0xe010_0000;
/// Octets of the BAR window.
pub const BARS_LEN: u64 = 0x0ff0_0000;
/// Distance between the first BARs of successive slots: the size of the largest BAR.
pub const BAR_SPACING: u64 = 1 << 17;
/// Interrupt vector of all messages (MSI).
pub const MESSAGE_VECTOR: u8 = 0x40;
/// Interrupt vector of messages from vhost-user peers, which do not increment the mailbox: the handler does.
pub const PEER_VECTOR: u8 = 0x41;
/// Interrupt vector of the pin (INTA) of NIC 0; NIC `n` has the n-th vector after it.
pub const FIRST_PIN_VECTOR: u8 = 0x50;
/// I/O APIC input of the pin of NIC 0; NIC `n` has the n-th input after it. A PC's firmware uses these for
/// the interrupts of its PCI bus.
pub const FIRST_PIN: u8 = 16;
/// Number of NICs whose pins have such an input, which are all that an I/O APIC has. The pins of further NICs of a
/// firmware send messages.
pub const PINS: usize = 8;
/// Number of PCI slots of bus 0.
pub const SLOTS: usize = 32;
/// Address of the local APIC.
pub const APIC: u64 = 0xfee0_0000;
/// Address of the route table.
pub const FIB: u64 = 0x1_0000_0000;

/// Returns the octets of RAM at the beginning of the pool that the firmware keeps for starting this many NICs: their control queues.
pub const fn start_up(nics: u64) -> u64 {
    const LEAST: u64 = 64 << 10;
    let wanted = nics * (8 << 10);
    if wanted > LEAST { wanted } else { LEAST }
}

/// Returns the PCI slot of NIC `n`: slot 1 for NIC 0, and so on. The last of 32 NICs is in slot 0, in which a Linux
/// guest has its host bridge.
pub const fn nic_slot(n: usize) -> usize {
    (n + 1) % SLOTS
}

/// Returns the number of the NIC in a slot.
pub const fn nic_in_slot(slot: usize) -> usize {
    (slot + SLOTS - 1) % SLOTS
}

/// Returns the address that the VMM assigns to the first BAR of a slot's device: those of successive NICs follow each
/// other.
pub const fn bar_of(slot: usize) -> u64 {
    BARS + (nic_in_slot(slot) as u64 + 1) * BAR_SPACING
}
