//! Objective: receive livelock. An interrupt-driven driver that takes precedence over its application receives frames for which the
//! application's bounded queue has no room; one that polls with a budget leaves them in the ring, where they cost nothing. The
//! delivered rates are measured by `ringroad lab run 004/rx`.

use std::thread;
use std::time::{Duration, Instant};

use bootinfo::{Role, TrafficInfo};
use config::Engine;
use engine::{Confinement, ExecutionBackend, Guest, GuestTask, Idle, IoThread, Pump};
use lab::generator::{Generator, Settings};
use ledger::{ApplicationTally, Group};

const MAC: [u8; 6] = [2, 0, 0, 0, 22, 1];
/// Time that the application spends on a frame.
const WORK_NS: u32 = 20_000;
/// Maximum number of frames that wait for the application: as many as a ring has entries, which is the most.
const QUEUE: u32 = 1024;
/// Offered frames a second: within the capacity of driver and application, even if the vCPU gets no CPU for two seconds
/// while the generator does (then they wait in ring and queue); and far beyond it.
const LITTLE: f64 = 500.0;
const MUCH: f64 = 150_000.0;
/// Number of frames that suffices for a verdict.
const ENOUGH: u64 = 300;
/// Number of frames for which the queue has room only if the places of delivered ones are used again.
const MORE_THAN_QUEUE: u64 = QUEUE as u64 + 100;
const PATIENCE: Duration = Duration::from_secs(60);

/// Starts a guest with an application, and a generator that feeds it.
fn start(mode: &str, protected: bool, rate: f64) -> (Guest, IoThread) {
    let text = format!(
        "[[router]]\nname = 't22'\nengine = 'kvm'\n\
         [[router.nic]]\nname = 'nic'\nattach = 'null'\naddress = '192.0.2.2/24'\n\
         mac = '02:00:00:00:16:01'\nmodel = 'e1000'\nmode = '{mode}'\n"
    );
    let plan = config::parse(&text, "t22.toml").expect("a good file").routers.remove(0);
    let traffic = TrafficInfo {
        work_ns: WORK_NS,
        queue_len: QUEUE,
        protected: u32::from(protected),
        ..TrafficInfo::default()
    };
    let backend = ExecutionBackend::open(Engine::Kvm).expect("an engine");
    let mut guest =
        Guest::new(&plan, GuestTask { role: Role::Application, traffic }, &backend).expect("a guest");
    guest.start().expect("it starts");
    let settings = Settings { destination_mac: frame::Mac(MAC), rate: Some(rate), ..Settings::default() };
    let generator = Generator::new(&settings).expect("a generator");
    let nic = &guest.nics()[0];
    // The NIC sends nothing, but polling its source keeps its interrupt timers.
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

/// Counters of a guest: frames received, queued, dropped and delivered by its application's driver; and frames that found no
/// buffer.
type Counted = ([u64; 4], u64);

/// Feeds a guest until `enough`, waits until everything that it took is delivered, and returns its counters.
fn fed(mode: &str, protected: bool, rate: f64, enough: impl Fn(&Counted) -> bool) -> Counted {
    let (mut guest, mut io) = start(mode, protected, rate);
    let machine = guest.machine().clone();
    let look = || {
        let early = guest.nics()[0].rx_ledger().drop_no_buffer.get();
        (counted(&machine.shared().vcpus[0].application), early)
    };
    wait_for(|| enough(&look()), || format!("{mode}, protected {protected}: {:?}", look()));
    assert_eq!(guest.fault(), None);
    io.stop();
    let settled = || {
        let ([received, queued, dropped, delivered], _) = look();
        received == queued + dropped && delivered == queued
    };
    wait_for(settled, || format!("what was queued is not delivered: {:?}", look()));
    let counted = look();
    guest.stop();
    counted
}

fn wait_for(condition: impl Fn() -> bool, why: impl Fn() -> String) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < PATIENCE, "{}", why());
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_driver_that_goes_before_its_application_takes_frames_for_nothing() {
    support::needs!(Kvm);
    let ([_, _, dropped, _], _) = fed("async", false, MUCH, |([_, _, dropped, _], _)| *dropped >= ENOUGH);
    assert!(dropped >= ENOUGH);
}

#[test]
fn a_driver_with_a_budget_takes_nothing_that_it_cannot_keep() {
    support::needs!(Kvm);
    let ([_, _, dropped, delivered], early) =
        fed("async", true, MUCH, |([.., delivered], early)| *early >= ENOUGH && *delivered >= ENOUGH);
    assert_eq!(dropped, 0, "{delivered} delivered, {early} stayed outside");
}

mod all {
    use super::*;

    #[test]
    fn below_its_capacity_all_is_delivered() {
        support::needs!(Kvm);
        for protected in [false, true] {
            let ([_, _, dropped, delivered], early) =
                fed("csb", protected, LITTLE, |([.., delivered], _)| *delivered >= MORE_THAN_QUEUE);
            assert!(delivered >= MORE_THAN_QUEUE);
            assert_eq!((dropped, early), (0, 0), "protected {protected}");
        }
    }
}
