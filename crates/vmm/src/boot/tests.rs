//! The tables, decoded as the processor does (Intel SDM volume 3, sections 3.4.5, 4.5.4, 6.14 and 7.7).

use std::mem::offset_of;

use bootinfo::{MAX_NICS, Shared};

use super::*;

const RAM: usize = 16 << 20;
const FIB: u64 = 68 << 20;

fn ram() -> GuestRam {
    GuestRam::new("boot-tests", RAM).expect("memory")
}

fn get(ram: &GuestRam, address: u64) -> u64 {
    ram.memory.read_obj(GuestAddress(address)).expect("inside RAM")
}

/// A page as found by a page walk.
#[derive(Debug, PartialEq, Eq)]
struct Page {
    at: u64,
    user: bool,
    write: bool,
    execute: bool,
    cached: bool,
}

/// Walks the page tables; returns `None` if the address is not mapped.
fn walk(ram: &GuestRam, address: u64) -> Option<Page> {
    let (mut table, mut rights, mut no_execute) = (PML4, USER | WRITE, 0);
    for shift in [39, 30, 21] {
        let entry = get(ram, table + 8 * (address >> shift & 0x1ff));
        if entry & PRESENT == 0 {
            return None;
        }
        rights &= entry;
        no_execute |= entry & NO_EXECUTE;
        assert_eq!(entry & LARGE != 0, shift == 21, "2 MiB pages and no others");
        table = entry & 0x000f_ffff_ffff_f000;
        if shift == 21 {
            assert_eq!(table % map::PAGE, 0, "a reserved bit is set");
            let at = table + address % map::PAGE;
            let (user, write) = (rights & USER != 0, rights & WRITE != 0);
            return Some(Page { at, user, write, execute: no_execute == 0, cached: entry & UNCACHED == 0 });
        }
    }
    None
}

#[test]
fn each_part_of_the_map_is_where_it_should_be_with_its_rights() {
    let ram = ram();
    write_page_tables(&ram, FIB).expect("tables");
    let page = |at, rights: &str| {
        let [user, write, execute, cached] = ['u', 'w', 'x', 'c'].map(|right| rights.contains(right));
        Some(Page { at, user, write, execute, cached })
    };
    for (address, at, rights) in [
        (0, 0, "wxc"),
        (STUBS, STUBS, "wxc"),
        (map::PAGE - 1, map::PAGE - 1, "wxc"),
        (map::IMAGE, map::IMAGE, "uwxc"),
        (map::STACK_TOP - 8, map::STACK_TOP - 8, "uwxc"),
        (map::BOOT_INFO, map::BOOT_INFO, "uwc"),
        (RAM as u64 - 1, RAM as u64 - 1, "uwc"),
        (APIC_ALIAS + 0xb0, map::APIC + 0xb0, "w"),
        (FAULT_PORT, FAULT_PORT, "w"),
        (map::ECAM, map::ECAM, "uw"),
        (map::BARS + 0x1234, map::BARS + 0x1234, "uw"),
        (map::FIB, map::FIB, "uc"),
        (map::FIB + FIB - 1, map::FIB + FIB - 1, "uc"),
    ] {
        assert_eq!(walk(&ram, address), page(at, rights), "{address:#x}");
    }
    for hole in [RAM as u64, 0x7000_0000, map::FIB + FIB, 6 << 30, 7 << 30, 1 << 39, 1 << 47] {
        assert_eq!(walk(&ram, hole), None, "{hole:#x}");
    }
}

#[test]
fn a_member_of_a_group_reads_its_neighbours_and_writes_nothing_of_it_but_its_desk() {
    let ram = ram();
    write_page_tables(&ram, FIB).expect("tables");
    assert!(
        [map::NEIGHBOURS, map::DESK].iter().all(|place| walk(&ram, *place).is_none()),
        "it is no member yet"
    );
    map_group(&ram, 3 << 20).expect("room");
    let rights = |address| {
        let page = walk(&ram, address).expect("it is mapped");
        assert_eq!((page.at, page.user, page.execute, page.cached), (address, true, false, true));
        page.write
    };
    assert!(!rights(map::NEIGHBOURS) && !rights(map::NEIGHBOURS + (3 << 20) - 1));
    assert!(rights(map::DESK) && rights(map::DESK + Desk::LEN as u64 - 1));
    assert!(map_group(&ram, map::NEIGHBOURS_LEN).is_ok(), "the most that there may be");
}

