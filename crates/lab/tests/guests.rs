//! Every experiment with a guest runs once, shortly, and its RESULT line says what it should. No rate is judged here.

use std::sync::{Mutex, MutexGuard, PoisonError};

use lab::cores;
use lab::experiment::{Options, Outcome, compare, run};
use lab::experiments::{Case, find};
use lab::report::ResultLine;

/// They take the same CPUs: one at a time.
static CPUS: Mutex<()> = Mutex::new(());

/// Waits for the CPUs; none, with a line that says why, where experiments cannot run.
fn ready(root: bool) -> Option<MutexGuard<'static, ()>> {
    if let Err(error) = vmm::open_kvm() {
        println!("SKIPPED: {error}");
        return None;
    }
    if cores::allowed().unwrap().len() < 2 {
        println!("SKIPPED: there is only one CPU");
        return None;
    }
    if root && let Err(error) = uplink::Netns::new() {
        println!("SKIPPED: {error}");
        return None;
    }
    Some(CPUS.lock().unwrap_or_else(PoisonError::into_inner))
}

fn short() -> Options {
    // An experiment pins the thread that runs it; those after it need to know the other CPUs.
    Options { seconds: 0.02, repeat: 1, cpus: cores::online().unwrap(), ..Options::default() }
}

/// The outcomes of an experiment, each with its RESULT line.
fn outcomes(name: &str, options: &Options) -> Vec<(Outcome, ResultLine)> {
    let mut all = Vec::new();
    for case in (find(name).unwrap().cases)(options).unwrap() {
        match case {
            Case::Alone(mut experiment) => all.push(run(&mut *experiment, options).unwrap()),
            Case::InTurn(mut a, mut b) => {
                let comparison = compare(&mut *a, &mut *b, options).unwrap();
                assert!(comparison.a.measured.len() >= 10);
                all.extend([comparison.a, comparison.b]);
            }
        }
    }
    all.into_iter().map(|outcome| (outcome.clone(), told(name, &outcome))).collect()
}

/// The line as it is printed, read back.
fn told(name: &str, outcome: &Outcome) -> ResultLine {
    let line = ResultLine::parse(&outcome.result_line().to_string()).unwrap();
    assert!(line.name.starts_with(&format!("{name}/")), "{}", line.name);
    // Idle routers may well need nothing at all.
    assert!(line.n > 0 && (line.median > 0.0 || name == "idle"), "{line}");
    line
}

fn figure(line: &ResultLine, name: &str) -> f64 {
    line.get(name).unwrap_or_else(|| panic!("no {name} in {line}")).parse().unwrap()
}

#[test]
fn forward() {
    let Some(_cpus) = ready(false) else { return };
    for (options, case) in [
        (short(), "forward/kvm/virtio-net/64"),
        (Options { frame: 1514, ..short() }, "forward/kvm/virtio-net/1514"),
    ] {
        let [(outcome, line)] = outcomes("forward", &options).try_into().unwrap();
        assert_eq!((line.name.as_str(), line.unit.as_str()), (case, "mpps"));
        assert_eq!(figure(&line, "bad"), 0.0);
        assert!(figure(&line, "exits_per_packet") < 1.0);
        assert!(outcome.ledger().get("sink.frames").unwrap() > 0);
    }
}

#[test]
fn guest_to_guest_loses_nothing_and_floods_nothing() {
    let Some(_cpus) = ready(false) else { return };
    for frame in [64, 1514] {
        let [(outcome, line)] = outcomes("guest-to-guest", &Options { frame, ..short() }).try_into().unwrap();
        assert_eq!(line.name, format!("guest-to-guest/kvm/virtio-net/{frame}"));
        let counted = ["lost", "reordered", "flooded"].map(|name| figure(&line, name));
        assert_eq!(counted, [0.0; 3], "{line}");
        assert!(outcome.ledger().get("switch.first.forwarded").unwrap() > 0);
    }
}

#[test]
fn round_trip_loses_nothing() {
    let Some(_cpus) = ready(false) else { return };
    let [(_, polling), (_, sleeping)] = outcomes("round-trip", &short()).try_into().unwrap();
    for (line, case) in [(&polling, "polling"), (&sleeping, "sleeping")] {
        assert_eq!(line.name, format!("round-trip/kvm/virtio-net/64/{case}"));
        assert_eq!(figure(line, "lost"), 0.0, "{line}");
        assert!(figure(line, "p99_us") >= line.median);
        assert!(figure(line, "probe_doorbell_us") > 0.0 && figure(line, "probe_exit_us") > 0.0);
    }
    // An interrupt wakes the guest, and its doorbell wakes us.
    assert!(figure(&sleeping, "exits_per_packet") > 1.0, "{sleeping}");
}

#[test]
fn boot_ends_with_a_forwarded_frame() {
    let Some(_cpus) = ready(false) else { return };
    // The second case starts the command; a test is not the command.
    let [(_, line)] = outcomes("boot", &short()).try_into().unwrap();
    assert_eq!(line.name, "boot/kvm/virtio-net/in-process");
    let parts: f64 = ["vm_ms", "firmware_ms", "first_frame_ms"].iter().map(|name| figure(&line, name)).sum();
    // Each is a median of its own.
    assert!(parts > 0.0 && parts < 2.0 * line.median, "{line}");
    assert!(figure(&line, "exits") > 0.0);
}

#[test]
fn idle_routers_cost_less_than_a_core() {
    let Some(_cpus) = ready(false) else { return };
    let [(_, memory), (_, one), (_, ten)] = outcomes("idle", &short()).try_into().unwrap();
    assert_eq!((memory.name.as_str(), memory.unit.as_str()), ("idle/memory/routers=10", "mib"));
    assert!(memory.median.is_finite() && figure(&memory, "guest_ram_touched_mib") > 0.0);
    for (line, case) in [(&one, "idle/cpu/routers=1"), (&ten, "idle/cpu/routers=10")] {
        assert_eq!((line.name.as_str(), line.unit.as_str()), (case, "percent-of-a-core"));
        assert!(line.median < 50.0, "{line}");
    }
    assert_eq!((figure(&one, "threads"), figure(&ten, "threads")), (3.0, 21.0));
}

#[test]
fn forward_between_taps_keeps_its_frames() {
    let Some(_cpus) = ready(true) else { return };
    for frame in [64, 1514] {
        let options = Options { attach: "tap".to_owned(), frame, ..short() };
        let [(outcome, routed), (_, bare)] = outcomes("forward", &options).try_into().unwrap();
        assert_eq!(routed.name, format!("forward/kvm/virtio-net/tap/{frame}"));
        assert_eq!(bare.name, format!("forward/bare-loop/tap/{frame}"));
        assert_eq!((figure(&routed, "lost"), figure(&bare, "lost")), (0.0, 0.0), "{routed}\n{bare}");
        let ledger = outcome.ledger();
        assert_eq!(ledger.total("drop_"), 0);
        // What was read went through the router, but for the frames at the end of each round.
        assert!(ledger.get("vcpu0.forwarded").unwrap() > ledger.get("near.rx.frames").unwrap() / 2);
    }
}
