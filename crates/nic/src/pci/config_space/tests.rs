use proptest::prelude::*;

use super::*;

const NETWORK: Identity = Identity {
    vendor: 0x1af4,
    device: 0x1041,
    revision: 1,
    class: 0x02_0000,
    subsystem_vendor: 0x1af4,
    subsystem: 0x1041,
};

fn function() -> ConfigSpace {
    let mut space = ConfigSpace::new(&NETWORK);
    space.add_memory_bar(0, 0x4000);
    space.add_memory_bar(2, 0x1000);
    space.add_capability(0x11, &[1, 0, 0xaa, 0xbb], &[0, 0xc0]);
    space.add_capability(0x09, &[7; 15], &[]);
    space
}

/// Returns a function with both BARs placed and decoding enabled.
fn placed() -> ConfigSpace {
    let mut space = function();
    space.write(BAR0, &0xe010_0000_u32.to_le_bytes());
    space.write(BAR0 + 8, &0xe020_0000_u32.to_le_bytes());
    space.write(COMMAND, &COMMAND_MEMORY.to_le_bytes());
    space
}

fn octets<const N: usize>(space: &ConfigSpace, offset: u16) -> [u8; N] {
    let mut data = [0xee; N];
    space.read(offset, &mut data);
    data
}

#[test]
fn header_at_power_on() {
    let space = function();
    let registers: [(&str, u16, u32); 8] = [
        ("device, vendor", 0x00, 0x1041_1af4),
        ("status: capabilities; command: nothing enabled", 0x04, 0x0010_0000),
        ("class, revision", 0x08, 0x0200_0001),
        ("header type 0, one function", 0x0c, 0),
        ("BAR 0: 32-bit memory, not placed", 0x10, 0),
        ("subsystem, its vendor", 0x2c, 0x1041_1af4),
        ("capabilities pointer", 0x34, 0x40),
        ("no interrupt pin", 0x3c, 0),
    ];
    for (name, offset, expected) in registers {
        assert_eq!(space.double_word(offset), expected, "{name}");
    }
}

#[test]
fn writing_all_ones_tells_a_bar_its_size() {
    let mut space = function();
    for (bar, expected) in [(0, 0xffff_c000), (1, 0), (2, 0xffff_f000), (3, 0), (4, 0), (5, 0)] {
        space.write(BAR0 + 4 * bar, &[0xff; 4]);
        assert_eq!(space.double_word(BAR0 + 4 * bar), expected, "BAR {bar}");
    }
}

#[test]
fn a_bar_is_a_window_only_when_decoded_and_placed() {
    let mut space = function();
    assert_eq!(space.bars(), []);
    space.write(COMMAND, &COMMAND_MEMORY.to_le_bytes());
    assert_eq!(space.bars(), [], "not placed");
    space.write(BAR0, &0xe010_4abc_u32.to_le_bytes());
    let window = BarWindow { index: 0, address: 0xe010_4000, len: 0x4000 };
    assert_eq!(space.bars(), [window], "low bits are not the address");
    assert_eq!((space.bar(1), space.bar(6), space.bar(255)), (None, None, None));
    space.write(COMMAND, &[0, 0]);
    assert_eq!(space.bars(), [], "decoding disabled");
}

#[test]
fn only_the_bits_of_the_masks_can_be_written() {
    let mut space = function();
    let before = space.octets;
    space.write(0, &[0xff; LEN]);
    for (offset, (old, new)) in before.iter().zip(space.octets).enumerate() {
        let may_change = match offset {
            0x04 => 0x06,                                    // memory space, bus master
            0x05 => 0x04,                                    // interrupt disable
            0x0c | 0x3c | 0x12 | 0x13 | 0x1a | 0x1b => 0xff, // cache line size, interrupt line, BARs
            0x11 => 0xc0,
            0x19 => 0xf0,
            0x43 => 0xc0, // writable bits of the first capability
            _ => 0,
        };
        assert_eq!(old ^ new, may_change, "offset {offset:#x}");
    }
}

