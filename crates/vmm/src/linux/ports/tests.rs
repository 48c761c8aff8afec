use super::*;
use crate::linux::host_bridge::HostBridge;
use crate::memory::GuestRam;

/// Ports of a machine with only a host bridge.
fn ports() -> Ports {
    let ram = GuestRam::with_words_outside("ports", 2 << 20).expect("memory");
    let bus = Bus::new(ram.region());
    bus.insert(0, Box::new(HostBridge::new()));
    Ports::new(None, bus, None)
}

fn read(ports: &Ports, port: u16, octets: usize) -> u32 {
    let mut data = vec![0; octets];
    ports.read(port, &mut data, &VcpuExits::default());
    data.resize(4, 0);
    u32::from_le_bytes([data[0], data[1], data[2], data[3]])
}

fn write(ports: &Ports, port: u16, data: &[u8]) -> Option<End> {
    ports.write(port, data, &VcpuExits::default())
}

/// Reads a function's register, by address and data port.
fn config(ports: &Ports, address: u32, octets: usize) -> u32 {
    write(ports, PCI_ADDRESS, &address.to_le_bytes());
    read(ports, PCI_DATA + (address & 3) as u16, octets)
}

#[test]
fn configuration_space_is_found_as_a_kernel_looks_for_it() {
    let ports = ports();
    assert_eq!(write(&ports, 0xcfb, &[1]), None);
    write(&ports, PCI_ADDRESS, &PCI_ENABLE.to_le_bytes());
    assert_eq!(read(&ports, PCI_ADDRESS, 4), PCI_ENABLE);
    assert_eq!(config(&ports, PCI_ENABLE, 4), 0x1237_8086);
    assert_eq!(config(&ports, PCI_ENABLE | 0x0a, 2), 0x0600);
}

#[test]
fn what_is_not_there_reads_as_ones() {
    let ports = ports();
    // Another slot, function 1, bus 1, and the mechanism disabled.
    for address in [PCI_ENABLE | 1 << 11, PCI_ENABLE | 1 << 8, PCI_ENABLE | 1 << 16, 0] {
        assert_eq!(config(&ports, address, 4), u32::MAX, "{address:#x}");
    }
    assert_eq!(read(&ports, 0x80, 1), 0xff);
    assert_eq!(write(&ports, 0x80, &[0]), None);
}

#[test]
fn each_way_to_reset_is_one() {
    for (port, value) in [(0x64, 0xfe), (0xcf9, 6)] {
        assert_eq!(write(&ports(), port, &[value]), Some(End::Reset), "{port:#x}");
        assert_eq!(write(&ports(), port, &[0]), None, "{port:#x}");
    }
    assert_eq!(ports().reset(), End::Reset);
}

#[test]
fn sleep_is_soft_off() {
    let ports = ports();
    assert_eq!(read(&ports, CONTROL, 2), 1, "ACPI is in charge");
    assert_eq!(write(&ports, CONTROL, &[1, 0]), None);
    assert_eq!(write(&ports, CONTROL, &0x2001_u16.to_le_bytes()), Some(End::Off));
}

#[test]
fn events_can_be_wanted_and_never_happen() {
    let ports = ports();
    assert_eq!(write(&ports, EVENTS + 2, &0x0120_u16.to_le_bytes()), None);
    assert_eq!((read(&ports, EVENTS, 2), read(&ports, EVENTS + 2, 2)), (0, 0x0120));
}

#[test]
fn a_reset_after_a_panic_is_told_as_a_panic() {
    let ports = ports();
    let say = |text: &str| text.bytes().filter_map(|octet| write(&ports, SERIAL, &[octet])).last();
    assert_eq!(say("[ 1.0] Kernel panic - not syncing: no init found\r\n"), None);
    let panic = End::Panic("no init found".to_owned());
    assert_eq!(write(&ports, 0xcf9, &[6]), Some(panic.clone()));
    assert_eq!(say("[ 1.1] ---[ end Kernel panic - not syncing: no init found ]---\r\n"), Some(panic));
}

#[test]
fn the_clock_is_behind_its_index() {
    let ports = ports();
    write(&ports, CLOCK, &[0xd]);
    assert_eq!(read(&ports, CLOCK_DATA, 1), 0x80);
}

#[test]
fn an_access_of_any_size_at_any_port_has_an_answer() {
    let ports = ports();
    for port in 0..=u16::MAX {
        for octets in [1, 2, 4] {
            read(&ports, port, octets);
            write(&ports, port, &[0, 0, 0, 0][..octets]);
        }
    }
}

#[test]
fn whatever_a_guest_does_at_ports_has_an_answer() {
    crate::corpus::replay("linux_ports", fuzzed::run);
}
