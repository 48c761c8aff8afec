//! The firmware on an e1000, in each mode on each ground: frames pass both ways, and each costs the register accesses
//! that it is to cost, no more and no less (seed paper 004, "Transmission throughput performance").

mod bench;

use bootinfo::{Role, TransmitMode};

use bench::{Accesses, Wish, benches};

/// What one interrupt costs.
const INTERRUPT: Accesses =
    Accesses { icr_read: 1, imc_write: 1, status_read: 2, ims_write: 1, ..Accesses::NONE };

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
                bench.accesses_since(&before).assert(&wanted, &bench.name);
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
        bench.accesses_since(&before.0).assert(&Accesses::NONE, &bench.name);
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
            // The interrupt is acknowledged, and that is all.
            assert!((1..=3).contains(&cost.icr_read), "{}: {cost:?}", bench.name);
            assert_eq!(Accesses { icr_read: 0, ..cost }, Accesses::NONE, "{}", bench.name);
        }
        bench.stop();
    }
}

#[test]
fn nothing_is_lost_or_reordered_in_any_mode() {
    for mode in TransmitMode::ALL {
        for vcpus in [1, 2] {
            for mut bench in benches(&echo(mode, vcpus)) {
                for burst in [1, 2, 63, 64, 65, 200] {
                    bench.there_and_back(burst);
                }
                bench.stop();
            }
        }
    }
}