#[test]
fn accesses_of_any_size_and_place_are_answered() {
    let mut space = function();
    assert_eq!(octets::<3>(&space, 0x01), [0x1a, 0x41, 0x10], "misaligned");
    assert_eq!(octets::<4>(&space, 0xfe), [0; 4], "across the end");
    assert_eq!(octets::<8>(&space, 0x100), [0; 8], "extended space");
    assert_eq!(octets::<8>(&space, 0xffff), [0; 8]);
    space.write(0xffff, &[0xff; 8]);
    space.write(0xfe, &[0xff; 8]);
    space.write(0x10, &[]);
    assert_eq!(space.octets, function().octets);
    // Writes both BARs' registers by one write of 8 octets, and a BAR's upper half alone.
    space.write(BAR0, &[0, 0, 0x10, 0xe0, 0xff, 0xff, 0xff, 0xff]);
    assert_eq!((space.double_word(BAR0), space.double_word(BAR0 + 4)), (0xe010_0000, 0));
    space.write(BAR0 + 2, &[0x20, 0xe0]);
    assert_eq!(space.double_word(BAR0), 0xe020_0000);
}

#[test]
fn an_io_bar_is_a_window_of_ports() {
    let mut space = function();
    space.add_port_bar(1, 64);
    assert_eq!(space.double_word(BAR0 + 4), 1, "the lowest bit says so");
    space.write(BAR0 + 4, &[0xff; 4]);
    assert_eq!(space.double_word(BAR0 + 4), 0xffff_ffc1);
    space.write(BAR0 + 4, &0xc07e_u32.to_le_bytes());
    space.write(BAR0, &0xe010_0000_u32.to_le_bytes());
    space.write(COMMAND, &COMMAND_MEMORY.to_le_bytes());
    assert_eq!((space.port_bar(1), space.bars().len()), (None, 1), "I/O is not enabled");
    space.write(COMMAND, &COMMAND_IO.to_le_bytes());
    let window = BarWindow { index: 1, address: 0xc040, len: 64 };
    assert_eq!((space.port_bar(1), space.bar(1), space.bars()), (Some(window), None, vec![]));
    assert_eq!((space.port_bar(0), space.port_bar(5), space.port_bar(6)), (None, None, None));
}

#[test]
fn the_pin_is_told_and_its_line_is_software_s() {
    let mut space = function();
    space.set_interrupt_pin(1);
    space.write(0x3c, &[11, 4]);
    assert_eq!(octets(&space, 0x3c), [11, 1]);
}

#[test]
#[should_panic(expected = "a BAR of 512 ports")]
fn an_io_bar_of_too_many_ports_is_a_mistake_of_the_model() {
    function().add_port_bar(1, 512);
}

#[test]
fn capabilities_are_a_list_at_multiples_of_8_that_ends() {
    let space = function();
    assert_eq!(octets::<6>(&space, 0x40), [0x11, 0x48, 1, 0, 0xaa, 0xbb]);
    assert_eq!(octets::<3>(&space, 0x48), [0x09, 0, 7]);
}

#[test]
#[should_panic(expected = "a BAR of 3000 octets")]
fn a_bar_that_is_no_power_of_two_is_a_mistake_of_the_model() {
    function().add_memory_bar(1, 3000);
}

proptest! {
    #[test]
    fn nothing_that_is_written_reaches_a_read_only_bit(
        writes in prop::collection::vec((any::<u16>(), prop::collection::vec(any::<u8>(), 0..9)), 0..50),
    ) {
        let mut space = placed();
        let before = space.clone();
        for (offset, data) in writes {
            space.write(offset % 0x120, &data);
            for ((old, new), mask) in before.octets.iter().zip(space.octets).zip(space.writable) {
                prop_assert_eq!(old & !mask, new & !mask);
            }
            for window in space.bars() {
                prop_assert!(window.address.is_multiple_of(window.len));
                prop_assert!(window.address != 0 && window.address + window.len <= 1 << 32);
            }
        }
    }
}