#[test]
fn what_the_tables_cannot_map_is_refused() {
    let ram = ram();
    assert!(write_page_tables(&ram, (8 << 30) + 1).is_err());
    assert!(write_page_tables(&ram, 8 << 30).is_ok());
    for address in [map::FIB, (7 << 30) - 1, 7 << 30, (12 << 30) - 1] {
        assert_eq!(walk(&ram, address).map(|page| page.at), Some(address), "{address:#x}");
    }
}

#[test]
fn page_tables_and_descriptor_tables_do_not_touch() {
    let areas = [
        (PML4, PML4 + 0x1000),
        (PDPT, PDPT + 0x1000),
        (DIRECTORIES, DIRECTORIES + 0x1000 * DIRECTORY_COUNT),
        (GDT, GDT + u64::from(GDT_LEN)),
        (IDT, IDT + 16 * 256),
        (TSS, TSS + TSS_STRIDE * MAX_VCPUS as u64),
        (STUBS, STUBS + stubs().code.len() as u64),
        (RING0_STACKS, RING0_STACKS + RING0_STACK * MAX_VCPUS as u64),
        (ECAM_TABLE, ECAM_TABLE + SMALL_PAGE),
        (MORE_DIRECTORIES, MORE_DIRECTORIES + 0x1000 * MORE_COUNT),
    ];
    assert!(areas.is_sorted_by(|(_, end), (start, _)| end <= start));
    assert!(areas[areas.len() - 1].1 <= map::PAGE);
}

#[test]
fn segments_are_flat_and_of_their_ring() {
    let ram = ram();
    write_descriptor_tables(&ram).expect("tables");
    assert_eq!(get(&ram, GDT), 0);
    for (selector, ring, code) in [(KERNEL_CODE, 0, true), (USER_DATA, 3, false), (USER_CODE, 3, true)] {
        let entry = get(&ram, GDT + u64::from(selector & !7));
        assert_eq!(u64::from(selector & 3), ring, "the selector asks for its ring");
        assert_eq!(entry >> 47 & 1, 1, "present");
        assert_eq!(entry >> 45 & 3, ring);
        assert_eq!(entry >> 44 & 1, 1, "code or data");
        assert_eq!(entry >> 43 & 1 == 1, code);
        assert_eq!((entry >> 53 & 1 == 1, entry >> 54 & 1 == 1), (code, !code), "64-bit code, 32-bit data");
    }
}

#[test]
fn each_vcpu_has_a_task_state_segment_with_a_stack_of_its_own() {
    let ram = ram();
    write_descriptor_tables(&ram).expect("tables");
    for vcpu in 0..MAX_VCPUS {
        let at = GDT + u64::from(tss_selector(vcpu));
        assert!(at + 16 <= GDT + u64::from(GDT_LEN));
        let (low, high) = (get(&ram, at), get(&ram, at + 8));
        let base = (low >> 16 & 0xff_ffff) | (low >> 56) << 24 | high << 32;
        assert_eq!(base, TSS + TSS_STRIDE * vcpu as u64);
        assert_eq!((low & 0xffff, low >> 48 & 0xf), (0x67, 0), "limit");
        assert_eq!(low >> 40 & 0xff, 0x8b, "present, ring 0, busy 64-bit TSS");
        assert_eq!(get(&ram, base + 4), RING0_STACKS + RING0_STACK * (vcpu as u64 + 1), "RSP0");
    }
}

