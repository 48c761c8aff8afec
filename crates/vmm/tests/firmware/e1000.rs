//! The firmware on an e1000, in each mode on each engine: frames pass in both directions, and each costs
//! exactly the register accesses that it should (seed paper 004, "Transmission throughput performance").

mod bench;
mod outside;
mod segments;
mod trouble;

use std::time::{Duration, Instant};

use bootinfo::{Role, TrafficInfo, TransmitMode};

use bench::{Accesses, Bench, Wish, benches};

/// Register accesses of one interrupt.
const INTERRUPT: Accesses =
    Accesses { icr_read: 1, imc_write: 1, status_read: 2, ims_write: 1, ..Accesses::NONE };

/// Register accesses of the device's initialisation: all causes are masked and cleared, both rings start at
/// 0, and the causes are unmasked.
const SET_UP: Accesses = Accesses {
    icr_read: 1,
    imc_write: 2,
    status_read: 1,
    ims_write: 1,
    tdt_write: 1,
    rdt_write: 1,
    other: 0,
};

/// Shortest time between two interrupts for sent frames, if they are delayed: the 500 units of TIDV that the firmware sets.
const SENT_DELAY: Duration = Duration::from_micros(512);

fn echo(mode: TransmitMode, vcpus: u32) -> Wish {
    Wish { role: Role::Echo, mode, vcpus, ..Wish::default() }
}

#[test]
fn each_frame_that_comes_back_costs_twelve_accesses() {
    for mode in [TransmitMode::Base, TransmitMode::Async, TransmitMode::SendCombining] {
        for mut bench in benches(&echo(mode, 1)) {
            for _ in 0..20 {
                let before = bench.accesses();
                bench.there_and_back(1);
                // RDT for the buffer, TDT for the answer, and the interrupts of both.
                let wanted = Accesses { tdt_write: 1, rdt_write: 1, ..INTERRUPT.times(2) };
                bench.assert_accesses(&before, &wanted);
            }
            bench.stop();
        }
    }
}

#[test]
fn with_a_block_a_frame_that_comes_back_costs_no_access_while_both_poll() {
    for mut bench in benches(&Wish { spin: u32::MAX, ..echo(TransmitMode::Csb, 1) }) {
        bench.there_and_back(1);
        let before = (bench.accesses(), bench.kicks());
        (0..10).for_each(|_| bench.there_and_back(100));
        bench.assert_accesses(&before.0, &Accesses::NONE);
        assert_eq!(bench.kicks(), before.1, "{}: the guest did not kick either", bench.name);
        bench.stop();
    }
}

#[test]
fn with_a_block_who_sleeps_is_woken() {
    for mut bench in benches(&echo(TransmitMode::Csb, 1)) {
        for _ in 0..50 {
            let before = bench.accesses();
            bench.there_and_back(1);
            let cost = bench.accesses_since(&before);
            // The interrupt is acknowledged, and nothing else is accessed.
            assert!((1..=3).contains(&cost.icr_read), "{}: {cost:?}", bench.name);
            assert_eq!(Accesses { icr_read: 0, ..cost }, Accesses::NONE, "{}", bench.name);
        }
        bench.stop();
    }
}

/// Echoes bursts of these sizes, and then this many single frames: each finds the guest at another moment of
/// its transition to sleep.
fn comes_back(mode: TransmitMode, vcpus: u32, bursts: &[u32], single: usize) {
    for mut bench in benches(&echo(mode, vcpus)) {
        bursts.iter().for_each(|burst| bench.there_and_back(*burst));
        (0..single).for_each(|_| bench.exchange(1));
        bench.stop();
    }
}

#[test]
fn nothing_is_lost_or_reordered_in_any_mode() {
    for mode in TransmitMode::ALL {
        comes_back(mode, 1, &[1, 65], 10);
    }
}

#[test]
fn a_frame_that_is_longer_than_a_buffer_is_lost_and_counted() {
    for mode in [TransmitMode::Csb, TransmitMode::Async] {
        for mut bench in benches(&Wish { mtu: 2000, ..echo(mode, 1) }) {
            // The device stores them in one, two and three buffers.
            [2040, 3000, 5000].into_iter().for_each(|octets| bench.lose(octets));
            bench.exchange(1);
            assert_eq!(bench.discarded(), 3, "{}", bench.name);
            bench.stop();
        }
    }
}

mod all {
    use super::*;

    #[test]
    fn nothing_is_lost_or_reordered_in_any_mode_with_any_burst() {
        for mode in TransmitMode::ALL {
            for vcpus in [1, 2] {
                comes_back(mode, vcpus, &[1, 2, 63, 64, 65, 200], 200);
            }
        }
    }
}

