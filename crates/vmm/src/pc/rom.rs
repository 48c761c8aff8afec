//! Boot ROM: from the reset of a PC's CPU to the firmware's first instruction in ring 3.
//!
//! ```text
//! 0x0000   code; where other CPUs start too
//! 0x7ff8   the firmware's entry
//! 0x8000   orders, for the first CPU alone
//! 0xfff0   reset: a jump to the beginning, below 1 MiB
//! ```

use std::arch::global_asm;
use std::mem::{offset_of, size_of};

use anyhow::{Result, ensure};
use bootinfo::{Line, Shared, map};

use crate::boot;
use crate::stubs::APIC_ALIAS;
use crate::vcpu::{CR0_PAGED_PROTECTED, CR4_PAE_SSE, EFER_LONG_NX, RFLAGS_INTERRUPTS};

/// Address of the ROM below 1 MiB.
pub(super) const BASE: u32 = 0xf_0000;
/// Octets of the ROM.
const LEN: usize = 0x1_0000;
const ENTRY: usize = 0x7ff8;
const ORDERS: usize = 0x8000;
const RESET: usize = 0xfff0;
/// A far jump to `BASE`, in real mode.
const JUMP: [u8; 5] = [0xea, 0x00, 0x00, 0x00, 0xf0];
/// EFER without LMA, which the CPU sets itself.
const EFER: u64 = EFER_LONG_NX & !(1 << 10);

/// A write that the first CPU performs before it enters the firmware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BootWrite {
    /// PCI configuration space: address for port 0xcf8, and value.
    Config(u32, u32),
    /// Physical memory: address and value.
    Memory(u32, u32),
    /// I/O port and octet.
    Port(u16, u8),
}

impl BootWrite {
    fn words(self) -> [u32; 3] {
        match self {
            Self::Config(address, value) => [1, address, value],
            Self::Memory(address, value) => [2, address, value],
            Self::Port(port, value) => [3, port.into(), value.into()],
        }
    }
}

/// Returns the ROM that performs these writes and starts the firmware at `entry`.
pub(super) fn image(entry: u64, orders: &[BootWrite]) -> Result<Vec<u8>> {
    let code = code();
    let words = orders.iter().flat_map(|order| order.words()).chain([0]);
    let orders: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
    ensure!(
        code.len() <= ENTRY && orders.len() <= RESET - ORDERS,
        "the boot ROM is too small for its orders"
    );
    let mut rom = vec![0; LEN];
    let entry = entry.to_le_bytes();
    for (at, octets) in [(0, code), (ENTRY, &entry[..]), (ORDERS, &orders[..]), (RESET, &JUMP[..])] {
        rom[at..at + octets.len()].copy_from_slice(octets);
    }
    Ok(rom)
}

