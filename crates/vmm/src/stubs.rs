//! The whole ring 0 of a firmware guest: what happens on an interrupt, a halt and a fault.
//!
//! The code is position independent, assembled into this program and copied into the guest's first page. It only
//! uses absolute addresses of the guest's own map. On hosts that emulate guest ring 0 each instruction here costs
//! about a microsecond, so every one must earn its place.

use std::arch::global_asm;
use std::mem::offset_of;

use bootinfo::{Line, MAX_NICS, Shared, map};
use nic::e1000::register;

use crate::attach::{bar_of, nic_slot};

/// Virtual address at which ring 0 sees the local APIC: low enough for a 32-bit displacement.
pub(crate) const APIC_ALIAS: u64 = 0x7fe0_0000;
/// A store to this address by the fault stub tells the VMM which exception stopped the guest.
pub(crate) const FAULT_PORT: u64 = 0xdfe0_0000;
/// Interrupt vector of every MSI the firmware programs.
pub const INTERRUPT_VECTOR: u8 = map::MESSAGE_VECTOR;
/// Octets from the handler of one NIC's pin to that of the next.
pub(crate) const PIN_STRIDE: u64 = 128;
/// Where the handler of NIC 0's pin finds the NIC's registers.
const FIRST_REGISTERS: u64 = bar_of(nic_slot(0));
/// Where it leaves the causes.
const FIRST_CAUSES: u64 = map::SHARED + offset_of!(Shared, causes) as u64;
/// Where it finds what it is to mask.
const FIRST_MASK: u64 = map::SHARED + offset_of!(Shared, pin_masks) as u64;

global_asm!(
    ".pushsection .rodata.ring0, \"a\", @progbits",
    ".balign 64",
    ".global ringroad_ring0_start",
    "ringroad_ring0_start:",
    // An interrupt. The host has bumped the mailbox already: acknowledge and go back.
    ".global ringroad_ring0_interrupt",
    "ringroad_ring0_interrupt:",
    "  mov dword ptr [{eoi}], 0",
    "  iretq",
    // An interrupt by a peer of the VMM, which knows of no mailbox: the same, and the mailbox moves here.
    ".global ringroad_ring0_peer",
    "ringroad_ring0_peer:",
    "  lock inc dword ptr gs:[0]",
    "  mov dword ptr [{eoi}], 0",
    "  iretq",
    // The pin of an e1000, one handler for each NIC. Reading ICR takes the causes and lets the line fall; where there is
    // none, the interrupt is one that came twice. Then it masks what the driver wants masked: with the next frame on its
    // heels the interrupt would come again before ring 3 could do so. The mailbox has moved before the line rose,
    // perhaps before the driver last looked at it and found no causes; so it moves again. Ring 0 finds that of its vCPU
    // by gs.
    ".balign {pin_stride}",
    ".global ringroad_ring0_pins",
    "ringroad_ring0_pins:",
    ".set registers, {first_registers}",
    ".set causes, {first_causes}",
    ".set mask, {first_mask}",
    ".rept {nics}",
    "  .balign {pin_stride}",
    "  push rax",
    "  movabs eax, dword ptr [registers + {icr}]",
    "  test eax, eax",
    "  jz 7f",
    "  lock or dword ptr [causes], eax",
    "  mov eax, dword ptr [mask]",
    "  test eax, eax",
    "  jz 6f",
    "  movabs dword ptr [registers + {imc}], eax",
    "  movabs eax, dword ptr [registers + {status}]",
    "6:",
    "  lock inc dword ptr gs:[0]",
    "7:",
    "  mov dword ptr [{eoi}], 0",
    "  pop rax",
    "  iretq",
    "  .set registers, registers + {registers_stride}",
    "  .set causes, causes + {line}",
    "  .set mask, mask + {line}",
    ".endr",
    // #GP from ring 3. eax holds the halt request, rdi the mailbox, esi what the firmware last saw in it.
    // Interrupts are off here, so one that comes after the comparison ends the `hlt` at once.
    ".balign 16",
    ".global ringroad_ring0_halt",
    "ringroad_ring0_halt:",
    "  cmp eax, {halt_request}",
    "  jne 2f",
    "  cmp dword ptr [rdi], esi",
    "  jne 1f",
    "  sti",
    "  hlt",
    "1:",
    "  add rsp, 8",           // the error code
    "  inc qword ptr [rsp]",  // the instruction was `hlt`, one octet
    "  iretq",
    // The same way ring 3 asks for an interrupt of the first vCPU.
    "2:",
    "  cmp eax, {wake_request}",
    "  jne 4f",
    "  mov dword ptr [{apic} + 0x310], 0",  // ICR, high half: the destination
    "  mov dword ptr [{apic} + 0x300], {message_vector}",
    "  jmp 1b",
    "4:",
    "  push 13",
    "  jmp 3f",
    // Every other exception enters here at base + 16 * vector.
    ".balign 16",
    ".global ringroad_ring0_faults",
    "ringroad_ring0_faults:",
    ".set vector, 0",
    ".rept 32",
    "  .balign 16",
    "  push vector",
    "  jmp 3f",
    "  .set vector, vector + 1",
    ".endr",
    "3:",
    "  pop rax",
    "  mov rbx, {fault_port}",
    "  mov dword ptr [rbx], eax",
    "5:",
    "  cli",
    "  hlt",
    "  jmp 5b",
    ".global ringroad_ring0_end",
    "ringroad_ring0_end:",
    ".popsection",
    eoi = const APIC_ALIAS + 0xb0,
    apic = const APIC_ALIAS,
    message_vector = const map::MESSAGE_VECTOR,
    halt_request = const bootinfo::HALT_REQUEST,
    wake_request = const bootinfo::WAKE_REQUEST,
    fault_port = const FAULT_PORT,
    pin_stride = const PIN_STRIDE,
    nics = const MAX_NICS,
    first_registers = const FIRST_REGISTERS,
    registers_stride = const map::BAR_SPACING,
    icr = const register::ICR,
    imc = const register::IMC,
    status = const register::STATUS,
    first_causes = const FIRST_CAUSES,
    first_mask = const FIRST_MASK,
    line = const size_of::<Line>(),
);

