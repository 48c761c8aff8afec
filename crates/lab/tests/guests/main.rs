//! Runs every experiment with a guest once, briefly, and checks its RESULT line. Rates are not judged here.

mod e1000;
mod ends;
mod room;

use std::time::Duration;

use lab::experiment::{Attachment, Options};
use lab::experiments::{Case, find};
use room::{engines, figure, outcomes, ready};

#[test]
fn forward() {
    let Some(_cpus) = ready(false) else { return };
    for (options, engine) in engines() {
        for frame in [64, 1514] {
            let options = Options { frame, ..options.clone() };
            let [(outcome, line)] = outcomes("forward", &options).try_into().unwrap();
            let case = format!("forward/{engine}/virtio-net/{frame}");
            assert_eq!((line.name.as_str(), line.unit.as_str()), (case.as_str(), "mpps"));
            assert_eq!(figure(&line, "bad"), 0.0);
            assert!(figure(&line, "exits_per_packet") < 1.0);
            assert!(outcome.ledger().get("sink.frames").unwrap() > 0);
        }
    }
}

#[test]
fn forward_between_the_nics_of_each_pair() {
    let Some(_cpus) = ready(false) else { return };
    for (options, engine) in engines() {
        let options = Options { nics: 6, flows: 30, ..options };
        let [(outcome, line)] = outcomes("forward", &options).try_into().unwrap();
        assert_eq!(line.name, format!("forward/{engine}/virtio-net/64/flows=30/nics=6"));
        assert_eq!(figure(&line, "bad"), 0.0);
        let ledger = outcome.ledger();
        for nic in ["far", "far1", "far2"] {
            assert!(ledger.get(&format!("{nic}.tx.frames")).unwrap() > 0, "{nic}");
        }
    }
}

#[test]
fn guest_to_guest_loses_nothing_and_floods_nothing() {
    let Some(_cpus) = ready(false) else { return };
    for (options, engine) in engines() {
        for frame in [64, 1514] {
            let options = Options { frame, ..options.clone() };
            let [(outcome, line)] = outcomes("guest-to-guest", &options).try_into().unwrap();
            assert_eq!(line.name, format!("guest-to-guest/{engine}/virtio-net/{frame}"));
            let counted = ["lost", "reordered", "flooded"].map(|name| figure(&line, name));
            assert_eq!(counted, [0.0; 3], "{line}");
            assert!(outcome.ledger().get("switch.first.forwarded").unwrap() > 0);
        }
    }
}

#[test]
fn round_trip_loses_nothing() {
    let Some(_cpus) = ready(false) else { return };
    for (options, engine) in engines() {
        let [(_, polling), (_, sleeping)] = outcomes("round-trip", &options).try_into().unwrap();
        for (line, case) in [(&polling, "polling"), (&sleeping, "sleeping")] {
            assert_eq!(line.name, format!("round-trip/{engine}/virtio-net/64/{case}"));
            assert_eq!(figure(line, "lost"), 0.0, "{line}");
            assert!(figure(line, "p99_us") >= line.median);
            let probed = ["probe_doorbell_us", "probe_exit_us"].map(|name| line.get(name).is_some());
            assert_eq!(probed, [engine == "kvm"; 2], "{line}");
        }
        // An interrupt wakes the guest, and its doorbell wakes the measuring thread.
        assert!(figure(&sleeping, "exits_per_packet") > 1.0, "{sleeping}");
    }
}

#[test]
fn boot_ends_with_a_forwarded_frame() {
    let Some(_cpus) = ready(false) else { return };
    for (options, engine) in engines() {
        // The second case would start the `ringroad-lab` command, which a test is not.
        let [(_, line)] = outcomes("boot", &options).try_into().unwrap();
        assert_eq!(line.name, format!("boot/{engine}/virtio-net/in-process"));
        let parts: f64 =
            ["vm_ms", "firmware_ms", "first_frame_ms"].iter().map(|name| figure(&line, name)).sum();
        // Each of them is a median of its own.
        assert!(parts > 0.0 && parts < 2.0 * line.median, "{line}");
        assert!(figure(&line, "exits") > 0.0);
        let steps: &[&str] = if engine == "kvm" {
            &["create_ms", "memory_ms", "irqchip_ms", "image_ms", "lines_ms", "nics_ms", "vcpu_ms"]
        } else {
            &["machine_ms", "nics_ms"]
        };
        assert!(steps.iter().all(|step| line.get(step).is_some()), "{line}");
    }
}

#[test]
fn a_neighbour_forwards_beside_a_hostile_router() {
    let Some(_cpus) = ready(false) else { return };
    for (options, engine) in engines() {
        let options = Options { misdeed: Some(config::Misdeed::Spin), ..options };
        let mut cases = (find("hostile").unwrap().cases)(&options).unwrap();
        let Some(Case::Alternating(mut beside, mut alone)) = cases.pop() else { panic!("one pair") };
        assert!(cases.is_empty());
        for (experiment, what) in [(&mut beside, "beside-spin"), (&mut alone, "alone")] {
            assert_eq!(experiment.case, format!("{engine}/virtio-net/64/{what}"));
            experiment.prepare().unwrap();
            let sample = experiment.run_slice(Duration::from_millis(20)).unwrap();
            experiment.finish().unwrap();
            assert!(sample.value > 0.0, "{what}");
            assert_eq!((sample.lost, sample.ledger.get("sink.bad")), (0, Some(0)), "{what}");
        }
    }
}

/// Slow tests.
mod all {
    use super::*;

    #[test]
    fn idle_routers_cost_less_than_a_core() {
        let Some(_cpus) = ready(false) else { return };
        // A router that is a process has, beside its vCPU, a thread that serves it.
        for ((options, engine), threads) in engines().into_iter().zip([(3.0, 21.0), (4.0, 31.0)]) {
            let [(_, memory), (_, one), (_, ten)] = outcomes("idle", &options).try_into().unwrap();
            let case = |rest: &str| format!("idle/{}{rest}", if engine == "kvm" { "" } else { "process/" });
            assert_eq!((memory.name, memory.unit.as_str()), (case("memory/routers=10"), "mib"));
            assert!(memory.median.is_finite() && memory.median > 0.0);
            for (line, routers) in [(&one, 1), (&ten, 10)] {
                let name = case(&format!("cpu/routers={routers}"));
                assert_eq!((line.name.as_str(), line.unit.as_str()), (name.as_str(), "percent-of-a-core"));
                assert!(line.median < 50.0, "{line}");
            }
            assert_eq!((figure(&one, "threads"), figure(&ten, "threads")), threads);
        }
    }

    #[test]
    fn forward_between_taps_keeps_its_frames() {
        let Some(_cpus) = ready(true) else { return };
        for frame in [64, 1514] {
            let Some((options, engine)) = engines().into_iter().next() else { return };
            let options = Options { attach: Attachment::Tap, frame, ..options };
            let [(outcome, routed), (_, bare)] = outcomes("forward", &options).try_into().unwrap();
            assert_eq!(routed.name, format!("forward/{engine}/virtio-net/tap/{frame}"));
            assert_eq!(bare.name, format!("forward/bare-loop/tap/{frame}"));
            assert_eq!((figure(&routed, "lost"), figure(&bare, "lost")), (0.0, 0.0), "{routed}\n{bare}");
            let ledger = outcome.ledger();
            assert_eq!(ledger.total("drop_"), 0);
            // Frames that were read went through the router, except those at the end of each round.
            assert!(ledger.get("vcpu0.forwarded").unwrap() > ledger.get("near.rx.frames").unwrap() / 2);
        }
    }
}
