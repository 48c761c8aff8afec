//! Slow attachments: they take their time to be changed, closed, adapted to a request, or handed to the next
//! data plane. Everything else goes on meanwhile, and chores are done in order.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use api::{Answer, Client, Request};
use attach::{DataPlaneChange, HostResource, NicRequirements, Watched, Work};
use serde_json::Value;

use super::stage::Stage;

const SECOND: Duration = Duration::from_secs(1);

const FILE: &str = "[[router]]\nname = \"edge\"\nengine = \"process\"\n\
                    [[router.nic]]\nname = \"wan\"\nattach = \"macvtap:far\"\nmtu = 1500\naddress = \"192.0.2.1/24\"\n";

/// Group that stands beside that router.
const GROUP: &str = "[switch.lan]\n[[group]]\nname = \"core\"\nkind = \"parallel\"\nmembers = 2\nengine = \"process\"\n\
                     [[group.nic]]\nname = \"lan\"\nattach = \"switch:lan\"\naddress = \"198.51.100.1/24\"\n";

/// Work on a link, which takes until the test lets it finish.
#[derive(Clone, Debug)]
struct Hands {
    begun: Sender<&'static str>,
    go: Arc<Mutex<Receiver<()>>>,
}

impl Hands {
    /// Once the test is over, it takes no time any more.
    fn take_time_for(&self, what: &'static str) {
        let _ = self.begun.send(what);
        let _ = self.go.lock().unwrap_or_else(PoisonError::into_inner).recv();
    }
}

/// Link on which all work is slow.
#[derive(Debug)]
struct Slow {
    hands: Hands,
    /// True if the process that serves it requests something.
    wishes: Arc<AtomicBool>,
}

impl HostResource for Slow {
    fn hand_over(&self) -> (Value, Vec<BorrowedFd<'_>>) {
        (Value::Null, Vec::new())
    }

    fn resize(&self, before: &NicRequirements, now: &NicRequirements) -> Option<Work> {
        (before != now).then(|| work(&self.hands, "change"))
    }

    fn turn(&mut self, turn: DataPlaneChange) -> Result<()> {
        self.hands.take_time_for(if turn == DataPlaneChange::Ended { "end" } else { "begin" });
        Ok(())
    }

    fn watch(&self) -> Option<Box<dyn Watched>> {
        None
    }

    fn attend(&self) -> Option<Work> {
        self.wishes.swap(false, Ordering::Relaxed).then(|| work(&self.hands, "wish"))
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        self.hands.take_time_for("close");
    }
}

fn work(hands: &Hands, what: &'static str) -> Work {
    let hands = hands.clone();
    Box::new(move || {
        hands.take_time_for(what);
        Ok(())
    })
}

/// The test's handle on such a link. It is dropped before the run, which closes the link at its end.
struct Bench {
    begun: Receiver<&'static str>,
    go: Sender<()>,
    wishes: Arc<AtomicBool>,
}

impl Bench {
    /// A run with such a link.
    fn with_a_slow_link() -> (Stage, Self) {
        Self::of(FILE)
    }

    /// A run of this file, whose first NIC has such a link.
    fn of(text: &str) -> (Stage, Self) {
        let mut stage = Stage::up(text);
        let ((begun, told), (go, may_go)) = (channel(), channel());
        let (wishes, go_on) = (Arc::<AtomicBool>::default(), Arc::new(Mutex::new(may_go)));
        let plan = stage.plan().clone();
        let at = plan.nics().next().expect("a NIC");
        let slow = Slow { hands: Hands { begun, go: go_on }, wishes: wishes.clone() };
        stage.supervisor().resources.put(at, Box::new(slow));
        (stage, Self { begun: told, go, wishes })
    }

    /// Waits until this work begins, and checks that no other work begins before.
    fn begins(&self, stage: &mut Stage, what: &str) {
        let mut begun = None;
        stage.until(|_| {
            begun = begun.or_else(|| self.begun.try_recv().ok());
            begun.is_some()
        });
        assert_eq!(begun, Some(what));
    }

    /// Lets the work finish.
    fn goes_on(&self) {
        self.go.send(()).expect("it waits");
    }

    fn is_idle(&self) -> bool {
        self.begun.try_recv().is_err()
    }
}

fn apply(text: &str) -> Request {
    Request::Apply { file: "next.toml".to_owned(), text: text.to_owned(), dry_run: false }
}

/// Checks that the data plane still answers a client.
fn nobody_waits(stage: &mut Stage) {
    let mut curious = stage.client(&Request::Ps {});
    let id = stage.plane().asked(|request| matches!(request, Request::Ps {})).expect("it is asked");
    stage.plane().answer(id, Err(api::Error::new("not now")));
    stage.turn().expect("it goes on");
    assert!(matches!(curious.next_answer(), Ok(Answer::Ps(_))));
}

