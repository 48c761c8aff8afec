//! The router firmware: runs in ring 3 of a KVM guest, one instance of the router a vCPU.
//!
//! It starts at [`_start`] with the vCPU's number in `rdi` and a stack. vCPU 0 brings up the NICs and builds every
//! vCPU's buffers and queues in its arena; the others wait for theirs. Then each serves its queue pair of every NIC
//! until the host says stop: poll while there is work, arm and halt when there is none.
#![no_std]
#![no_main]

mod arena;
mod boot;
mod buffer;
mod halt;
mod hostile;
mod memory_functions;
mod pci;
mod platform;
mod roles;
mod serve;
mod virtio_net;

use core::panic::PanicInfo;
use core::sync::atomic::Ordering::Release;

use bootinfo::{MAX_VCPUS, Trouble};

core::arch::global_asm!(
    // The VMM has put the stack where a call would leave it, so this is a plain jump.
    ".global _start",
    "_start:",
    "  jmp {firmware}",
    firmware = sym firmware,
);

extern "C" fn firmware(vcpu: u64) -> ! {
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

/// Sleeps for ever; interrupts are answered by the stub and mean nothing any more.
fn stopped(vcpu: usize) -> ! {
    let mailbox = halt::Mailbox::new(&boot::shared().mailbox[vcpu].0);
    loop {
        mailbox.sleep(mailbox.seen());
    }
}

#[panic_handler]
fn panic(_: &PanicInfo) -> ! {
    // Which vCPU it was shows in the exception that the VMM reports; every one that looks sees the trouble.
    boot::shared().vcpus[0].state.0.store(Trouble::Panic as u32, Release);
    halt::die()
}
