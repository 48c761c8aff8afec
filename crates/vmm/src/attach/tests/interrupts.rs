//! Interrupts of an e1000, in a machine whose pins are mailboxes.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bootinfo::TransmitMode;
use nic::e1000::{cause, register as r};
use ring::BURST;

use super::{Bench, frames};

fn mailbox(bench: &Bench) -> u32 {
    bench.machine.shared().mailbox[0].0.load(Ordering::Acquire)
}

fn deliver(bench: &Bench, count: u32) {
    let mut octets = frames(count);
    let shown: Vec<_> =
        octets.iter_mut().map(|octets| port::Frame::new(ring::Bytes::from_slice(octets))).collect();
    assert_eq!(bench.sink.deliver(&shown), count as usize);
}

#[test]
fn an_interrupt_is_raised_once_until_its_causes_are_read() {
    let bench = Bench::new(TransmitMode::Async, false);
    let registers = &bench.driver.registers;
    registers.read(r::ICR);
    deliver(&bench, 1);
    assert_eq!(mailbox(&bench), 0, "all is masked");
    registers.write(r::IMS, cause::RXT0);
    assert_eq!(mailbox(&bench), 1, "what waited");
    deliver(&bench, 3);
    assert_eq!(mailbox(&bench), 1, "the line is up");
    assert_eq!(registers.read(r::ICR) & cause::RXT0, cause::RXT0);
    deliver(&bench, 1);
    assert_eq!(mailbox(&bench), 2);
    registers.write(r::IMC, u32::MAX);
    deliver(&bench, 1);
    assert_eq!(mailbox(&bench), 2);
    let counts = bench.queues.interrupts();
    assert_eq!((counts.raised.get(), counts.moderated.get()), (2, 0));
    assert!(counts.suppressed.get() >= 2);
}

#[test]
fn what_was_sent_interrupts_too() {
    let mut bench = Bench::new(TransmitMode::Async, false);
    bench.driver.registers.read(r::ICR);
    bench.driver.registers.write(r::IMS, cause::TXDW);
    assert_eq!(bench.driver.send(&frames(2)), 2);
    assert_eq!(mailbox(&bench), 0);
    assert_eq!(bench.source.drain(BURST, &mut |_| {}), 2);
    assert_eq!(mailbox(&bench), 1);
}

#[test]
fn a_driver_that_polls_its_block_is_not_interrupted() {
    let mut bench = Bench::new(TransmitMode::Csb, false);
    bench.driver.registers.read(r::ICR);
    bench.driver.registers.write(r::IMS, u32::MAX);
    bench.driver.rx.disarm();
    bench.driver.tx.disarm();
    let before = mailbox(&bench);
    deliver(&bench, 5);
    assert_eq!(bench.driver.send(&frames(5)), 5);
    assert_eq!(bench.source.drain(BURST, &mut |_| {}), 5);
    assert_eq!(mailbox(&bench), before);
    assert_eq!(bench.driver.received().len(), 5);
    assert!(!bench.driver.rx.arm(), "nothing has come since");
    deliver(&bench, 1);
    assert_eq!(mailbox(&bench), before + 1);
}

#[test]
fn an_interrupt_that_comes_too_soon_waits_for_who_polls() {
    // 10 ms.
    let mut bench = moderated(40_000);
    let start = Instant::now();
    deliver(&bench, 1);
    assert_eq!(mailbox(&bench), 1, "the first one at once");
    bench.driver.registers.read(r::ICR);
    deliver(&bench, 1);
    let sent = mailbox(&bench);
    // If this thread had to wait for its CPU, the second one was not too soon.
    assert!(sent == 1 || start.elapsed() >= DISTANCE, "the second one too soon");
    while mailbox(&bench) == 1 {
        assert!(start.elapsed() < Duration::from_secs(60), "it never comes");
        bench.source.drain(BURST, &mut |_| {});
    }
    assert_eq!(bench.queues.interrupts().moderated.get(), u64::from(sent == 1));
}

#[test]
fn an_interrupt_that_comes_too_soon_rings_who_sleeps() {
    for armed_before in [true, false] {
        let mut bench = moderated(40_000);
        let start = Instant::now();
        deliver(&bench, 1);
        bench.driver.registers.read(r::ICR);
        if armed_before {
            assert!(!bench.source.arm());
        }
        deliver(&bench, 1);
        let sent = mailbox(&bench);
        assert!(sent == 1 || start.elapsed() >= DISTANCE, "the second one too soon");
        if !armed_before {
            assert!(!bench.source.arm());
        }
        assert!(mailbox(&bench) == 2 || rings(&bench, 5000), "armed before: {armed_before}");
        bench.source.disarm();
        bench.source.drain(BURST, &mut |_| {});
        assert_eq!(mailbox(&bench), 2);
        assert!(!bench.source.arm() && !rings(&bench, 0));
    }
}

/// 40,000 units of 250 ns.
const DISTANCE: Duration = Duration::from_millis(10);

/// A NIC whose driver requests this many units of 250 ns between two interrupts.
fn moderated(units: u32) -> Bench {
    let bench = Bench::new(TransmitMode::Base, false);
    let registers = &bench.driver.registers;
    registers.read(r::ICR);
    registers.write(r::ITR, units);
    registers.write(r::IMS, cause::RXT0);
    bench
}

fn rings(bench: &Bench, ms: i32) -> bool {
    use std::os::fd::AsRawFd as _;
    let port::Bell::Readable(bell) = bench.source.bell() else { panic!("a descriptor") };
    let mut bell = libc::pollfd { fd: bell.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry with an open descriptor.
    unsafe { libc::poll(&raw mut bell, 1, ms) == 1 }
}