unsafe extern "C" {
    static ringroad_ring0_start: u8;
    static ringroad_ring0_interrupt: u8;
    static ringroad_ring0_peer: u8;
    static ringroad_ring0_pins: u8;
    static ringroad_ring0_halt: u8;
    static ringroad_ring0_faults: u8;
    static ringroad_ring0_end: u8;
}

/// The stubs' code and the offsets of its entries.
pub(crate) struct Stubs {
    /// Machine code.
    pub(crate) code: &'static [u8],
    /// Entry for interrupts.
    pub(crate) interrupt: u64,
    /// Entry for interrupts of a peer.
    pub(crate) peer: u64,
    /// Entry for the pin of NIC 0; that of NIC n is n times [`PIN_STRIDE`] further.
    pub(crate) pins: u64,
    /// Entry for #GP.
    pub(crate) halt: u64,
    /// Entry for exception 0; exception n enters 16 n octets further.
    pub(crate) faults: u64,
}

/// The stubs as assembled into this program.
pub(crate) fn stubs() -> Stubs {
    let start = &raw const ringroad_ring0_start;
    let offset = |entry: *const u8| entry as u64 - start as u64;
    let len = offset(&raw const ringroad_ring0_end) as usize;
    Stubs {
        // SAFETY: start and end frame one contiguous piece of this program's read-only data.
        code: unsafe { std::slice::from_raw_parts(start, len) },
        interrupt: offset(&raw const ringroad_ring0_interrupt),
        peer: offset(&raw const ringroad_ring0_peer),
        pins: offset(&raw const ringroad_ring0_pins),
        halt: offset(&raw const ringroad_ring0_halt),
        faults: offset(&raw const ringroad_ring0_faults),
    }
}
