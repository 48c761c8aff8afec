use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use port::pair::{PairPort, pair};
use port::{Frame, Sink};
use ring::Bytes;

use super::*;

const FILE: &str = "[switch.west]\n[[group]]\nname = 'core'\nkind = 'multistage'\nbackends = 2\n\
                    [[group.nic]]\nname = 'w'\nattach = 'switch:west'\naddress = '192.0.2.1/24'\n";
/// Nothing takes so long, even where the host is busy.
const PATIENCE: Duration = Duration::from_secs(60);
const ROUND: Duration = Duration::from_millis(10);

/// A sink from which no thread comes back while the other end of its channel is there.
struct Trap {
    is_entered: AtomicBool,
    end: Mutex<Receiver<()>>,
}

impl Sink for Trap {
    fn deliver(&self, frames: &[Frame<'_>]) -> usize {
        self.is_entered.store(true, Ordering::Release);
        let ended = self.end.lock().expect("no panic").recv();
        assert!(ended.is_err(), "nothing is sent");
        frames.len()
    }
}

/// One balancer of a group with one link, which it moves to this sink; and the other end of the link.
fn moving_to(sink: Arc<dyn Sink>) -> (Balancers, PairPort) {
    let group = config::parse(FILE, "f.toml").expect("a good file").groups.remove(0);
    let balancers = Balancers::new(&group, Confinement::Off);
    let (near, far) = pair(64).expect("a wire");
    balancers.add("core", (0, vec![Pump { source: Box::new(far.source), sink }]), 1).expect("a thread");
    (balancers, near)
}

#[track_caller]
fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_thread_that_does_not_come_back_from_a_burst_stands_still() {
    let (going_on, end) = channel::<()>();
    let trap = Arc::new(Trap { is_entered: AtomicBool::new(false), end: Mutex::new(end) });
    let (balancers, link) = moving_to(trap.clone());
    let mut octets = [0; 60];
    assert_eq!(link.sink.deliver(&[Frame::new(Bytes::from_slice(&mut octets))]), 1);
    wait_for("nothing comes", || trap.is_entered.load(Ordering::Acquire));
    let found = (0..2000).find(|round| {
        balancers.look(ROUND * *round);
        balancers.standing().is_some()
    });
    assert!(found.is_some_and(|round| ROUND * round > Duration::from_secs(3)), "{found:?}");
    assert_eq!(balancers.standing().as_deref(), Some("core/lb0"));
    drop(going_on);
    balancers.stop();
}

#[test]
fn a_thread_that_sleeps_is_woken_once_a_second_and_does_not_stand_still() {
    let (balancers, _link) = moving_to(Arc::new(port::Null::new()));
    let passes = || balancers.state().threads[0].counters().passes.get();
    for second in 0..15 {
        let before = passes();
        for round in 0..=100 {
            balancers.look(ROUND * (101 * second + round));
        }
        wait_for("it makes no pass", || passes() != before);
    }
    assert_eq!(balancers.standing(), None);
    balancers.stop();
}
