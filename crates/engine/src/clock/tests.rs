use std::sync::atomic::Ordering;

use bootinfo::{BootInfo, Role};
use vmm::{MachineConfig, Process};

use super::*;

/// A machine without running vCPUs.
fn machine() -> Arc<Machine> {
    let info = BootInfo { spin: 100, ring_size: 256, ..BootInfo::new(Role::Router, 2) };
    let config =
        MachineConfig { name: "clock-tests".to_owned(), ram: 16 << 20, fib: None, group: None, info };
    Process::new(config).expect("a machine").machine().clone()
}

fn mailbox(machine: &Machine, vcpu: usize) -> u32 {
    machine.shared().mailbox[vcpu].0.load(Ordering::Acquire)
}

fn timed(machine: &Arc<Machine>) -> Timed {
    Timed { machines: vec![Arc::downgrade(machine)], ..Timed::default() }
}

#[test]
fn an_alarm_wakes_its_vcpu_once_when_its_time_has_passed() {
    let machine = machine();
    let timed = timed(&machine);
    let alarm = &machine.shared().vcpus[1].alarm.0;
    alarm.store(250, Ordering::Release);
    let mut passed = Duration::ZERO;
    let mut tick = |ms| {
        let since = Duration::from_millis(ms);
        passed += since;
        timed.tick(passed, since);
        (alarm.load(Ordering::Acquire), mailbox(&machine, 0), mailbox(&machine, 1))
    };
    assert_eq!(tick(100), (150, 0, 0));
    assert_eq!(tick(149), (1, 0, 0));
    assert_eq!(tick(100), (0, 0, 1), "late rather than never, and not below 0");
    assert_eq!(tick(100), (0, 0, 1), "no alarm is set any more");
}

#[test]
fn the_thread_ticks_by_itself_and_ends_at_once() {
    let machine = machine();
    machine.shared().vcpus[0].alarm.0.store(1, Ordering::Release);
    let clock = Clock::start(timed(&machine), Confinement::Off).expect("a thread");
    assert_eq!(clock.thread().name(), "ringroad/clock");
    let start = Instant::now();
    while mailbox(&machine, 0) == 0 {
        assert!(start.elapsed() < Duration::from_secs(60), "the alarm never came");
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(clock);
    assert_eq!(Arc::strong_count(&machine), 1, "the thread has let go of the machine");
}
