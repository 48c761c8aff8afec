use super::*;
use crate::vm::open_kvm;

/// Name, function, index, register (0 to 3: EAX to EDX) and bit, as Intel's and AMD's manuals number them.
type Feature = (&'static str, u32, u32, usize, u32);

const GONE: [Feature; 24] = [
    ("DTES64", 1, 0, 2, 2),
    ("MONITOR", 1, 0, 2, 3),
    ("VMX", 1, 0, 2, 5),
    ("SMX", 1, 0, 2, 6),
    ("PDCM", 1, 0, 2, 15),
    ("DS", 1, 0, 3, 21),
    ("SGX", 7, 0, 1, 2),
    ("PQM", 7, 0, 1, 12),
    ("PT", 7, 0, 1, 25),
    ("WAITPKG", 7, 0, 2, 5),
    ("SGX_LC", 7, 0, 2, 30),
    ("PCONFIG", 7, 0, 3, 18),
    ("ARCH_LBR", 7, 0, 3, 19),
    ("ArchPerfmonExt", 7, 1, 0, 8),
    ("APERFMPERF", 6, 0, 2, 0),
    ("SVM", 0x8000_0001, 0, 2, 2),
    ("IBS", 0x8000_0001, 0, 2, 10),
    ("SKINIT", 0x8000_0001, 0, 2, 12),
    ("PerfCtrExtCore", 0x8000_0001, 0, 2, 23),
    ("MONITORX", 0x8000_0001, 0, 2, 29),
    ("nested paging", 0x8000_000a, 0, 3, 0),
    ("SME", 0x8000_001f, 0, 0, 0),
    ("SEV", 0x8000_001f, 0, 0, 1),
    ("PerfMonV2", 0x8000_0022, 0, 0, 0),
];

const KEPT: [Feature; 16] = [
    ("SSE3", 1, 0, 2, 0),
    ("PCLMULQDQ", 1, 0, 2, 1),
    ("PCID", 1, 0, 2, 17),
    ("x2APIC", 1, 0, 2, 21),
    ("TSC-Deadline", 1, 0, 2, 24),
    ("XSAVE", 1, 0, 2, 26),
    ("hypervisor", 1, 0, 2, 31),
    ("MTRR", 1, 0, 3, 12),
    ("SSE2", 1, 0, 3, 26),
    ("ARAT", 6, 0, 0, 2),
    ("AVX2", 7, 0, 1, 5),
    ("IBRS and IBPB", 7, 0, 3, 26),
    ("AVX-VNNI", 7, 1, 0, 4),
    ("long mode", 0x8000_0001, 0, 3, 29),
    ("TopologyExtensions", 0x8000_0001, 0, 2, 22),
    ("invariant TSC", 0x8000_0007, 0, 3, 8),
];

/// Leaves that are hidden completely.
const EMPTY: [u32; 14] = [
    0x5,
    0xa,
    0xf,
    0x10,
    0x12,
    0x14,
    0x1b,
    0x1c,
    0x21,
    0x23,
    0x8000_000a,
    0x8000_001b,
    0x8000_001f,
    0x8000_0022,
];

fn leaf(function: u32, index: u32, octet: u32) -> kvm_cpuid_entry2 {
    let (eax, ebx, ecx, edx) = (octet, octet, octet, octet);
    kvm_cpuid_entry2 { function, index, eax, ebx, ecx, edx, ..Default::default() }
}

/// A host with all features, as a guest sees it.
fn of_a_host_that_can_all() -> Vec<kvm_cpuid_entry2> {
    let functions = (0..=0x24).chain(0x4000_0000..=0x4000_0001).chain(0x8000_0000..=0x8000_0026);
    let mut leaves: Vec<_> =
        functions.flat_map(|function| (0..4).map(move |index| leaf(function, index, u32::MAX))).collect();
    leaves.iter_mut().for_each(hide);
    leaves
}

fn registers(leaf: &kvm_cpuid_entry2) -> Bits {
    [leaf.eax, leaf.ebx, leaf.ecx, leaf.edx]
}

fn has(leaves: &[kvm_cpuid_entry2], (_, function, index, register, bit): Feature) -> bool {
    let leaf = leaves.iter().find(|leaf| (leaf.function, leaf.index) == (function, index));
    leaf.is_some_and(|leaf| registers(leaf)[register] & 1 << bit != 0)
}

#[test]
fn a_host_that_can_all_shows_what_is_for_guests() {
    let leaves = of_a_host_that_can_all();
    let shown: Vec<_> = GONE.iter().filter(|feature| has(&leaves, **feature)).collect();
    assert!(shown.is_empty(), "{shown:?}");
    let lost: Vec<_> = KEPT.iter().filter(|feature| !has(&leaves, **feature)).collect();
    assert!(lost.is_empty(), "{lost:?}");
    for leaf in leaves.iter().filter(|leaf| EMPTY.contains(&leaf.function)) {
        assert_eq!(registers(leaf), [0; 4], "leaf {:#x}", leaf.function);
    }
    for leaf in leaves.iter().filter(|leaf| leaf.function >> 16 == 0x4000) {
        assert_eq!(registers(leaf), ALL, "KVM's own leaves");
    }
}

#[test]
fn what_a_host_cannot_do_is_not_made_up() {
    for function in [1, 6, 7, 0xa, 0x8000_0001, 0x8000_000a] {
        let mut nothing = leaf(function, 0, 0);
        hide(&mut nothing);
        assert_eq!(registers(&nothing), [0; 4]);
    }
}

#[test]
fn this_host_s_guests_see_no_more_and_kvm_takes_it() {
    let Ok(kvm) = open_kvm() else {
        println!("SKIPPED: cannot open /dev/kvm");
        return;
    };
    let supported = kvm.get_supported_cpuid(KVM_MAX_CPUID_ENTRIES).expect("KVM says");
    let leaves = of_guests(&kvm).expect("KVM says");
    let places = |leaves: &CpuId| -> Vec<_> {
        leaves.as_slice().iter().map(|leaf| (leaf.function, leaf.index)).collect()
    };
    assert_eq!(places(&supported), places(&leaves), "leaves are changed, and none goes");
    let vcpu = kvm.create_vm().and_then(|vm| vm.create_vcpu(0)).expect("a vCPU");
    vcpu.set_cpuid2(&leaves).expect("KVM takes them");
    let taken = vcpu.get_cpuid2(KVM_MAX_CPUID_ENTRIES).expect("KVM says");
    let shown: Vec<_> = GONE.iter().filter(|feature| has(taken.as_slice(), **feature)).collect();
    assert!(shown.is_empty(), "{shown:?}");
    let could: Vec<_> = GONE.iter().filter(|feature| has(supported.as_slice(), **feature)).collect();
    println!("hidden here: {could:?}");
    let kept = |leaves: &CpuId| KEPT.map(|feature| has(leaves.as_slice(), feature));
    assert_eq!(kept(&leaves), kept(&supported));
}
