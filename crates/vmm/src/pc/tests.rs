use bootinfo::{BootInfo, NicInfo, Role};
use vm_memory::{Bytes, GuestAddress};

use super::*;

fn config(nics: u32, vcpus: u32) -> MachineConfig {
    let mut info = BootInfo::new(Role::Sink, vcpus);
    info.nic_count = nics;
    info.nics[0] = NicInfo { slot: 3, interrupt_vcpu: vcpus - 1, ..NicInfo::default() };
    MachineConfig { name: "pc".to_owned(), ram: 16 << 20, fib: None, group: None, info }
}

fn orders(rom: &[u8]) -> Vec<[u32; 3]> {
    let (words, _) = rom[0x8000..].as_chunks::<4>();
    let words: Vec<u32> = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
    words.as_chunks::<3>().0.iter().copied().take_while(|order| order[0] != 0).collect()
}

fn word(pc: &Pc, address: u64) -> u64 {
    pc.ram.memory.read_obj(GuestAddress(address)).unwrap()
}

#[test]
fn the_rom_begins_where_a_reset_jumps_and_holds_the_entry() {
    let pc = Pc::new(config(0, 1), 1).unwrap();
    let rom = pc.rom();
    assert_eq!((rom.len(), &rom[0xfff0..0xfff5]), (0x1_0000, &[0xea, 0, 0, 0, 0xf0][..]));
    // cli
    assert_eq!(rom[0], 0xfa);
    let entry = u64::from_le_bytes(rom[0x7ff8..0x8000].try_into().unwrap());
    assert!((map::IMAGE..map::STACKS).contains(&entry), "{entry:#x}");
    assert_eq!(pc.ram_len(), 16 << 20);
}

#[test]
fn configuration_space_is_shown_where_the_firmware_looks_and_bars_lie_where_they_are() {
    let pc = Pc::new(config(0, 1), 1).unwrap();
    let frame = |entry: u64| entry & 0x000f_ffff_ffff_f000;
    let index = |address: u64, shift: u32| 8 * (address >> shift & 0x1ff);
    let walked = [39, 30, 21]
        .into_iter()
        .fold(boot::PML4, |table, shift| frame(word(&pc, table + index(map::ECAM, shift))));
    let page = |address: u64| frame(word(&pc, walked + index(address, 12)));
    for slot in 0..32 {
        assert_eq!(page(map::ECAM + (slot << 15)), ECAM + (slot << 15));
    }
    for address in [map::BARS, bar_of(3), bar_of(7)] {
        assert_eq!(page(address), address);
    }
}

#[test]
fn the_chipset_is_told_of_the_window_the_bar_the_pins_and_the_other_cpus() {
    let pc = Pc::new(config(1, 2), 1).unwrap();
    let orders = orders(pc.rom());
    let bar = bar_of(3) as u32;
    for order in [[1, 0x8000_0060, 0xb000_0001], [1, 0x8000_1810, bar], [3, 0x21, 0xff], [3, 0xa1, 0xff]] {
        assert!(orders.contains(&order), "{order:x?} is not in {orders:x?}");
    }
    // Input 21: the destination, then the vector, level-triggered.
    let at = orders.iter().position(|order| *order == [2, 0xfec0_0000, 0x3b]).unwrap();
    let entry = [[2, 0xfec0_0010, 1 << 24], [2, 0xfec0_0000, 0x3a], [2, 0xfec0_0010, 0x8050]];
    assert_eq!(orders[at + 1..at + 4], entry);
    assert_eq!(orders.last(), Some(&[2, 0xfee0_0300, 0xc46f0]));
    let alone = Pc::new(config(1, 1), 1).unwrap();
    assert!(!self::orders(alone.rom()).iter().any(|order| order[1] == 0xfee0_0300));
}

#[test]
fn what_it_cannot_run_is_said() {
    let error = Pc::new(config(2, 1), 1).unwrap_err().to_string();
    assert_eq!(error, "a firmware on another VMM has one NIC at most, not 2");
}
