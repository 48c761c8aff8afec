//! Minimal ACPI tables (specification 6.5, chapter 5), enough for a guest to power itself off and to reset
//! itself.
//!
//! ```text
//! RSDP -> XSDT -> FADT -> FACS, DSDT (the only object in it: \_S5, "soft off")
//!              -> MADT (CPUs and I/O APIC)
//! ```
//!
//! They describe neither devices nor interrupt routes: those are in the MP table and on PCI itself;
//! `acpi=noirq` tells the kernel to use them.

use bootinfo::map;

use super::{ACPI_INTERRUPT, IOAPIC, checksum};

/// Ports of the power management registers: events (status, enable), then control.
pub(super) const EVENTS: u16 = 0x600;
/// Control register.
pub(super) const CONTROL: u16 = 0x604;
/// Reset register, at its traditional place on PCs.
pub(super) const RESET: u16 = 0xcf9;
/// Value that causes a reset when it is written there.
pub(super) const RESET_VALUE: u8 = 6;

/// Octets of the root pointer.
const RSDP: usize = 36;
const HEADER: usize = 36;
/// OEM identifier of pointer and tables.
const MAKER: &[u8; 6] = b"RNGRD ";
/// `Name (_S5_, Package (4) {0, 0, 0, 0})`: sleep type 0.
const SOFT_OFF: [u8; 12] = [0x08, b'_', b'S', b'5', b'_', 0x12, 0x06, 0x04, 0, 0, 0, 0];

/// Returns all tables for a machine with this many CPUs, to be placed at `address`, a multiple of 64.
pub(super) fn tables(address: u64, vcpus: u8) -> Vec<u8> {
    let mut octets = vec![0; 64];
    let mut place = |table: Vec<u8>| {
        let at = address + octets.len() as u64;
        octets.extend(table);
        octets.resize(octets.len().next_multiple_of(64), 0);
        at
    };
    let facs = place(facs());
    let dsdt = place(finished(b"DSDT", 2, &SOFT_OFF));
    let fadt = place(fadt(facs, dsdt));
    let madt = place(madt(vcpus));
    let xsdt = place(finished(b"XSDT", 1, &[fadt.to_le_bytes(), madt.to_le_bytes()].concat()));
    let pointer = rsdp(xsdt);
    octets[..RSDP].copy_from_slice(&pointer);
    octets
}

fn rsdp(xsdt: u64) -> [u8; RSDP] {
    let mut rsdp = [0; RSDP];
    rsdp[..8].copy_from_slice(b"RSD PTR ");
    rsdp[9..15].copy_from_slice(MAKER);
    rsdp[15] = 2;
    rsdp[20..24].copy_from_slice(&(RSDP as u32).to_le_bytes());
    rsdp[24..32].copy_from_slice(&xsdt.to_le_bytes());
    // This checksum covers the first 20 octets, the structure of version 1.
    rsdp[8] = checksum(&rsdp[..20]);
    rsdp[32] = checksum(&rsdp);
    rsdp
}

/// Returns a table with its header.
fn finished(signature: &[u8; 4], revision: u8, body: &[u8]) -> Vec<u8> {
    let length = (HEADER + body.len()) as u32;
    let mut table = [&signature[..], &length.to_le_bytes(), &[revision, 0], MAKER, b"RINGROAD"].concat();
    table.extend([&1_u32.to_le_bytes()[..], b"RING", &1_u32.to_le_bytes(), body].concat());
    table[9] = checksum(&table);
    table
}

/// The table that firmware and kernel would share during sleep.
fn facs() -> Vec<u8> {
    let mut facs = vec![0; 64];
    facs[..4].copy_from_slice(b"FACS");
    facs[4..8].copy_from_slice(&64_u32.to_le_bytes());
    facs[32] = 2;
    facs
}

