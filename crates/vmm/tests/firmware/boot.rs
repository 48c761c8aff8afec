//! The firmware comes up, sleeps, is woken by an interrupt, and stops when told: in ring 3 of a guest, and in
//! a process.

use std::sync::atomic::Ordering::Acquire;
use std::thread;
use std::time::{Duration, Instant};

use bootinfo::BootInfo;
use nic_port::irq::Line;
use vmm::Stopped;

use crate::machines::{each, orders, wait_for};

#[test]
fn firmware_boots_sleeps_wakes_and_stops() {
    for running in each(&orders(1)) {
        running.wait_until_ready();
        let machine = running.machine.clone();
        let sleeps = || machine.shared().vcpus[0].router.sleeps.get();
        wait_for("the vCPU to sleep", || sleeps() > 0);
        let line = machine.irqs().line().expect("a line");
        let message = vmm::Message { address: 0xfee0_0000, data: u32::from(vmm::INTERRUPT_VECTOR) };
        machine.irqs().route(&line, Some(message)).expect("a route");
        for _ in 0..100 {
            let slept = sleeps();
            line.signal();
            wait_for("the vCPU to wake and sleep again", || sleeps() > slept);
        }
        assert_eq!(running.stop(), [Stopped::Asked]);
    }
}

#[test]
fn several_vcpus_come_up_answer_and_stop() {
    for running in each(&orders(4)) {
        running.wait_until_ready();
        let shared = running.machine.shared();
        running.machine.challenge(7);
        wait_for("signs of life", || shared.vcpus[..4].iter().all(|vcpu| vcpu.answer.0.load(Acquire) == 7));
        assert_eq!(shared.vcpus[4].state.0.load(Acquire), 0, "there is no fifth");
        assert!(running.stop().iter().all(|end| *end == Stopped::Asked));
    }
}

#[test]
fn a_sign_of_life_that_is_asked_for_right_before_a_vcpu_sleeps_is_given() {
    // The vCPU polls this many times after each answer before it sleeps, and does not check the host's words
    // meanwhile.
    let info = BootInfo { spin: 200, ..orders(1) };
    for running in each(&info) {
        running.wait_until_ready();
        let answer = &running.machine.shared().vcpus[0].answer.0;
        for number in 1..=10_000 {
            running.machine.challenge(number);
            let begun = Instant::now();
            while answer.load(Acquire) != number {
                assert!(begun.elapsed() < Duration::from_secs(60), "no answer to challenge {number}");
                thread::yield_now();
            }
        }
        assert_eq!(running.stop(), [Stopped::Asked]);
    }
}
