//! "PCI Configuration": identity, BARs, pin, capabilities.

use super::*;
use crate::e1000::{ConfigError, MAX_MTU, SUBSYSTEM, SUBSYSTEM_BLOCK};
use crate::pci::BarWindow;

#[test]
fn identity_is_the_82540em_s() {
    let mut slot = Slot::empty(&Config::new(MAC));
    let registers: [(&str, u16, u32); 6] = [
        ("device, vendor", 0x00, 0x100e_8086),
        ("status: capabilities; command: nothing enabled", 0x04, 0x0010_0000),
        ("Ethernet controller, revision 2", 0x08, 0x0200_0002),
        ("BAR 0: 32-bit memory", 0x10, 0),
        ("BAR 1: I/O", 0x14, 1),
        ("INTA", 0x3c, 0x0100),
    ];
    for (name, offset, expected) in registers {
        assert_eq!(u32::from_le_bytes(slot.config(offset)), expected, "{name}");
    }
}

#[test]
fn the_subsystem_tells_of_the_status_block() {
    for (block, subsystem) in [(false, SUBSYSTEM), (true, SUBSYSTEM_BLOCK)] {
        let mut slot = Slot::empty(&Config { block, ..Config::new(MAC) });
        assert_eq!((slot.config_word(0x2c), slot.config_word(0x2e)), (0x8086, subsystem));
    }
}

#[test]
fn bars_have_128_kib_of_memory_and_64_ports() {
    let mut slot = Slot::empty(&Config::new(MAC));
    slot.write_config(0x10, &[0xff; 24]);
    assert_eq!(u32::from_le_bytes(slot.config(0x10)), 0xfffe_0000);
    assert_eq!(u32::from_le_bytes(slot.config(0x14)), 0xffff_ffc1);
    assert_eq!(slot.config(0x18), [0; 16], "no other BAR");
}

#[test]
fn bars_appear_and_vanish_with_the_bits_of_the_command_register() {
    let mut slot = Slot::empty(&Config::new(MAC));
    slot.write_config(0x10, &MEMORY.to_le_bytes());
    slot.write_config(0x14, &(PORTS | 3).to_le_bytes());
    assert_eq!((slot.nic.bars(), slot.nic.ports(), slot.orders()), (vec![], None, vec![]));
    let memory = BarWindow { index: 0, address: u64::from(MEMORY), len: 0x2_0000 };
    let ports = BarWindow { index: 1, address: u64::from(PORTS), len: 64 };
    slot.write_config(COMMAND, &[2, 0]);
    assert_eq!((slot.nic.bars(), slot.nic.ports(), slot.orders()), (vec![memory], None, vec!["bars moved"]));
    slot.write_config(COMMAND, &[3, 0]);
    assert_eq!((slot.nic.ports(), slot.orders()), (Some(ports), vec!["bars moved"]));
    slot.write_config(COMMAND, &[3, 0]);
    assert_eq!(slot.orders(), Vec::<&str>::new(), "nothing has changed");
    slot.write_config(COMMAND, &[0, 0]);
    assert_eq!((slot.nic.bars(), slot.nic.ports(), slot.orders()), (vec![], None, vec!["bars moved"]));
}

#[test]
fn tails_move_with_the_bar() {
    let mut slot = Slot::new();
    let at = u64::from(MEMORY);
    assert_eq!(slot.nic.tails(), Some((at + 0x3818, at + 0x2818)));
    slot.write_config(COMMAND, &[0, 0]);
    assert_eq!(slot.nic.tails(), None);
}

#[test]
fn rings_need_bus_mastering() {
    let mut slot = Slot::running();
    slot.write_config(COMMAND, &[3, 0]);
    assert_eq!(slot.orders(), ["transmit stopped", "receive stopped"]);
    slot.write_config(COMMAND, &[7, 0]);
    assert_eq!(slot.orders(), ["transmit started", "receive started"]);
}

#[test]
fn interrupt_disable_keeps_the_pin_down() {
    let mut slot = Slot::new();
    slot.write(r::IMS, u32::MAX);
    slot.write(r::ICS, 1);
    assert!(slot.asserted());
    slot.write_config(COMMAND, &0x0407_u16.to_le_bytes());
    assert_eq!(slot.line(), Line { asserted: false, next: None });
    slot.write_config(COMMAND, &ALL_ENABLED.to_le_bytes());
    assert!(slot.asserted(), "the cause is still there");
}

#[test]
fn the_only_capability_is_power_management() {
    let mut slot = Slot::new();
    let [at] = slot.config::<1>(0x34);
    assert_eq!(slot.config(u16::from(at)), [0x01, 0x00, 0x22, 0x00, 0, 0, 0, 0]);
}

#[test]
fn configurations_that_no_82540em_has_are_refused() {
    let refused = |config: Config| E1000::new(&config).expect_err("a bad configuration").to_string();
    let good = Config::new(MAC);
    assert_eq!(
        refused(Config::new([1, 0, 0, 0, 0, 1])),
        "Ethernet address [01, 00, 00, 00, 00, 01] is zero or a group address: a NIC needs one of its own"
    );
    assert_eq!(E1000::new(&Config::new([0; 6])).err(), Some(ConfigError::Mac([0; 6])));
    assert_eq!(refused(Config { mtu: 67, ..good.clone() }), "MTU 67: an 82540EM has 68 to 16362");
    assert_eq!(E1000::new(&Config { mtu: MAX_MTU + 1, ..good.clone() }).err(), Some(ConfigError::Mtu(16363)));
    for mtu in [68, MAX_MTU] {
        assert!(E1000::new(&Config { mtu, ..good.clone() }).is_ok());
    }
}