/// Fixed hardware description (table 5.9): offsets are those of the specification, which include the header.
fn fadt(facs: u64, dsdt: u64) -> Vec<u8> {
    /// No C2, no C3.
    const NO_LATENCY: [u8; 2] = 0xffff_u16.to_le_bytes();
    /// ISA devices (the serial port), no keyboard controller, no VGA.
    const BOOT: u16 = 1 << 2 | 1;
    /// WBINVD works; C1 works; neither power nor sleep button; a reset register.
    const FLAGS: u32 = 1 << 0 | 1 << 2 | 1 << 4 | 1 << 5 | 1 << 10;
    let mut body = vec![0; 268 - HEADER];
    let mut put = |offset: usize, octets: &[u8]| {
        body[offset - HEADER..offset - HEADER + octets.len()].copy_from_slice(octets);
    };
    put(36, &(facs as u32).to_le_bytes());
    put(40, &(dsdt as u32).to_le_bytes());
    put(46, &u16::from(ACPI_INTERRUPT).to_le_bytes());
    put(56, &u32::from(EVENTS).to_le_bytes());
    put(64, &u32::from(CONTROL).to_le_bytes());
    put(88, &[4, 2]);
    put(96, &NO_LATENCY);
    put(98, &NO_LATENCY);
    put(108, &[0x32]);
    put(109, &BOOT.to_le_bytes());
    put(112, &FLAGS.to_le_bytes());
    put(116, &port(RESET, 8));
    put(128, &[RESET_VALUE]);
    put(140, &dsdt.to_le_bytes());
    put(148, &port(EVENTS, 32));
    put(172, &port(CONTROL, 16));
    finished(b"FACP", 5, &body)
}

/// Returns the generic address of a register at a port, with this many bits.
fn port(port: u16, bits: u8) -> [u8; 12] {
    let mut address = [1, bits, 0, bits / 16 + 1, 0, 0, 0, 0, 0, 0, 0, 0];
    address[4..6].copy_from_slice(&port.to_le_bytes());
    address
}

/// CPUs and I/O APIC.
fn madt(vcpus: u8) -> Vec<u8> {
    /// There are 8259s as well.
    const FLAGS: u32 = 1;
    let mut body = [(map::APIC as u32).to_le_bytes(), FLAGS.to_le_bytes()].concat();
    for cpu in 0..vcpus {
        body.extend([0, 8, cpu, cpu, 1, 0, 0, 0]);
    }
    body.extend([1, 12, IOAPIC.0, 0]);
    body.extend([IOAPIC.1.to_le_bytes(), [0; 4]].concat());
    finished(b"APIC", 4, &body)
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: u64 = 0xe_0000;

    fn double(octets: &[u8], at: usize) -> u64 {
        u64::from_le_bytes(octets[at..at + 8].try_into().expect("eight octets"))
    }

    /// Returns the table at an address, after checking its checksum.
    fn table(octets: &[u8], at: u64) -> &[u8] {
        let from = &octets[(at - AT) as usize..];
        let length = u32::from_le_bytes(from[4..8].try_into().expect("four octets")) as usize;
        let table = &from[..length];
        assert_eq!(checksum(table), 0, "{:?}", String::from_utf8_lossy(&table[..4]));
        table
    }

    #[test]
    fn every_table_is_found_and_adds_up() {
        let octets = tables(AT, 3);
        assert_eq!(&octets[..8], b"RSD PTR ");
        assert_eq!((checksum(&octets[..20]), checksum(&octets[..RSDP])), (0, 0));
        let xsdt = table(&octets, double(&octets, 24));
        assert_eq!((&xsdt[..4], xsdt.len()), (&b"XSDT"[..], HEADER + 16));
        let fadt = table(&octets, double(xsdt, HEADER));
        assert_eq!((&fadt[..4], fadt.len()), (&b"FACP"[..], 268));
        let dsdt = table(&octets, double(fadt, 140));
        assert_eq!((&dsdt[..4], &dsdt[HEADER..]), (&b"DSDT"[..], &SOFT_OFF[..]));
        let facs = u32::from_le_bytes(fadt[36..40].try_into().expect("four octets"));
        assert_eq!((facs % 64, &octets[(u64::from(facs) - AT) as usize..][..4]), (0, &b"FACS"[..]));
        let madt = table(&octets, double(xsdt, HEADER + 8));
        assert_eq!((&madt[..4], madt.len()), (&b"APIC"[..], HEADER + 8 + 3 * 8 + 12));
    }

    #[test]
    fn registers_are_ports_of_their_width() {
        assert_eq!(port(0xcf9, 8)[..6], [1, 8, 0, 1, 0xf9, 0x0c]);
        assert_eq!(port(0x604, 16)[..6], [1, 16, 0, 2, 0x04, 0x06]);
        assert_eq!(port(0x600, 32)[..6], [1, 32, 0, 3, 0x00, 0x06]);
    }
}
