//! Objective: a run in a control group (cgroup v2) is charged for all that it does there, vCPUs included, is throttled by
//! `cpu.max`, and continues to forward.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use support::{Stage, descendants_of, transfer};

/// Timeout of every step, generous for software emulation on a busy host.
const PATIENCE: Duration = Duration::from_secs(120);
const ROOT: &str = "/sys/fs/cgroup";
/// Length of a period in microseconds, and the quota of the group.
const PERIOD: u64 = 100_000;
const QUOTA: u64 = 20_000;
/// Number of throttled periods that counts as proof.
const THROTTLED: u64 = 10;

const FILE: &str = "[[router]]\nname = \"cg\"\nengine = \"kvm\"\n\
                    [[router.nic]]\nname = \"left\"\nattach = \"tap:cg-l\"\naddress = \"192.0.2.1/24\"\n\
                    [[router.nic]]\nname = \"right\"\nattach = \"tap:cg-r\"\naddress = \"198.51.100.1/24\"\n";

/// Control group, removed when dropped.
struct Group(PathBuf);

impl Group {
    fn add(name: &str) -> Self {
        fs::write(Path::new(ROOT).join("cgroup.subtree_control"), "+cpu").expect("the controller cpu");
        let path = Path::new(ROOT).join(name);
        fs::create_dir(&path).expect("a group");
        Self(path)
    }

    fn set(&self, key: &str, value: &str) {
        fs::write(self.0.join(key), value).unwrap_or_else(|error| panic!("{key} = {value}: {error}"));
    }

    /// Reads a line of `cpu.stat`.
    fn stat(&self, key: &str) -> u64 {
        let text = fs::read_to_string(self.0.join("cpu.stat")).expect("cpu.stat");
        let value = text.lines().find_map(|line| line.strip_prefix(key)?.trim().parse().ok());
        value.unwrap_or_else(|| panic!("no {key} in {text}"))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn a_run_is_charged_and_throttled_and_goes_on_to_forward() {
    support::needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
    if !inbox::inside() {
        println!("SKIPPED: not in the box, whose control groups are nobody else's");
        return;
    }
    let group = Group::add("cg");
    let mut stage = Stage::start(&inbox::ringroad(), FILE).expect("it starts");
    let left = stage.host("cg-l", "192.0.2.2/24", "192.0.2.1").expect("left");
    let right = stage.host("cg-r", "198.51.100.2/24", "198.51.100.1").expect("right");
    inbox::ping(&left);
    assert_eq!(group.stat("usage_usec"), 0);

    let first = stage.run().id();
    let all: Vec<u32> =
        std::iter::once(first).chain(descendants_of(first).iter().map(|found| found.id)).collect();
    assert!(all.len() > 1, "a supervisor and a data plane: {all:?}");
    all.iter().for_each(|id| group.set("cgroup.procs", &id.to_string()));
    group.set("cpu.weight", "50");
    group.set("cpu.max", &format!("{QUOTA} {PERIOD}"));

    let end = Instant::now() + PATIENCE;
    let mut port = 7000;
    while group.stat("nr_throttled") < THROTTLED {
        assert!(Instant::now() < end, "only {} periods in which it was held", group.stat("nr_throttled"));
        port += 1;
        let to = format!("198.51.100.2:{port}").parse().expect("an address");
        transfer(&left, &right, to, 500_000, PATIENCE);
    }
    let (used, periods) = (group.stat("usage_usec"), group.stat("nr_periods"));
    assert!(group.stat("throttled_usec") > 0);
    assert!(used >= THROTTLED * QUOTA / 2, "{used} us in {periods} periods: somebody else pays for its vCPU");
    // With two CPUs and coarse ticks, a group exceeds its quota by what the ticks miss, and makes up for it later.
    assert!(used <= (periods + 5) * QUOTA * 2, "{used} us in {periods} periods of {QUOTA} us each");

    group.set("cpu.max", "max");
    inbox::ping(&left);
    let counters = stage.finish(vec![left, right]).expect("it has told of no trouble, and nothing is left");
    let faults = counters.faults("cg");
    assert!(faults.is_empty(), "{faults:?}");
}
