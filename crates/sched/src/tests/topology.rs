//! Topology of the host's CPUs, as its kernel reports it.

use std::fs;
use std::path::Path;

use crate::{Topology, sched_facts};

fn write(root: &Path, name: &str, text: &str) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(path, format!("{text}\n")).expect("a file");
}

#[test]
fn two_nodes_of_two_cores_with_two_threads() {
    let root = tempfile::tempdir().expect("a folder");
    write(root.path(), "cpu/online", "0-6");
    write(root.path(), "cpu/isolated", "3");
    write(root.path(), "node/online", "0-1");
    write(root.path(), "node/node0/cpulist", "0-1,4-5");
    write(root.path(), "node/node1/cpulist", "2-3,6");
    for cpu in 0..7 {
        let (core, cache) = (cpu % 4, if cpu % 4 < 2 { "0-1,4-5" } else { "2-3,6" });
        let siblings = if core == 3 { "3".to_owned() } else { format!("{core},{}", core + 4) };
        write(root.path(), &format!("cpu/cpu{cpu}/topology/thread_siblings_list"), &siblings);
        write(root.path(), &format!("cpu/cpu{cpu}/cache/index0/level"), "1");
        write(root.path(), &format!("cpu/cpu{cpu}/cache/index0/shared_cpu_list"), &siblings);
        write(root.path(), &format!("cpu/cpu{cpu}/cache/index1/level"), "3");
        write(root.path(), &format!("cpu/cpu{cpu}/cache/index1/shared_cpu_list"), cache);
    }
    let topology = Topology::read_from(root.path());
    let told: Vec<_> =
        topology.cpus.iter().map(|cpu| (cpu.number, cpu.core, cpu.cache, cpu.node, cpu.isolated)).collect();
    assert_eq!(
        told,
        [
            (0, 0, 0, 0, false),
            (1, 1, 0, 0, false),
            (2, 2, 2, 1, false),
            (3, 3, 2, 1, true),
            (4, 0, 0, 0, false),
            (5, 1, 0, 0, false),
            (6, 2, 2, 1, false),
        ]
    );
    assert_eq!(topology.allowed, (0..7).collect());
}

#[test]
fn a_host_that_tells_of_its_cpus_only() {
    let root = tempfile::tempdir().expect("a folder");
    write(root.path(), "cpu/online", "0,2");
    let topology = Topology::read_from(root.path());
    let told: Vec<_> = topology.cpus.iter().map(|cpu| (cpu.number, cpu.core, cpu.cache, cpu.node)).collect();
    assert_eq!(told, [(0, 0, 0, 0), (2, 2, 2, 0)]);
}

#[test]
fn cpus_that_no_mask_has_are_left_out() {
    let root = tempfile::tempdir().expect("a folder");
    write(root.path(), "cpu/online", "0-1,1022-1025");
    write(root.path(), "cpu/isolated", "1,1024");
    write(root.path(), "node/online", "0-1");
    write(root.path(), "node/node0/cpulist", "0-1");
    write(root.path(), "node/node1/cpulist", "1022-1025");
    let topology = Topology::read_from(root.path());
    let told: Vec<_> = topology.cpus.iter().map(|cpu| (cpu.number, cpu.node, cpu.isolated)).collect();
    assert_eq!(told, [(0, 0, false), (1, 0, true), (1022, 1, false), (1023, 1, false)]);
    assert_eq!(topology.allowed, [0, 1, 1022, 1023].into());
}

#[test]
fn what_others_do_on_each_cpu() {
    let before =
        "cpu  9 0 0 9 0 0 0 0 0 0\ncpu0 100 0 50 800 50 0 0 0 0 0\ncpu1 7 7 7 7 7 7 7 7 7 7\nintr 5\n";
    let after = "cpu  9 0 0 9 0 0 0 0 0 0\ncpu0 110 5 60 860 60 1 2 2 10 0\ncpu1 7 7 7 7 7 7 7 7 7 7\nintr 5\ncpu2 1 1 1 1 1\n";
    let busy = sched_facts::busy(before, after);
    assert_eq!(
        busy.keys().collect::<Vec<_>>(),
        [&0],
        "nothing is known of a CPU whose clock stood still, nor of a new one"
    );
    // 10 + 5 + 10 of work, 60 + 10 idle, 1 + 2 + 2 of interrupts and stolen time.
    assert!((busy[&0] - 0.3).abs() < 1e-9, "{busy:?}");
    assert!(sched_facts::busy("", "cpu0 x\ncpux 1 2 3 4 5\ncpu0\n").is_empty());
}
