//! Numbers of ioctl(2) requests to KVM: direction, size of the argument, 0xae, number (`linux/kvm.h`).

use kvm_bindings::{
    kvm_coalesced_mmio_zone, kvm_cpuid2, kvm_ioeventfd, kvm_irq_level, kvm_irq_routing, kvm_irqchip,
    kvm_irqfd, kvm_lapic_state, kvm_mp_state, kvm_msrs, kvm_pit_config, kvm_regs, kvm_sregs,
    kvm_userspace_memory_region,
};

const KVM: u64 = 0xae00;
const WRITE: u64 = 1 << 30;
const READ: u64 = 2 << 30;

const RUN: u64 = KVM | 0x80;
const GET_REGS: u64 = read::<kvm_regs>(0x81);
const GET_SREGS: u64 = read::<kvm_sregs>(0x83);
const IOEVENTFD: u64 = write::<kvm_ioeventfd>(0x79);
const IRQFD: u64 = write::<kvm_irqfd>(0x76);
const SET_GSI_ROUTING: u64 = write::<kvm_irq_routing>(0x6a);
const IRQ_LINE: u64 = write::<kvm_irq_level>(0x61);
const REGISTER_COALESCED_MMIO: u64 = write::<kvm_coalesced_mmio_zone>(0x67);
const UNREGISTER_COALESCED_MMIO: u64 = write::<kvm_coalesced_mmio_zone>(0x68);

/// Requests to vhost-net (`linux/vhost.h`) when a driver starts or resets a device, and to the TAP behind it
/// (`linux/if_tun.h`): offloads, header length, and whether a queue receives frames.
const VHOST_NET: [u64; 11] = [
    0x4008_af00,
    0x4008_af03,
    0x4008_af10,
    0x4028_af11,
    0x4008_af12,
    0x4008_af20,
    0x4008_af21,
    0x4008_af30,
    0x4004_54d0,
    0x4004_54d8,
    0x4004_54d9,
];
/// Requests to vhost-net: setting the owner, and reading features.
const OWN_VHOST_NET: [u64; 2] = [0xaf01, 0x8008_af00];

/// Requests of `linux/if_tun.h`.
const TUNSETOFFLOAD: u64 = 0x4004_54d0;
const TUNGETIFF: u64 = 0x8004_54d2;

/// Requests of a running vCPU: running the guest, reading the registers of one that failed, and changing
/// doorbells and interrupts when the guest writes registers. The first is by far the most frequent.
const fn while_running() -> [u64; 6] {
    [RUN, IOEVENTFD, SET_GSI_ROUTING, IRQFD, GET_REGS, GET_SREGS]
}

/// Requests of threads that move frames: interrupt pins of NICs, register writes that KVM coalesces, and
/// offloads of a TAP or macvtap.
pub(crate) const fn while_serving() -> [u64; 4] {
    [IRQ_LINE, REGISTER_COALESCED_MMIO, UNREGISTER_COALESCED_MMIO, TUNSETOFFLOAD]
}

/// Requests that create a vCPU: registers, CPUID, local APIC, state, clock.
const fn new_vcpu() -> [u64; 9] {
    [
        KVM | 0x41,
        write::<kvm_regs>(0x82),
        write::<kvm_sregs>(0x84),
        read::<kvm_lapic_state>(0x8e),
        write::<kvm_lapic_state>(0x8f),
        write::<kvm_cpuid2>(0x90),
        write::<kvm_mp_state>(0x99),
        // Model-specific registers.
        write::<kvm_msrs>(0x89),
        KVM | 0xa3,
    ]
}

/// Requests of a vCPU thread that runs its guest.
pub(crate) fn of_vcpu() -> Vec<u64> {
    [&while_running()[..], &while_serving()].concat()
}

/// Requests of a vCPU thread whose guest's register accesses hand rings to vhost-net.
pub(crate) fn of_vcpu_with_vhost_net() -> Vec<u64> {
    [of_vcpu(), VHOST_NET.to_vec()].concat()
}

/// Requests of a vCPU thread before its guest runs.
pub(crate) fn of_new_vcpu() -> Vec<u64> {
    [of_vcpu_with_vhost_net(), new_vcpu().to_vec()].concat()
}

/// Requests of the thread that creates virtual machines and their vCPUs.
pub(crate) fn set_up() -> Vec<u64> {
    let mut requests = while_running().to_vec();
    requests.extend(while_serving());
    requests.extend(new_vcpu());
    requests.extend(VHOST_NET);
    requests.extend(OWN_VHOST_NET);
    requests.extend([
        // To /dev/kvm: API version, new machine, extensions, size of a vCPU's shared page, CPUID.
        KVM,
        KVM | 0x01,
        KVM | 0x03,
        KVM | 0x04,
        READ | write::<kvm_cpuid2>(0x05),
        // To a machine: memory, task state segment, interrupt controller.
        write::<kvm_userspace_memory_region>(0x46),
        KVM | 0x47,
        KVM | 0x60,
        // To a machine: its PIT, for guests that expect a PC.
        write::<kvm_pit_config>(0x77),
        // To a machine: its I/O APIC.
        READ | write::<kvm_irqchip>(0x62),
        read::<kvm_irqchip>(0x63),
        // Checks whether the interface of a TAP or macvtap still exists.
        TUNGETIFF,
    ]);
    requests
}

const fn write<T>(number: u64) -> u64 {
    WRITE | sized::<T>(number)
}

const fn read<T>(number: u64) -> u64 {
    READ | sized::<T>(number)
}

const fn sized<T>(number: u64) -> u64 {
    (size_of::<T>() as u64) << 16 | KVM | number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_numbered_as_the_kernel_does() {
        // As shown by strace -X raw.
        assert_eq!(
            while_running(),
            [0xae80, 0x4040_ae79, 0x4008_ae6a, 0x4020_ae76, 0x8090_ae81, 0x8138_ae83]
        );
        assert_eq!(while_serving(), [0x4008_ae61, 0x4010_ae67, 0x4010_ae68, 0x4004_54d0]);
        for request in
            [0xc208_ae62, 0x8208_ae63, 0xc008_ae05, 0x4020_ae46, 0x4008_ae90, 0x4004_ae99, 0x4400_ae8f]
        {
            assert!(set_up().contains(&request), "{request:#x}");
        }
    }
}
