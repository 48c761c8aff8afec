//! MP table, which describes CPUs, buses and interrupt routes (Intel MultiProcessor Specification 1.4,
//! chapter 4).
//!
//! ISA interrupt n is connected to input n of the I/O APIC; pin INTA of slot n of PCI bus 0 to the input that
//! [`pci_input`] returns, level-triggered. There are inputs for the slots of the first [`map::PINS`] NICs: others
//! interrupt by messages.

use bootinfo::map;

use super::{IOAPIC, ISA_INTERRUPTS, checksum};
use crate::attach::nic_slot;

/// Octets of the floating pointer, which precedes the table.
pub(super) const POINTER: usize = 16;
const HEADER: usize = 44;
const PCI_BUS: u8 = 0;
const ISA_BUS: u8 = 1;
/// Version of local APICs and I/O APIC.
const APIC_VERSION: u8 = 0x14;
/// Flags of a CPU: enabled, and bootstrap processor.
const USABLE: u8 = 1;
const BOOTS: u8 = 2;
/// Flags of an interrupt: as on its bus; level-triggered and active high, as KVM's I/O APIC expects its
/// inputs.
const AS_BUS: u16 = 0;
const LEVEL: u16 = 0b11 << 2 | 1;
/// Interrupt types.
const VECTORED: u8 = 0;
const NMI: u8 = 1;
const EXTERNAL: u8 = 3;
const ALL_LOCAL_APICS: u8 = 0xff;

/// Returns the I/O APIC input for pin INTA of the NIC in this slot.
pub(super) const fn pci_input(slot: usize) -> u8 {
    map::FIRST_PIN + (slot - nic_slot(0)) as u8
}

/// Returns pointer and table of a machine with this many CPUs, to be placed at `address`.
pub(super) fn table(address: u32, vcpus: u8) -> Vec<u8> {
    let (mut entries, mut count) = (Vec::new(), 0_u16);
    let mut add = |entry: &[u8]| {
        entries.extend_from_slice(entry);
        count += 1;
    };
    for cpu in 0..vcpus {
        let flags = USABLE | if cpu == 0 { BOOTS } else { 0 };
        let mut entry = [0; 20];
        entry[..4].copy_from_slice(&[0, cpu, APIC_VERSION, flags]);
        // Family 6, with FPU and APIC: software learns more by CPUID.
        entry[4..6].copy_from_slice(&[0x00, 0x06]);
        entry[8..10].copy_from_slice(&[0x01, 0x02]);
        add(&entry);
    }
    add(&[&[1, PCI_BUS][..], b"PCI   "].concat());
    add(&[&[1, ISA_BUS][..], b"ISA   "].concat());
    add(&[&[2, IOAPIC.0, APIC_VERSION, USABLE][..], &IOAPIC.1.to_le_bytes()].concat());
    for input in 0..ISA_INTERRUPTS {
        add(&interrupt(3, (VECTORED, AS_BUS), (ISA_BUS, input), (IOAPIC.0, input)));
    }
    for slot in (0..map::PINS).map(nic_slot) {
        add(&interrupt(3, (VECTORED, LEVEL), (PCI_BUS, (slot as u8) << 2), (IOAPIC.0, pci_input(slot))));
    }
    add(&interrupt(4, (EXTERNAL, AS_BUS), (ISA_BUS, 0), (ALL_LOCAL_APICS, 0)));
    add(&interrupt(4, (NMI, AS_BUS), (ISA_BUS, 0), (ALL_LOCAL_APICS, 1)));
    [pointer(address + POINTER as u32).to_vec(), header(count, &entries), entries].concat()
}

/// Returns an interrupt entry: source bus and line, and destination. Type 3: an I/O APIC, 4: local APICs.
fn interrupt(entry: u8, (kind, flags): (u8, u16), from: (u8, u8), to: (u8, u8)) -> [u8; 8] {
    let [low, high] = flags.to_le_bytes();
    [entry, kind, low, high, from.0, from.1, to.0, to.1]
}

fn pointer(table: u32) -> [u8; POINTER] {
    let mut pointer = [0; POINTER];
    pointer[..4].copy_from_slice(b"_MP_");
    pointer[4..8].copy_from_slice(&table.to_le_bytes());
    // Its length in units of 16 octets, version 1.4, and no default configuration.
    (pointer[8], pointer[9]) = (1, 4);
    pointer[10] = checksum(&pointer);
    pointer
}

fn header(count: u16, entries: &[u8]) -> Vec<u8> {
    let mut header = vec![0; HEADER];
    header[..4].copy_from_slice(b"PCMP");
    header[4..6].copy_from_slice(&((HEADER + entries.len()) as u16).to_le_bytes());
    header[6] = 4;
    header[8..16].copy_from_slice(b"RINGROAD");
    header[16..28].copy_from_slice(b"VM          ");
    header[34..36].copy_from_slice(&count.to_le_bytes());
    header[36..40].copy_from_slice(&(map::APIC as u32).to_le_bytes());
    header[7] = checksum(&[&header, entries].concat());
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(octets: &[u8]) -> u8 {
        octets.iter().fold(0, |sum, octet| sum.wrapping_add(*octet))
    }

    #[test]
    fn pointer_and_table_add_up_and_are_as_long_as_they_say() {
        let table = table(0xf_0000, 16);
        assert_eq!(&table[..8], [&b"_MP_"[..], &0xf_0010_u32.to_le_bytes()].concat());
        assert_eq!((sum(&table[..POINTER]), sum(&table[POINTER..])), (0, 0));
        let length = u16::from_le_bytes([table[POINTER + 4], table[POINTER + 5]]);
        assert_eq!(usize::from(length), table.len() - POINTER);
        let count = u16::from_le_bytes([table[POINTER + 34], table[POINTER + 35]]);
        assert_eq!(usize::from(count), 16 + 2 + 1 + 16 + map::PINS + 2);
    }

    #[test]
    fn the_pin_of_each_slot_has_an_input_of_its_own() {
        let table = table(0, 2);
        for slot in 1..=map::PINS as u8 {
            let entry = [3, 0, 0xd, 0, 0, slot << 2, 0x20, 15 + slot];
            assert_eq!(table.windows(8).filter(|window| *window == entry).count(), 1, "slot {slot}");
        }
    }

    #[test]
    fn one_cpu_boots() {
        let table = table(0, 3);
        let cpus: Vec<u8> = table[POINTER + HEADER..].chunks(20).take(3).map(|cpu| cpu[3]).collect();
        assert_eq!(cpus, [3, 1, 1]);
    }
}
