use std::time::{Duration, UNIX_EPOCH};

use super::{Host, hypervisor, memory_mib, utc};

#[test]
fn known_dates() {
    let at = |seconds| utc(UNIX_EPOCH + Duration::from_secs(seconds));
    assert_eq!(at(0), "1970-01-01T00:00:00Z");
    assert_eq!(at(951_782_399), "2000-02-28T23:59:59Z");
    assert_eq!(at(951_782_400), "2000-02-29T00:00:00Z");
    assert_eq!(at(1_709_251_200), "2024-03-01T00:00:00Z");
    assert_eq!(at(1_735_689_599), "2024-12-31T23:59:59Z");
    assert_eq!(at(4_107_542_400), "2100-03-01T00:00:00Z");
}

#[test]
fn memory_is_told_in_mib_and_no_hypervisor_where_there_is_none() {
    assert_eq!(hypervisor("model name\t: AMD EPYC\nflags\t\t: fpu sse2\n"), "none");
    assert_eq!(memory_mib("MemTotal:       24689544 kB\n"), 24_110);
    assert_eq!(memory_mib("MemTotal: much\n"), 0);
}

#[test]
fn this_machine_can_be_described() {
    let host = Host::describe();
    assert!(host.cores >= 1);
    assert!(host.memory_mib > 0);
    assert!(!host.kernel.is_empty());
    assert!(host.date.ends_with('Z'));
}