/// Lets the data plane follow a file, and checks that the client is told.
fn is_applied(stage: &mut Stage, client: &mut Client) {
    stage.until(|stage| !stage.supervisor().changes.is_prepared());
    stage.plane().follows().expect("it is to follow");
    stage.turn().expect("it goes on");
    assert!(matches!(client.next_answer(), Ok(Answer::Applied { .. })));
}

#[test]
fn a_link_is_changed_and_closed_while_everything_else_goes_on_and_the_next_file_waits_for_that() {
    let (mut stage, bench) = Bench::with_a_slow_link();
    let mut first = stage.client(&apply(&FILE.replace("mtu = 1500", "mtu = 1400")));
    is_applied(&mut stage, &mut first);
    bench.begins(&mut stage, "change");
    nobody_waits(&mut stage);
    let mut second = stage.client(&apply(&FILE.replace("macvtap:far", "null")));
    for _ in 0..100 {
        stage.turn().expect("it goes on");
        std::thread::yield_now();
    }
    assert!(!stage.supervisor().changes.is_prepared(), "the link is not yet what it is to be");
    bench.goes_on();
    stage.until(|stage| stage.supervisor().changes.is_prepared());
    is_applied(&mut stage, &mut second);
    bench.begins(&mut stage, "close");
    nobody_waits(&mut stage);
    bench.goes_on();
    stage.until(|stage| !stage.supervisor().link_jobs.holds_files());
    assert!(bench.is_idle());
}

#[test]
fn another_number_of_members_waits_for_what_is_still_being_closed() {
    let text = format!("{FILE}{GROUP}");
    let (mut stage, bench) = Bench::of(&text);
    stage.supervisor().changes.file_opener.open = Arc::new(|_, _| Ok(Default::default()));
    let mut first = stage.client(&apply(&text.replace("macvtap:far", "null")));
    is_applied(&mut stage, &mut first);
    bench.begins(&mut stage, "close");
    let [router, key, value] = ["core", "members", "3"].map(str::to_owned);
    let mut second = stage.client(&Request::Set { router, key, value });
    for _ in 0..100 {
        stage.turn().expect("it goes on");
        std::thread::yield_now();
    }
    assert!(!stage.supervisor().changes.is_prepared(), "the link is still there");
    assert!(!stage.supervisor().changes.is_idle(), "so nobody asks for the same again");
    bench.goes_on();
    stage.until(|stage| stage.supervisor().changes.is_prepared());
    stage.until(|stage| !stage.supervisor().changes.is_prepared());
    let plan = stage.plane().follows().expect("it is to follow");
    assert_eq!(plan.groups[0].members, 3);
    stage.turn().expect("it goes on");
    assert!(matches!(second.next_answer(), Ok(Answer::Done { .. })));
}

#[test]
fn a_wish_takes_its_time_and_those_that_come_meanwhile_are_one() {
    let (mut stage, bench) = Bench::with_a_slow_link();
    bench.wishes.store(true, Ordering::Relaxed);
    bench.begins(&mut stage, "wish");
    for _ in 0..3 {
        bench.wishes.store(true, Ordering::Relaxed);
        nobody_waits(&mut stage);
    }
    bench.goes_on();
    bench.begins(&mut stage, "wish");
    bench.goes_on();
    stage.until(|stage| stage.supervisor().link_jobs.watched().is_none());
    assert!(bench.is_idle());
}

#[test]
fn the_next_data_plane_is_started_when_what_it_is_handed_is_ready_for_it() {
    let (mut stage, bench) = Bench::with_a_slow_link();
    stage.plane().die();
    stage.turn().expect("it goes on");
    bench.begins(&mut stage, "end");
    for _ in 0..3 {
        stage.after(SECOND).expect("it goes on");
        let mut curious = stage.client(&Request::Ps {});
        assert!(matches!(curious.next_answer(), Ok(Answer::Ps(_))));
    }
    assert_eq!((stage.started(), bench.is_idle()), (1, true), "one after the other");
    bench.goes_on();
    bench.begins(&mut stage, "begin");
    stage.after(SECOND).expect("it goes on");
    assert_eq!(stage.started(), 1);
    bench.goes_on();
    stage.until(|stage| stage.started() == 2);
    stage.comes_up();
    let plan = stage.plan().clone();
    let (supplies, _) =
        stage.supervisor().resources.supplies(&Default::default(), &plan).expect("descriptors");
    assert_eq!(supplies.len(), 1, "the link is here again");
}
