//! Interrupt routes of a PC: lines 0 to 15 lead to both 8259s and to the I/O APIC, lines up to 23 to the I/O
//! APIC alone. A table handed to KVM replaces the whole previous one, so these routes are part of every
//! table.

use kvm_bindings::{
    KVM_IRQCHIP_IOAPIC, KVM_IRQCHIP_PIC_MASTER, KVM_IRQCHIP_PIC_SLAVE, kvm_irq_routing_entry,
};

use super::{FIRST_GSI, chip_entry};

/// Inputs of one 8259.
const INPUTS: u32 = 8;

/// Returns all of these routes.
pub(super) fn entries() -> Vec<kvm_irq_routing_entry> {
    let old = (0..2 * INPUTS).map(|line| {
        let chip = if line < INPUTS { KVM_IRQCHIP_PIC_MASTER } else { KVM_IRQCHIP_PIC_SLAVE };
        chip_entry(line, chip, line % INPUTS)
    });
    old.chain((0..FIRST_GSI).map(|line| chip_entry(line, KVM_IRQCHIP_IOAPIC, line))).collect()
}
