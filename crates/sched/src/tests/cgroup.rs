//! Where control groups are found.

use crate::cgroup::{Version, locate};

const OWN: &str = "9:name=systemd:/\n3:cpuset:/set\n2:cpu,cpuacct:/box/one\n0::/unit.service\n";
const MOUNTS: &str = "\
    25 20 0:22 / /sys rw - sysfs sysfs rw\n\
    30 25 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
    31 25 0:28 /box /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
    32 25 0:29 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n";

#[test]
fn version_1_is_found_by_its_controller() {
    let cpu = locate(MOUNTS, OWN, "cpu").expect("there is one");
    assert_eq!(cpu.version, Version::V1);
    assert_eq!(cpu.base.to_str(), Some("/sys/fs/cgroup/cpu/one"));
    assert_eq!(cpu.home, cpu.base);
}

#[test]
fn exclusive_cpusets_are_made_in_the_root() {
    let cpuset = locate(MOUNTS, OWN, "cpuset").expect("there is one");
    assert_eq!(cpuset.base.to_str(), Some("/sys/fs/cgroup/cpuset"));
    assert_eq!(cpuset.home.to_str(), Some("/sys/fs/cgroup/cpuset/set"));
}

#[test]
fn version_2_is_for_what_version_1_has_not() {
    let memory = locate(MOUNTS, OWN, "memory").expect("there may be one");
    assert_eq!(memory.version, Version::V2);
    assert_eq!(memory.base.to_str(), Some("/sys/fs/cgroup/unified/unit.service"));
    assert_eq!(locate("", OWN, "cpu"), None);
    assert_eq!(locate(MOUNTS, "", "cpu"), None);
    assert_eq!(locate("- \n - \n1 - 2\n", OWN, "cpu"), None);
}
