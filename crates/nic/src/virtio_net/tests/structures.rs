//! Capabilities (section 4.1.4), common configuration (4.1.4.3), device configuration (5.1.4).

use super::driver::Place;
use super::*;
use crate::pci::msix;
use register::*;

#[test]
fn a_driver_finds_each_structure_in_the_capability_list() {
    use registers::cfg_type;
    let driver = Driver::probe(nic());
    let expected = [
        (cfg_type::COMMON, Place { offset: 0, len: 56 }),
        (cfg_type::NOTIFY, Place { offset: 0x1000, len: 8 }),
        (cfg_type::ISR, Place { offset: 0x80, len: 1 }),
        (cfg_type::DEVICE, Place { offset: 0x100, len: 12 }),
        (cfg_type::PCI, Place { offset: 0, len: 0 }),
    ];
    assert_eq!(driver.places.into_iter().collect::<Vec<_>>(), expected);
    assert_eq!((driver.notify_multiplier, driver.msix_table), (4, 0x2000));
}

#[test]
fn what_every_driver_needs_comes_first_in_the_list() {
    let mut driver = Driver::probe(nic());
    let (mut at, mut kinds) = (driver.config(0x34) as u16 & 0xff, vec![]);
    while at != 0 {
        let [id, next, _, kind, ..] = driver.config(at).to_le_bytes();
        kinds.push((id, if id == registers::VENDOR_CAPABILITY { kind } else { 0 }));
        at = u16::from(next);
    }
    let virtio = |kind| (registers::VENDOR_CAPABILITY, kind);
    let msix = (msix::CAPABILITY, 0);
    assert_eq!(kinds, [virtio(1), virtio(2), virtio(4), msix, virtio(3), virtio(5)]);
}

/// Each access during startup is a VM exit, which is expensive on some hosts: most of a router's startup time is spent
/// there.
#[test]
fn a_driver_comes_up_in_few_accesses() {
    let driver = Driver::running(nic());
    assert!(driver.accesses <= 52, "{} accesses", driver.accesses);
}

#[test]
fn common_configuration_at_power_on() {
    let mut driver = Driver::probe(nic());
    let registers: [(&str, usize, u16); 9] = [
        ("config_msix_vector", CONFIG_MSIX_VECTOR, NO_VECTOR),
        ("num_queues", NUM_QUEUES, 2),
        ("device_status, config_generation", DEVICE_STATUS, 0),
        ("queue_select", QUEUE_SELECT, 0),
        ("queue_size: the largest", QUEUE_SIZE, 1024),
        ("queue_msix_vector", QUEUE_MSIX_VECTOR, NO_VECTOR),
        ("queue_enable", QUEUE_ENABLE, 0),
        ("queue_notify_off", QUEUE_NOTIFY_OFF, 0),
        ("queue_desc", QUEUE_DESC, 0),
    ];
    for (name, register, expected) in registers {
        assert_eq!(driver.get16(register), expected, "{name}");
    }
}

#[test]
fn features_are_offered_by_configuration() {
    use features::*;
    let always = VERSION_1 | super::features::MAC | MTU | STATUS;
    let none =
        NicConfig { mergeable: false, event_idx: false, indirect: false, ..NicConfig::new(super::MAC) };
    let cases = [
        (none.clone(), always),
        (NicConfig { mergeable: true, ..none.clone() }, always | MRG_RXBUF),
        (NicConfig { event_idx: true, ..none.clone() }, always | EVENT_IDX),
        (NicConfig { indirect: true, ..none.clone() }, always | INDIRECT_DESC),
        (NicConfig { in_order: true, ..none.clone() }, always | IN_ORDER),
        (NicConfig { queue_pairs: 2, ..none }, always | CTRL_VQ | MQ),
    ];
    for (config, offered) in cases {
        let mut driver = Driver::probe(VirtioNet::new(&config).unwrap());
        assert_eq!(driver.offered(), offered, "{config:?}");
        assert!(driver.negotiate(offered));
    }
}

