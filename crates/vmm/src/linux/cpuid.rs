//! CPUID of a Linux guest's CPUs: the features that guests may see, with each CPU's own number and the number
//! of CPUs.

use kvm_bindings::{CpuId, kvm_cpuid_entry2};

const X2APIC: u32 = 1 << 21;
const TSC_DEADLINE: u32 = 1 << 24;
const HYPERVISOR: u32 = 1 << 31;
/// More than one logical CPU in the package is possible (HTT).
const SEVERAL: u32 = 1 << 28;

/// Returns the leaves for CPU `cpu` of `cpus`. `deadline`: KVM's timers support TSC deadlines.
pub(super) fn of_cpu(supported: &CpuId, cpu: u8, cpus: u8, deadline: bool) -> CpuId {
    let mut leaves = supported.clone();
    for leaf in leaves.as_mut_slice() {
        number(leaf, cpu, cpus, deadline);
    }
    leaves
}

/// Sets the topology: all CPUs are single-threaded cores of one package.
fn number(leaf: &mut kvm_cpuid_entry2, cpu: u8, cpus: u8, deadline: bool) {
    let (cpu, cpus) = (u32::from(cpu), u32::from(cpus));
    let bits = u32::BITS - (cpus - 1).leading_zeros();
    match leaf.function {
        1 => {
            leaf.ebx = leaf.ebx & 0xffff | cpus << 16 | cpu << 24;
            leaf.ecx |= X2APIC | HYPERVISOR | if deadline { TSC_DEADLINE } else { 0 };
            leaf.edx = leaf.edx & !SEVERAL | if cpus > 1 { SEVERAL } else { 0 };
        }
        // Caches: the number of cores in the package, and no sharing.
        4 if leaf.eax & 0x1f != 0 => leaf.eax = leaf.eax & 0x3fff | (cpus - 1) << 26,
        0xb | 0x1f => {
            leaf.edx = cpu;
            let (shift, count, kind) = match leaf.index {
                0 => (0, 1, 1),
                1 => (bits, cpus, 2),
                _ => (0, 0, 0),
            };
            (leaf.eax, leaf.ebx, leaf.ecx) = (shift, count, kind << 8 | leaf.index);
        }
        0x8000_0008 => leaf.ecx = bits << 12 | (cpus - 1),
        0x8000_001e => (leaf.eax, leaf.ebx, leaf.ecx) = (cpu, cpu, 0),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(function: u32, index: u32) -> kvm_cpuid_entry2 {
        kvm_cpuid_entry2 {
            function,
            index,
            eax: u32::MAX,
            ebx: u32::MAX,
            ecx: 0,
            edx: u32::MAX,
            ..Default::default()
        }
    }

    fn numbered(function: u32, index: u32, cpu: u8, cpus: u8) -> kvm_cpuid_entry2 {
        let supported = CpuId::from_entries(&[leaf(function, index)]).expect("one leaf");
        of_cpu(&supported, cpu, cpus, true).as_slice()[0]
    }

    #[test]
    fn each_cpu_has_its_number() {
        let first = numbered(1, 0, 3, 4);
        assert_eq!((first.ebx, first.ecx), (0x0304_ffff, X2APIC | TSC_DEADLINE | HYPERVISOR));
        assert_ne!(first.edx & SEVERAL, 0);
        assert_eq!(numbered(0xb, 0, 3, 4).edx, 3);
        assert_eq!(numbered(0x8000_001e, 0, 3, 4).eax, 3);
    }

    #[test]
    fn one_cpu_is_alone() {
        assert_eq!(numbered(1, 0, 0, 1).edx & SEVERAL, 0);
        assert_eq!(numbered(0x8000_0008, 0, 0, 1).ecx, 0);
        let cores = numbered(0xb, 1, 0, 1);
        assert_eq!((cores.eax, cores.ebx, cores.ecx), (0, 1, 0x201));
    }

    #[test]
    fn numbers_take_as_many_bits_as_they_need() {
        let shifts = [1, 2, 3, 4, 5, 8, 16].map(|cpus| numbered(0xb, 1, 0, cpus).eax);
        assert_eq!(shifts, [0, 1, 2, 2, 3, 3, 4]);
    }
}
