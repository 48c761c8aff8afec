//! Router firmware: runs in ring 3 of a KVM guest, or as a process of the host; each vCPU runs one instance of the
//! router.
//!
//! In a guest it starts at [`_start`] with the vCPU's number in `rdi` and a stack; in a process, `process` derives the
//! same from what the kernel provides. vCPU 0 initialises the NICs and builds every vCPU's buffers and queues in its
//! arena; the others wait for theirs. Then each vCPU serves its queue pair of every NIC until the host tells it to
//! stop: poll while there is work, arm and halt when there is none.
#![no_std]
#![no_main]

mod application;
mod arena;
mod boot;
mod buffer;
mod e1000;
mod halt;
mod hostile;
mod memory_functions;
mod nic;
mod pci;
mod platform;
mod process;
mod roles;
mod segments;
mod serve;
mod six;
mod station;
mod tables;
mod tso_source;
mod virtio_net;
mod vrfs;

use core::panic::PanicInfo;
use core::sync::atomic::Ordering::{Acquire, Release};

use bootinfo::{BootFailure, MAX_VCPUS};

core::arch::global_asm!(
    // KVM has left the stack as after a call, so this is a plain jump. The Linux kernel has aligned it to 16 octets
    // and zeroed all other registers.
    ".global _start",
    "_start:",
    "  movabs rax, {entered_by_kvm}",
    "  cmp rsi, rax",
    "  je {firmware}",
    "  call {process}",
    entered_by_kvm = const bootinfo::ENTERED_BY_KVM,
    firmware = sym firmware,
    process = sym process::begin,
);

/// Entry point of every vCPU.
pub(crate) extern "C" fn firmware(vcpu: u64) -> ! {
    let vcpu = (vcpu as usize).min(MAX_VCPUS - 1);
    match boot::vcpu(vcpu).and_then(serve::run) {
        Ok(()) => stopped(vcpu),
        Err(trouble) => give_up(vcpu, trouble),
    }
}

/// Reports the reason to the host and stops this vCPU.
fn give_up(vcpu: usize, trouble: BootFailure) -> ! {
    boot::shared().vcpus[vcpu].state.0.store(trouble as u32, Release);
    if vcpu == 0 && process::is_running() {
        wake_others();
    }
    stopped(vcpu)
}

/// Wakes the other vCPUs of a process, which may sleep until the first one has built their states.
fn wake_others() {
    for mailbox in &boot::shared().mailbox[1..] {
        mailbox.0.fetch_add(1, Release);
        process::wake(&mailbox.0);
    }
}

/// Sleeps forever; the stub handles interrupts, which no longer have any effect. A process ends when told to.
fn stopped(vcpu: usize) -> ! {
    let words = boot::shared();
    let mailbox = halt::Mailbox::new(&words.mailbox[vcpu].0);
    loop {
        let seen = mailbox.seen();
        if process::is_running() && words.stop.0.load(Acquire) != 0 {
            process::exit_thread();
        }
        mailbox.sleep(seen);
    }
}

#[panic_handler]
fn panic(_: &PanicInfo) -> ! {
    // The exception that the VMM reports tells which vCPU panicked; this word makes the reason visible to all.
    boot::shared().vcpus[0].state.0.store(BootFailure::Panic as u32, Release);
    halt::die()
}