#[test]
fn there_are_no_features_beyond_bit_63() {
    let mut driver = Driver::probe(nic());
    driver.pick(u64::MAX);
    for select in [2, 3, u32::MAX] {
        driver.set32(DEVICE_FEATURE_SELECT, select);
        assert_eq!(driver.get32(DEVICE_FEATURE), 0, "select {select}");
        driver.set32(DRIVER_FEATURE_SELECT, select);
        driver.set32(DRIVER_FEATURE, 0);
        assert_eq!(driver.get32(DRIVER_FEATURE), 0, "select {select}");
    }
    assert_eq!(driver.nic.picked_features(), u64::MAX, "what was picked before has not changed");
}

#[test]
fn a_queue_that_does_not_exist_has_size_0_and_takes_nothing() {
    let mut driver = Driver::probe(nic());
    for queue in [2, 3, 1000, u16::MAX] {
        driver.set16(QUEUE_SELECT, queue);
        for register in [QUEUE_DESC, QUEUE_DRIVER, QUEUE_DEVICE, QUEUE_SIZE] {
            driver.set64(register, u64::MAX);
            assert_eq!(driver.read_words(register), [0; 4], "queue {queue}");
        }
        assert_eq!(driver.get16(QUEUE_SELECT), queue);
    }
    assert_eq!(driver.take_effects(), [Effect::BarsMoved]);
}

#[test]
fn a_queue_takes_no_size_that_is_none() {
    let mut driver = Driver::probe(nic());
    for (size, kept) in [(256, 256), (0, 256), (3, 256), (2048, 256), (0xffff, 256), (1024, 1024), (1, 1)] {
        driver.set16(QUEUE_SIZE, size);
        assert_eq!(driver.get16(QUEUE_SIZE), kept, "size {size}");
    }
}

#[test]
fn an_address_is_written_whole_or_by_halves() {
    let mut driver = Driver::probe(nic());
    for (register, address) in [(QUEUE_DESC, 0x1234_5678_9abc_def0), (QUEUE_DRIVER, 2), (QUEUE_DEVICE, !0)] {
        driver.set64(register, !address);
        driver.set32(register, address as u32);
        driver.set32(register + 4, (address >> 32) as u32);
        assert_eq!(driver.read::<8>(register as u64), u64::to_le_bytes(address));
    }
}

#[test]
fn half_a_register_is_no_write_and_any_read_is_answered() {
    let mut driver = Driver::probe(nic());
    driver.set64(QUEUE_DESC, 0x1122_3344_5566_7788);
    let before: [u8; 64] = driver.read(0);
    for (offset, octets) in [
        (QUEUE_DESC, 1),
        (QUEUE_DESC, 2),
        (QUEUE_DESC + 1, 4),
        (QUEUE_DESC + 3, 2),
        (QUEUE_SIZE, 1),
        (QUEUE_ENABLE + 1, 1),
        (QUEUE_SELECT + 1, 1),
        (DRIVER_FEATURE + 2, 2),
        (DEVICE_FEATURE, 4),
        (NUM_QUEUES, 2),
        (QUEUE_NOTIFY_OFF, 2),
        (CONFIG_MSIX_VECTOR, 1),
        (56, 8),
        (0x7f, 8),
    ] {
        driver.write(offset as u64, &[0xff; 8][..octets]);
        assert_eq!(driver.read::<64>(0), before, "{octets} octets at {offset:#x}");
    }
    // Misaligned, but it covers the upper half of the address.
    driver.write(QUEUE_DESC as u64 + 2, &[0xff; 8]);
    assert_eq!(driver.read::<8>(QUEUE_DESC as u64), 0xffff_ffff_5566_7788_u64.to_le_bytes());
    assert_eq!(driver.read::<3>(QUEUE_DESC as u64 + 1), [0x77, 0x66, 0x55]);
    assert_eq!(driver.read::<8>(52), [0; 8], "beyond the structure");
}

#[test]
fn a_vector_that_does_not_exist_reads_back_as_no_vector() {
    let mut driver = Driver::probe(nic());
    for register in [CONFIG_MSIX_VECTOR, QUEUE_MSIX_VECTOR] {
        for (vector, kept) in
            [(0, 0), (2, 2), (3, NO_VECTOR), (1, 1), (0x7fff, NO_VECTOR), (NO_VECTOR, NO_VECTOR)]
        {
            driver.set16(register, vector);
            assert_eq!(driver.get16(register), kept, "vector {vector}");
        }
    }
}

