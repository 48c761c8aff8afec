//! The firmware comes up in ring 3, sleeps in the halt stub, is woken by an interrupt, and stops when told.

use std::sync::atomic::Ordering::Acquire;
use std::thread;
use std::time::{Duration, Instant};

use bootinfo::{BootInfo, MAX_NEIGHBOURS, MAX_NICS, NeighbourInfo, NicInfo, TrafficInfo};
use vmm::{Stopped, Vm, VmConfig};

fn orders() -> BootInfo {
    BootInfo {
        magic: 0,
        role: 3,
        vcpus: 1,
        nic_count: 0,
        neighbour_count: 0,
        tsc_khz: 2_000_000,
        ram: 0,
        fib: 0,
        spin: 100,
        ring_size: 256,
        traffic: TrafficInfo::default(),
        nics: [NicInfo::default(); MAX_NICS],
        neighbours: [NeighbourInfo::default(); MAX_NEIGHBOURS],
    }
}

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(5), "waited in vain for {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn firmware_boots_sleeps_wakes_and_stops() {
    if let Err(error) = vmm::open_kvm() {
        println!("SKIPPED: {error}");
        return;
    }
    let vm = Vm::new(VmConfig { name: "boot".into(), ram: 16 << 20, fib: None, info: orders() }).unwrap();
    let runner = vm.clone();
    let thread = thread::spawn(move || runner.vcpu(0).unwrap().run());
    wait_for("the firmware to serve", || {
        thread.is_finished() || vm.shared().vcpus[0].state.0.load(Acquire) == 1
    });
    if !thread.is_finished() {
        wait_for("the vCPU to sleep", || vm.shared().vcpus[0].router.sleeps.get() > 0);
        let line = vm.irqs().line().unwrap();
        let message = vmm::Message { address: 0xfee0_0000, data: u32::from(vmm::INTERRUPT_VECTOR) };
        vm.irqs().route(&line, Some(message)).unwrap();
        let slept = vm.shared().vcpus[0].router.sleeps.get();
        for round in 1..=100 {
            line.signal();
            wait_for("the vCPU to wake and sleep again", || {
                vm.shared().vcpus[0].router.sleeps.get() >= slept + round
            });
        }
        vm.stop();
        line.signal();
    }
    wait_for("x", || thread.is_finished() || vm.shared().vcpus[0].router.polls.get() > 0);
    thread::sleep(Duration::from_millis(100));
    println!("{:?} {:?}", vm.shared().vcpus[0].router, vm.exits());
    if thread.is_finished() {
        assert_eq!(thread.join().unwrap(), Stopped::Asked);
    }
}