#[test]
fn gates_lead_to_the_stubs_and_only_the_processor_may_take_them() {
    let ram = ram();
    write_descriptor_tables(&ram).expect("tables");
    let stubs = stubs();
    for vector in 0..256 {
        let (low, high) = (get(&ram, IDT + 16 * vector), get(&ram, IDT + 16 * vector + 8));
        let handler = (low & 0xffff) | (low >> 48) << 16 | high << 32;
        let expected = match vector {
            13 => stubs.halt,
            0..32 => stubs.faults + 16 * vector,
            0x41 => stubs.peer,
            0x50..0x70 => stubs.pins + PIN_STRIDE * (vector - 0x50),
            _ => stubs.interrupt,
        };
        assert_eq!(handler, STUBS + expected, "vector {vector}");
        assert!(expected < stubs.code.len() as u64);
        assert_eq!(low >> 16 & 0xffff, u64::from(KERNEL_CODE));
        assert_eq!(low >> 40 & 0xff, 0x8e, "present, ring 0, interrupt gate");
        assert_eq!(low >> 32 & 0xff, 0, "no stack table");
    }
    let mut code = vec![0; stubs.code.len()];
    ram.memory.read_slice(&mut code, GuestAddress(STUBS)).expect("inside RAM");
    assert_eq!(code, stubs.code);
}

#[test]
fn the_handler_of_a_peer_moves_the_mailbox() {
    let stubs = stubs();
    // lock inc gs:[0]
    let first = [0x65, 0xf0, 0xff, 0x04, 0x25, 0, 0, 0, 0];
    assert_eq!(stubs.code[stubs.peer as usize..][..first.len()], first);
}

#[test]
fn the_handler_of_each_pin_goes_to_its_own_registers_and_words() {
    let stubs = stubs();
    for nic in 0..MAX_NICS {
        let at = stubs.pins as usize + PIN_STRIDE as usize * nic;
        let code = &stubs.code[at..at + PIN_STRIDE as usize];
        let bar = map::BARS + map::BAR_SPACING * (nic as u64 + 1);
        let word = |field: usize| (map::SHARED + field as u64 + 64 * nic as u64) as u32;
        let parts: [&[u8]; 6] = [
            // push rax; mov eax, [64-bit address of ICR]; test eax, eax
            &[&[0x50, 0xa1], &(bar + 0xc0).to_le_bytes()[..], &[0x85, 0xc0]].concat(),
            // lock or [32-bit address], eax
            &[&[0xf0, 0x09, 0x04, 0x25], &word(offset_of!(Shared, causes)).to_le_bytes()[..]].concat(),
            // mov eax, [32-bit address]; test eax, eax
            &[&[0x8b, 0x04, 0x25], &word(offset_of!(Shared, pin_masks)).to_le_bytes()[..], &[0x85, 0xc0]]
                .concat(),
            // mov [64-bit address of IMC], eax; mov eax, [64-bit address of STATUS]
            &[&[0xa3], &(bar + 0xd8).to_le_bytes()[..], &[0xa1], &(bar + 0x8).to_le_bytes()[..]].concat(),
            // lock inc gs:[0]
            &[0x65, 0xf0, 0xff, 0x04, 0x25, 0, 0, 0, 0],
            // pop rax; iretq
            &[0x58, 0x48, 0xcf],
        ];
        let mut from = 0;
        for (number, part) in parts.iter().enumerate() {
            let found = code[from..].windows(part.len()).position(|window| window == *part);
            from +=
                found.unwrap_or_else(|| panic!("part {number} of {nic}: {:x?}", &code[from..])) + part.len();
        }
    }
}

#[test]
fn fault_stubs_push_their_own_vector() {
    let stubs = stubs();
    for vector in 0..32 {
        let at = stubs.faults as usize + 16 * vector;
        // `push imm8` (6a), then a jump.
        assert_eq!(stubs.code[at..at + 2], [0x6a, vector as u8]);
        assert!(matches!(stubs.code[at + 2], 0xe9 | 0xeb));
    }
}
