//! CPUID of guests: the features that KVM supports, without those that concern only the host.
//!
//! KVM reports what it could offer, not what is wise to offer. Nested virtualisation, performance counters,
//! tracing, enclaves, memory encryption, and MONITOR/WAITPKG are parts of KVM and of the CPU that a router
//! does not need, and that escapes from virtual machines go through. The rest is about what Firecracker's and
//! cloud-hypervisor's guests see.

use anyhow::{Context, Result};
use kvm_bindings::{CpuId, KVM_MAX_CPUID_ENTRIES, kvm_cpuid_entry2};
use kvm_ioctls::Kvm;

/// Bits of EAX, EBX, ECX and EDX.
type Bits = [u32; 4];

const ALL: Bits = [u32::MAX; 4];
const NONE: u32 = 0;
/// The one bit of leaf 6 that concerns guests: their timers do not stop when the CPU sleeps.
const ARAT: u32 = 1 << 2;

/// DTES64, MONITOR, DS-CPL, VMX, SMX, EIST, TM2, SDBG, xTPR, PDCM, DCA.
const FEATURES_ECX: u32 = bits(&[2, 3, 4, 5, 6, 7, 8, 11, 14, 15, 18]);
/// DS, ACPI, TM, PBE.
const FEATURES_EDX: u32 = bits(&[21, 22, 29, 31]);
/// SGX, RDT's monitoring and allocation, PT.
const EXTENDED_EBX: u32 = bits(&[2, 12, 15, 25]);
/// WAITPKG, TME, SGX_LC.
const EXTENDED_ECX: u32 = bits(&[5, 13, 30]);
/// SGX-KEYS, PCONFIG, LBR.
const EXTENDED_EDX: u32 = bits(&[1, 18, 19]);
/// ArchPerfmonExt.
const EXTENDED_1_EAX: u32 = bits(&[8]);
/// SVM, IBS, SKINIT, WDT, LWP, PerfCtrExtCore, PerfCtrExtNB, PerfTsc, PerfCtrExtLLC, MONITORX.
const AMD_ECX: u32 = bits(&[2, 10, 12, 13, 15, 23, 24, 27, 28, 29]);

/// Hidden features: function, index if only that one is meant, bits.
const HIDDEN: [(u32, Option<u32>, Bits); 21] = [
    (0x1, None, [NONE, NONE, FEATURES_ECX, FEATURES_EDX]),
    // MONITOR.
    (0x5, None, ALL),
    // Temperature and power.
    (0x6, None, [!ARAT, u32::MAX, u32::MAX, u32::MAX]),
    (0x7, Some(0), [NONE, EXTENDED_EBX, EXTENDED_ECX, EXTENDED_EDX]),
    (0x7, Some(1), [EXTENDED_1_EAX, NONE, NONE, NONE]),
    // Performance counters.
    (0xa, None, ALL),
    // RDT.
    (0xf, None, ALL),
    (0x10, None, ALL),
    // SGX.
    (0x12, None, ALL),
    // PT.
    (0x14, None, ALL),
    // PCONFIG.
    (0x1b, None, ALL),
    // LBR.
    (0x1c, None, ALL),
    // TDX.
    (0x21, None, ALL),
    // Performance counters, again.
    (0x23, None, ALL),
    (0x8000_0001, None, [NONE, NONE, AMD_ECX, NONE]),
    // SVM.
    (0x8000_000a, None, ALL),
    // IBS.
    (0x8000_001b, None, ALL),
    // SME, SEV.
    (0x8000_001f, None, ALL),
    // AMD's RDT.
    (0x8000_0020, None, ALL),
    // AMD's performance counters.
    (0x8000_0022, None, ALL),
    // Keys of memory encryption.
    (0x8000_0023, None, ALL),
];

const fn bits(numbers: &[u32]) -> u32 {
    let (mut all, mut n) = (0, 0);
    while n < numbers.len() {
        all |= 1 << numbers[n];
        n += 1;
    }
    all
}

/// Returns the CPUID of a guest on this host.
///
/// # Errors
/// KVM does not report its features.
pub(crate) fn of_guests(kvm: &Kvm) -> Result<CpuId> {
    let mut leaves = kvm.get_supported_cpuid(KVM_MAX_CPUID_ENTRIES).context("KVM_GET_SUPPORTED_CPUID")?;
    leaves.as_mut_slice().iter_mut().for_each(hide);
    Ok(leaves)
}

/// Clears the hidden bits of one leaf.
fn hide(leaf: &mut kvm_cpuid_entry2) {
    let concerns = |(function, index): (u32, Option<u32>)| {
        leaf.function == function && index.is_none_or(|index| leaf.index == index)
    };
    let hidden = HIDDEN.iter().filter(|(function, index, _)| concerns((*function, *index)));
    let [eax, ebx, ecx, edx] =
        hidden.fold([0; 4], |all: Bits, (.., bits)| std::array::from_fn(|n| all[n] | bits[n]));
    leaf.eax &= !eax;
    leaf.ebx &= !ebx;
    leaf.ecx &= !ecx;
    leaf.edx &= !edx;
}

#[cfg(test)]
mod tests;
