//! The firmware comes up, sleeps, is woken by an interrupt, and stops when told: in ring 3 of a guest, and in a
//! process.

use std::sync::atomic::Ordering::Acquire;

use nic_port::irq::Line;
use vmm::Stopped;

use crate::ground::{each, orders, wait_for};

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
