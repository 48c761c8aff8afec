use std::sync::atomic::Ordering;

use bootinfo::{BootInfo, Role};
use vmm::VmConfig;

use super::*;

/// A guest that does not run; none, and a line that says so, where there is no KVM.
fn guest() -> Option<Arc<Vm>> {
    if let Err(error) = vmm::open_kvm() {
        println!("SKIPPED: {error}");
        return None;
    }
    let info = BootInfo { spin: 100, ring_size: 256, ..BootInfo::new(Role::Router, 2) };
    let config = VmConfig { name: "clock-tests".to_owned(), ram: 16 << 20, fib: None, info };
    Some(Vm::new(config).expect("a guest"))
}

fn mailbox(vm: &Vm, vcpu: usize) -> u32 {
    vm.shared().mailbox[vcpu].0.load(Ordering::Acquire)
}

fn timed(vm: &Arc<Vm>) -> Timed {
    Timed { vms: vec![vm.clone()], ..Timed::default() }
}

#[test]
fn an_alarm_wakes_its_vcpu_once_when_its_time_has_passed() {
    let Some(vm) = guest() else { return };
    let timed = timed(&vm);
    let alarm = &vm.shared().vcpus[1].alarm.0;
    alarm.store(250, Ordering::Release);
    let mut passed = Duration::ZERO;
    let mut tick = |ms| {
        let since = Duration::from_millis(ms);
        passed += since;
        timed.tick(passed, since);
        (alarm.load(Ordering::Acquire), mailbox(&vm, 0), mailbox(&vm, 1))
    };
    assert_eq!(tick(100), (150, 0, 0));
    assert_eq!(tick(149), (1, 0, 0));
    assert_eq!(tick(100), (0, 0, 1), "late rather than never, and not below 0");
    assert_eq!(tick(100), (0, 0, 1), "no alarm is set any more");
}

#[test]
fn the_thread_ticks_by_itself_and_ends_at_once() {
    let Some(vm) = guest() else { return };
    vm.shared().vcpus[0].alarm.0.store(1, Ordering::Release);
    let clock = Clock::start(timed(&vm), Confinement::Off).expect("a thread");
    assert_eq!(clock.thread().name(), "ringroad/clock");
    let start = Instant::now();
    while mailbox(&vm, 0) == 0 {
        assert!(start.elapsed() < Duration::from_secs(10), "the alarm never came");
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(clock);
    assert_eq!(Arc::strong_count(&vm), 1, "the thread has let go of the guest");
}