#[test]
fn device_configuration_is_told_and_cannot_be_written() {
    let mut driver = Driver::probe(nic_with_pairs(4));
    let at = driver.places[&registers::cfg_type::DEVICE].offset;
    let expected = [2, 0, 0, 0, 0, 7, 1, 0, 4, 0, 0xdc, 5];
    for _ in 0..2 {
        assert_eq!(driver.read::<12>(at), expected);
        driver.write(at, &[0xff; 8]);
        driver.write(at + 6, &[0xff; 4]);
    }
    assert_eq!(driver.read::<2>(at + 10), [0xdc, 5], "mtu 1500");
    assert_eq!(driver.read::<8>(at + 8), [4, 0, 0xdc, 5, 0, 0, 0, 0], "nothing behind the mtu");
}

#[test]
fn other_bars_and_holes_read_as_zero() {
    let mut driver = Driver::running(nic());
    for bar in [1, 5, 6, 255] {
        let mut data = [0xee; 8];
        driver.nic.bar_read(bar, 0, &mut data);
        driver.nic.bar_write(bar, DEVICE_STATUS as u64, &[0]);
        assert_eq!(data, [0; 8]);
    }
    for offset in [0x38, 0x7c, 0x81, 0x10c, 0x1000, 0x2ff8, 0x4000, u64::MAX - 3, u64::MAX] {
        assert_eq!(driver.read::<4>(offset), [0; 4], "at {offset:#x}");
        driver.write(offset, &[0]);
        driver.write(offset, &[]);
    }
    assert!(driver.nic.running());
}

/// Section 4.1.4.9: all registers can be reached through configuration space alone.
#[test]
fn the_window_in_configuration_space_shows_the_bar() {
    let mut driver = Driver::probe(nic());
    let at = 0x98;
    assert_eq!(driver.config(at).to_le_bytes()[..4], [9, 0, 20, 5]);
    let mut look = |offset: u32, len: u32, value: Option<u32>| {
        driver.set_config(at + registers::WINDOW_OFFSET, &offset.to_le_bytes());
        driver.set_config(at + registers::WINDOW_LENGTH, &len.to_le_bytes());
        if let Some(value) = value {
            driver.set_config(at + 16, &value.to_le_bytes());
        }
        driver.config(at + 16) as u32
    };
    assert_eq!(look(NUM_QUEUES as u32, 2, None), 2);
    assert_eq!(look(QUEUE_DESC as u32, 4, Some(0x1234_5000)), 0x1234_5000);
    assert_eq!(look(DEVICE_STATUS as u32, 1, Some(0xffff_ff03)) & 0xff, 3);
    // Invalid lengths and offsets: no register is read or written, and the data stay unchanged.
    let before = look(QUEUE_DESC as u32, 4, None);
    for (offset, len) in [(0x20, 0), (0x20, 3), (0x20, 8), (0x21, 2), (0x22, 4), (0x20, u32::MAX)] {
        assert_eq!(look(offset, len, Some(0x55aa_55aa)), 0x55aa_55aa, "{len} at {offset:#x}");
    }
    assert_eq!(look(QUEUE_DESC as u32, 4, None), before);
    assert_eq!(look(0xffff_fffc, 4, Some(1)), 0, "beyond the BAR");
    driver.set_config(at + registers::WINDOW_BAR, &[3]);
    assert_eq!(driver.config(at + 16) as u32, 0, "a BAR that does not exist");
}

/// A window left pointing to a register that clears on read must not clear it by other accesses.
#[test]
fn only_an_access_to_the_windows_data_goes_through_it() {
    let mut driver = Driver::running(nic());
    driver.set_config(0x98 + registers::WINDOW_OFFSET, &(registers::ISR as u32).to_le_bytes());
    driver.set_config(0x98 + registers::WINDOW_LENGTH, &[1, 0, 0, 0]);
    driver.nic.set_link(false);
    for offset in [0, 0x90, 0xa0, 0xac, 0xb0, 0x100, 0xfff] {
        driver.config(offset);
    }
    assert_eq!(driver.config(0xa1) >> 56, 2, "the last of these octets is the window's first");
    assert_eq!(driver.read::<1>(registers::ISR), [0], "now it was read");
}
