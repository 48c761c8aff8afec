//! Objective: receive livelock. An application behind a bounded queue loses most of what it could deliver when its
//! interrupt-driven driver goes before it, and keeps it where the driver polls with a budget and drops early. How much
//! is measured elsewhere, on a machine that is quiet; here the counters are judged, and the direction.

use std::time::{Duration, Instant};
use std::{array, thread};

use bootinfo::{Role, TrafficInfo};
use config::Engine;
use engine::{Confinement, Duty, Ground, Guest, Idle, IoThread, Pump};
use lab::generator::{Generator, Settings};
use ledger::{ApplicationTally, Group};

const MAC: [u8; 6] = [2, 0, 0, 0, 22, 1];
/// What the application spends on a frame.
const WORK_NS: u32 = 20_000;
/// Frames a second: what driver and application can do with, and far more.
const LITTLE: f64 = 1_000.0;
const MUCH: f64 = 150_000.0;
const LENGTH: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_secs(60);

/// A guest with an application, and a generator that feeds it.
fn start(mode: &str, protected: bool, rate: f64) -> (Guest, IoThread) {
    let text = format!(
        "[[router]]\nname = 't22'\nengine = 'kvm'\n\
         [[router.nic]]\nname = 'nic'\nattach = 'null'\naddress = '192.0.2.2/24'\n\
         mac = '02:00:00:00:16:01'\nmodel = 'e1000'\nmode = '{mode}'\n"
    );
    let plan = config::parse(&text, "t22.toml").expect("a good file").routers.remove(0);
    let traffic = TrafficInfo {
        work_ns: WORK_NS,
        queue_len: 256,
        protected: u32::from(protected),
        ..TrafficInfo::default()
    };
    let ground = Ground::open(Engine::Kvm).expect("an engine");
    let mut guest = Guest::new(&plan, Duty { role: Role::Application, traffic }, &ground).expect("a guest");
    guest.start().expect("it starts");
    let settings = Settings { destination_mac: frame::Mac(MAC), rate: Some(rate), ..Settings::default() };
    let generator = Generator::new(&settings).expect("a generator");
    let nic = &guest.nics()[0];
    // What the NIC sends is nothing, but who polls that keeps the time of its interrupts.
    let pumps = vec![
        Pump { source: Box::new(generator), sink: nic.sink() },
        Pump { source: nic.source(), sink: nic.sink() },
    ];
    let io = IoThread::spawn("t22/vhost", &[], pumps, Idle::Poll, Confinement::Off).expect("a thread");
    (guest, io)
}

fn counted(tally: &ApplicationTally) -> [u64; 4] {
    let names = ["received", "queued", "drop_queue_full", "delivered"];
    let mut values = [0; 4];
    tally.each(&mut |name, value| {
        if let Some(at) = names.iter().position(|known| *known == name) {
            values[at] = value;
        }
    });
    values
}

/// What was received, queued, dropped and delivered in a second, once it goes on steadily; and the host's own drops.
fn measure(mode: &str, protected: bool, rate: f64) -> ([f64; 4], u64) {
    let (mut guest, mut io) = start(mode, protected, rate);
    let machine = guest.machine().clone();
    let tally = || counted(&machine.shared().vcpus[0].application);
    let begin = Instant::now();
    while tally()[0] < 300 {
        assert!(begin.elapsed() < PATIENCE, "no frames come: {:?}", tally());
        thread::sleep(Duration::from_millis(2));
    }
    thread::sleep(LENGTH / 2);
    let (before, since) = (tally(), Instant::now());
    thread::sleep(LENGTH);
    let (after, seconds) = (tally(), since.elapsed().as_secs_f64());
    assert_eq!(guest.fault(), None);
    let dropped_early = guest.nics()[0].rx_ledger().drop_no_buffer.get();
    io.stop();
    guest.stop();
    let [received, queued, dropped, delivered] = tally();
    assert_eq!(received, queued + dropped);
    assert!(delivered <= queued && queued - delivered <= 256 + 1, "{queued} queued, {delivered} delivered");
    (array::from_fn(|at| (after[at] - before[at]) as f64 / seconds), dropped_early)
}

#[test]
fn below_its_capacity_all_is_delivered() {
    support::needs!(Kvm);
    for protected in [false, true] {
        let ([received, _, dropped, delivered], early) = measure("csb", protected, LITTLE);
        // A busy host may keep the generator from offering all of it.
        assert!(received > 0.0 && delivered > received * 0.8, "{delivered} of {received}");
        assert_eq!((dropped, early), (0.0, 0));
    }
}

/// Rates by one driver and by the other, if the host let both be flooded; an error says how it was.
fn flooded() -> Result<(), String> {
    let ([_, _, taken, unprotected], _) = measure("async", false, MUCH);
    let ([_, _, dropped, protected], early) = measure("async", true, MUCH);
    assert_eq!(dropped, 0.0, "who is protected takes nothing that it cannot keep");
    let said = format!(
        "{taken} taken for nothing; {protected} beside {unprotected} a second, {early} stayed outside"
    );
    if taken > 0.0 && early > 0 && protected > 2.0 * unprotected { Ok(()) } else { Err(said) }
}

#[test]
fn beyond_it_only_who_is_protected_goes_on() {
    support::needs!(Kvm);
    // A busy host may keep the generator from flooding anybody.
    let mut said = Vec::new();
    for _ in 0..10 {
        match flooded() {
            Ok(()) => return,
            Err(how) => said.push(how),
        }
    }
    panic!("{said:#?}");
}