#[test]
fn a_frame_of_a_stock_source_costs_six_accesses() {
    for mut bench in benches(&Wish { role: Role::Source, mode: TransmitMode::Base, ..Wish::default() }) {
        bench.sent(200);
        let (frames, cost) = (bench.frames_sent(), bench.accesses());
        let wanted = |frames| Accesses { tdt_write: frames, ..INTERRUPT.times(frames) };
        // It may have been stopped before it announced the last frame, or within an interrupt.
        let more = wanted(1).zip(&INTERRUPT, |frame, interrupt| frame + interrupt);
        cost.less(&SET_UP).less_others().assert(&wanted(frames - 1), &more, &bench.name);
    }
}

#[test]
fn delayed_interrupts_tell_of_many_frames_each() {
    for vcpus in [1, 2] {
        let base = Wish { role: Role::Source, mode: TransmitMode::Base, vcpus, ..Wish::default() };
        let traffic = TrafficInfo { delay_sent: 1, ..base.traffic };
        let start = Instant::now();
        for mut bench in benches(&Wish { traffic, ..base }) {
            bench.sent(2000);
            let (frames, cost) = (bench.frames_sent(), bench.accesses());
            bench.assert_told(frames, &cost);
            // How many frames are sent meanwhile is up to the host.
            let most = (start.elapsed().as_nanos() / SENT_DELAY.as_nanos()) as u64 + SET_UP.ims_write + 1;
            if most >= frames {
                println!("SKIPPED: {}: a frame takes longer than the delay of an interrupt", bench.name);
                continue;
            }
            assert!(cost.ims_write <= most, "{}: {cost:?} for {frames}, at most {most}", bench.name);
        }
    }
}

#[test]
fn with_two_vcpus_the_second_takes_the_interrupts() {
    for mut bench in
        benches(&Wish { role: Role::Source, mode: TransmitMode::Base, vcpus: 2, ..Wish::default() })
    {
        bench.sent(500);
        let (frames, cost, [first, second]) = (bench.frames_sent(), bench.accesses(), bench.arms());
        bench.assert_told(frames, &cost);
        // All but that of the initialisation.
        assert_eq!((first, second), (0, cost.ims_write - 1), "{}: {cost:?}", bench.name);
        assert!(cost.ims_write < frames, "{}: interrupts fall together: {cost:?}", bench.name);
    }
}

/// Asserts that frames waited for interrupts. If more wait than the ring holds, they are sent when it is full. How many frames fit between
/// two interrupts is up to the host.
fn assert_combined(bench: &Bench) {
    let (frames, cost) = (bench.frames_sent(), bench.accesses());
    let most = cost.ims_write + frames / 8;
    assert!(cost.tdt_write <= most, "{}: {cost:?} for {frames}, at most {most}", bench.name);
}

#[test]
fn send_combining_writes_tdt_once_an_interrupt() {
    for vcpus in [1, 2] {
        let combining =
            Wish { role: Role::Source, mode: TransmitMode::SendCombining, vcpus, ..Wish::default() };
        for mut bench in benches(&Wish { itr: 4000, ..combining }) {
            bench.sent(2000);
            assert_combined(&bench);
        }
        for mut bench in benches(&Wish { itr: 40_000, combine: 16, ..combining }) {
            bench.sent(2000);
            let (frames, cost) = (bench.frames_sent(), bench.accesses());
            let most = frames / 16 + cost.ims_write + 2;
            assert!((frames / 17..=most).contains(&cost.tdt_write), "{}: {cost:?} for {frames}", bench.name);
        }
    }
}

#[test]
fn send_combining_begins_above_a_rate() {
    for vcpus in [1, 2] {
        let combining = Wish {
            role: Role::Source,
            mode: TransmitMode::SendCombining,
            vcpus,
            itr: 4000,
            ..Wish::default()
        };
        // A value that any host reaches, and one that none does.
        for mut bench in benches(&Wish { combine_above: 1, ..combining }) {
            bench.sent(2000);
            assert_combined(&bench);
        }
        for mut bench in benches(&Wish { combine_above: 100_000_000, ..combining }) {
            bench.sent(2000);
            let (frames, cost) = (bench.frames_sent(), bench.accesses());
            // It may have been stopped before it announced the last frame. If the other vCPU writes the
            // register just then, its interrupt takes along what was offered meanwhile: up to a whole ring if it is preempted there.
            let least = if vcpus == 1 { frames - 1 } else { frames / 2 };
            let writes = cost.less(&SET_UP).tdt_write;
            assert!((least..=frames).contains(&writes), "{}: {cost:?} for {frames}", bench.name);
        }
    }
}