global_asm!(
    ".pushsection .rodata.rom, \"a\", @progbits",
    ".balign 16",
    ".global ringroad_rom_start",
    "ringroad_rom_start:",
    // Real mode, at BASE.
    ".code16",
    "  cli",
    "  .byte 0x2e, 0x0f, 0x01, 0x16", // lgdt cs:[...]: the assembler takes no difference as an address
    "  .word ringroad_rom_gdt_pointer - ringroad_rom_start",
    "  mov eax, cr0",
    "  or al, 1",
    "  mov cr0, eax",
    "  .byte 0x66, 0xea", // a far jump with a 32-bit offset
    "  .long {base} + ringroad_rom_protected - ringroad_rom_start",
    "  .word 8",
    // Protected mode, without paging.
    ".code32",
    "ringroad_rom_protected:",
    "  mov eax, 16",
    "  mov ds, eax",
    "  mov es, eax",
    "  mov ss, eax",
    "  mov ecx, 0x1b", // IA32_APIC_BASE: whether this is the first CPU
    "  rdmsr",
    "  test eax, 0x100",
    "  jz 9f",
    "  mov esi, {base} + {orders}",
    "1:",
    "  mov eax, [esi]",
    "  mov edx, [esi + 4]",
    "  mov ecx, [esi + 8]",
    "  add esi, 12",
    "  cmp eax, 1",
    "  jb 9f",
    "  je 2f",
    "  cmp eax, 2",
    "  je 3f",
    "  mov eax, ecx",
    "  out dx, al",
    "  jmp 1b",
    "2:",
    "  mov eax, edx",
    "  mov edx, 0xcf8",
    "  out dx, eax",
    "  mov eax, ecx",
    "  mov edx, 0xcfc",
    "  out dx, eax",
    "  jmp 1b",
    "3:",
    "  mov [edx], ecx",
    "  jmp 1b",
    // Long mode, with the page tables in RAM.
    "9:",
    "  mov eax, {cr4}",
    "  mov cr4, eax",
    "  mov eax, {pml4}",
    "  mov cr3, eax",
    "  mov ecx, 0xc0000080",
    "  mov eax, {efer}",
    "  xor edx, edx",
    "  wrmsr",
    "  mov eax, {cr0}",
    "  mov cr0, eax",
    "  .byte 0x0f, 0x01, 0x15", // lgdt [...]
    "  .long {base} + ringroad_rom_tables - ringroad_rom_start",
    "  .byte 0xea",
    "  .long {base} + ringroad_rom_long - ringroad_rom_start",
    "  .word {kernel_code}",
    ".code64",
    "ringroad_rom_long:",
    "  lidt [rip + ringroad_rom_tables + 6]",
    "  mov eax, 1",
    "  cpuid",
    "  mov edi, ebx",
    "  shr edi, 24", // the vCPU's number
    "  lea esp, [rdi + 1]",
    "  shl esp, {ring0_stack_shift}",
    "  add esp, {ring0_stacks}",
    // The task register: KVM accepts a busy segment, the instruction does not.
    "  mov ecx, edi",
    "  shl ecx, 4",
    "  add ecx, {first_tss}",
    "  and byte ptr [rcx + {gdt} + 5], 0xfd",
    "  ltr cx",
    "  mov dword ptr [{apic} + 0xf0], 0x1ff",
    "  mov eax, {user_data}",
    "  mov ds, eax",
    "  mov es, eax",
    "  mov fs, eax",
    "  mov gs, eax",
    "  mov ecx, 0xc0000101", // IA32_GS_BASE: the mailbox
    "  mov eax, edi",
    "  imul eax, eax, {line}",
    "  add eax, {mailbox}",
    "  xor edx, edx",
    "  wrmsr",
    "  imul ecx, edi, {stack}",
    "  mov eax, {stack_top} - 8",
    "  sub eax, ecx",
    "  push {user_data}",
    "  push rax",
    "  push {rflags}",
    "  push {user_code}",
    "  push qword ptr [rip + ringroad_rom_start + {entry}]",
    "  movabs rsi, {entered}",
    "  iretq",
    ".balign 8",
    "ringroad_rom_gdt:",
    "  .quad 0, 0x00cf9b000000ffff, 0x00cf93000000ffff",
    "ringroad_rom_gdt_pointer:",
    "  .word 23",
    "  .long {base} + ringroad_rom_gdt - ringroad_rom_start",
    "ringroad_rom_tables:", // GDT, then IDT
    "  .word {gdt_len} - 1",
    "  .long {gdt}",
    "  .word 0xfff",
    "  .quad {idt}",
    ".global ringroad_rom_end",
    "ringroad_rom_end:",
    ".popsection",
    base = const BASE,
    orders = const ORDERS,
    entry = const ENTRY,
    cr0 = const CR0_PAGED_PROTECTED,
    cr4 = const CR4_PAE_SSE,
    efer = const EFER,
    rflags = const RFLAGS_INTERRUPTS,
    pml4 = const boot::PML4,
    gdt = const boot::GDT,
    gdt_len = const boot::GDT_LEN,
    idt = const boot::IDT,
    ring0_stacks = const boot::RING0_STACKS,
    ring0_stack_shift = const boot::RING0_STACK.ilog2(),
    first_tss = const boot::FIRST_TSS,
    kernel_code = const boot::KERNEL_CODE,
    user_code = const boot::USER_CODE,
    user_data = const boot::USER_DATA,
    apic = const APIC_ALIAS,
    mailbox = const map::SHARED + offset_of!(Shared, mailbox) as u64,
    line = const size_of::<Line>(),
    stack = const map::STACK,
    stack_top = const map::STACK_TOP,
    entered = const bootinfo::ENTERED_BY_KVM,
);

unsafe extern "C" {
    static ringroad_rom_start: u8;
    static ringroad_rom_end: u8;
}

/// Returns the code of the ROM.
fn code() -> &'static [u8] {
    let (start, end) = (&raw const ringroad_rom_start, &raw const ringroad_rom_end);
    // SAFETY: start and end frame one contiguous piece of this program's read-only data.
    unsafe { std::slice::from_raw_parts(start, end as usize - start as usize) }
}
