//! Complete ring-0 code of a firmware guest: handlers of interrupts, halts and faults.
//!
//! The code is position independent, assembled into this program and copied into the guest's first page. It
//! only uses absolute addresses of the guest's memory map. On hosts that emulate guest ring 0 each
//! instruction here costs about a microsecond, so there are as few as possible.

use std::arch::global_asm;
use std::mem::offset_of;

use bootinfo::{Line, MAX_NICS, Shared, map};
use nic::e1000::register;

use crate::attach::{bar_of, nic_slot};

/// Virtual address at which ring 0 sees the local APIC: low enough for a 32-bit displacement.
pub(crate) const APIC_ALIAS: u64 = 0x7fe0_0000;
/// A store of the fault stub to this address tells the VMM which exception stopped the guest.
pub(crate) const FAULT_PORT: u64 = 0xdfe0_0000;
/// Interrupt vector of every MSI that the firmware programs.
pub const INTERRUPT_VECTOR: u8 = map::MESSAGE_VECTOR;
/// Distance in octets between the pin handlers of successive NICs.
pub(crate) const PIN_STRIDE: u64 = 128;
/// Address of NIC 0's registers, for its pin handler.
const FIRST_REGISTERS: u64 = bar_of(nic_slot(0));
/// Address at which it stores the interrupt causes.
const FIRST_CAUSES: u64 = map::SHARED + offset_of!(Shared, causes) as u64;
/// Address of the mask that it applies.
const FIRST_MASK: u64 = map::SHARED + offset_of!(Shared, pin_masks) as u64;

global_asm!(
    ".pushsection .rodata.ring0, \"a\", @progbits",
    ".balign 64",
    ".global ringroad_ring0_start",
    "ringroad_ring0_start:",
    // Interrupt. The host has incremented the mailbox already: acknowledge and return.
    ".global ringroad_ring0_interrupt",
    "ringroad_ring0_interrupt:",
    "  mov dword ptr [{eoi}], 0",
    "  iretq",
    // Interrupt by a vhost-user peer, which does not know the mailbox: the same, and the mailbox is
    // incremented here.
    ".global ringroad_ring0_peer",
    "ringroad_ring0_peer:",
    "  lock inc dword ptr gs:[0]",
    "  mov dword ptr [{eoi}], 0",
    "  iretq",
    // The pin of an e1000, one handler for each NIC. Reading ICR takes the causes and lowers the line; if
    // there are none, the interrupt is a duplicate. Then the handler masks the causes that the driver wants
    // masked: if the next frame follows closely, the interrupt would come again before ring 3 could mask it.
    // The host has incremented the mailbox before the line rose, perhaps before the driver last looked at it
    // and found no causes; so it is incremented again. Ring 0 finds the mailbox of its vCPU by gs.
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
    // In the same way ring 3 requests an interrupt of the first vCPU.
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

/// Code of the stubs, and the offsets of its entries.
pub(crate) struct Stubs {
    /// Machine code.
    pub(crate) code: &'static [u8],
    /// Entry for interrupts.
    pub(crate) interrupt: u64,
    /// Entry for interrupts of a vhost-user peer.
    pub(crate) peer: u64,
    /// Entry for the pin of NIC 0; that of NIC n is n times [`PIN_STRIDE`] further.
    pub(crate) pins: u64,
    /// Entry for #GP.
    pub(crate) halt: u64,
    /// Entry for exception 0; that of exception n is 16 n octets further.
    pub(crate) faults: u64,
}

/// Returns the stubs as assembled into this program.
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
