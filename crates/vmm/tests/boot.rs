//! The firmware comes up in ring 3, sleeps in the halt stub, is woken by an interrupt, and stops when told.

use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;
use std::thread;
use std::time::{Duration, Instant};

use bootinfo::{BootInfo, Role};
use libc::siginfo_t;
use vmm::{MachineConfig, Stopped, Vm};
use vmm_sys_util::signal::{Killable, SIGRTMIN, register_signal_handler};

fn orders() -> BootInfo {
    BootInfo { spin: 100, ring_size: 256, ..BootInfo::new(Role::Echo, 1) }
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
    let kvm = match vmm::open_kvm() {
        Ok(kvm) => kvm,
        Err(error) => return println!("SKIPPED: {error}"),
    };
    let config = MachineConfig { name: "boot".into(), ram: 16 << 20, fib: None, info: orders() };
    let vm = Arc::new(Vm::new(&kvm, config).unwrap());
    let machine = vm.machine().clone();
    register_signal_handler(SIGRTMIN(), nothing).unwrap();
    let runner = vm.clone();
    let thread = thread::spawn(move || runner.vcpu(0).unwrap().run());
    wait_for("the firmware to serve", || {
        thread.is_finished() || machine.shared().vcpus[0].state.0.load(Acquire) == 1
    });
    assert!(!thread.is_finished(), "{:?}", thread.join());
    wait_for("the vCPU to sleep", || machine.shared().vcpus[0].router.sleeps.get() > 0);
    let line = machine.irqs().line().unwrap();
    let message = vmm::Message { address: 0xfee0_0000, data: u32::from(vmm::INTERRUPT_VECTOR) };
    machine.irqs().route(&line, Some(message)).unwrap();
    for _ in 0..100 {
        let slept = machine.shared().vcpus[0].router.sleeps.get();
        line.signal();
        wait_for("the vCPU to wake and sleep again", || {
            machine.shared().vcpus[0].router.sleeps.get() > slept
        });
    }
    machine.stop();
    wait_for("the vCPU to stop", || {
        // Again and again: a signal that comes right before the vCPU enters the guest is lost.
        thread.is_finished() || thread.kill(SIGRTMIN()).is_err()
    });
    assert_eq!(thread.join().unwrap(), Stopped::Asked);
}

extern "C" fn nothing(_: c_int, _: *mut siginfo_t, _: *mut c_void) {}
