//! The router firmware: runs in ring 3 of a KVM guest, or as a process of the host; one instance of the router a vCPU.
//!
//! In a guest it starts at [`_start`] with the vCPU's number in `rdi` and a stack; in a process `process` makes the
//! same of what the kernel gives it. vCPU 0 brings up the NICs and builds every
//! vCPU's buffers and queues in its arena; the others wait for theirs. Then each serves its queue pair of every NIC
//! until the host says stop: poll while there is work, arm and halt when there is none.
#![no_std]
#![no_main]

mod application;
mod arena;
mod boot;
mod buffer;
mod e1000;
mod halt;
mod hostile;
mod large;
mod memory_functions;
mod nic;
mod pci;
mod pieces;
mod platform;
mod process;
mod roles;
mod serve;
mod station;
mod virtio_net;

use core::panic::PanicInfo;
use core::sync::atomic::Ordering::{Acquire, Release};

use bootinfo::{MAX_VCPUS, Trouble};

core::arch::global_asm!(
    // KVM has put the stack where a call would leave it, so this is a plain jump. The kernel has put it on a
    // 16-octet boundary and all other registers to zero.
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

/// Where every vCPU begins.
pub(crate) extern "C" fn firmware(vcpu: u64) -> ! {
    let vcpu = (vcpu as usize).min(MAX_VCPUS - 1);
    match boot::vcpu(vcpu).and_then(serve::run) {
        Ok(()) => stopped(vcpu),
        Err(trouble) => give_up(vcpu, trouble),
    }
}

/// Tells the host why and stops this vCPU.
fn give_up(vcpu: usize, trouble: Trouble) -> ! {
    boot::shared().vcpus[vcpu].state.0.store(trouble as u32, Release);
    stopped(vcpu)
}

/// Sleeps for ever; interrupts are answered by the stub and mean nothing any more. A process ends when it is told to.
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
    // Which vCPU it was shows in the exception that the VMM reports; every one that looks sees the trouble.
    boot::shared().vcpus[0].state.0.store(Trouble::Panic as u32, Release);
    halt::die()
}
