//! Requests of a data plane are limited by budgets, for a second and for an iteration of the event loop;
//! other clients do not wait.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use api::Request;
use link::{ToPlane, ToSupervisor};

use super::promises::{file, promised};
use super::stage::{ONE, Placer, Stage};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// Clock that is advanced by work.
fn clock(stage: &mut Stage) -> Rc<Cell<Instant>> {
    let time = Rc::new(Cell::new(stage.now));
    let clock = time.clone();
    stage.supervisor().clock = Box::new(move || clock.get());
    time
}

/// A run that counts its lookups in `/proc`, each of which takes this long.
fn looking(each: Duration) -> (Stage, Rc<Cell<u32>>) {
    let mut stage = Stage::up(ONE);
    let (looks, time) = (Rc::new(Cell::new(0)), clock(&mut stage));
    let count = looks.clone();
    stage.supervisor().find = Box::new(move |_, _| {
        count.set(count.get() + 1);
        time.set(time.get() + each);
        None
    });
    (stage, looks)
}

fn found(stage: &Stage) -> usize {
    let plane = stage.plane();
    std::iter::from_fn(|| plane.told()).filter(|told| matches!(told, ToPlane::FoundThread { .. })).count()
}

/// Time that the event loop would wait.
fn patience(stage: &mut Stage) -> Duration {
    let now = stage.now;
    stage.supervisor().time_until_due(now)
}

/// Group whose members follow the load.
const SCALED: &str = "[[group]]\nname = \"core\"\nkind = \"parallel\"\nmembers = 2\nscale = { min = 1, max = 2 }\n\
                      engine = \"process\"\n[[group.nic]]\nname = \"lan\"\nattach = \"tap:rr-lan\"\naddress = \"192.0.2.1/24\"\n";

#[test]
fn the_event_loop_sleeps_while_members_are_restarted_and_the_load_is_not_looked_at() {
    let mut stage = Stage::up(SCALED);
    // The first look is over.
    stage.plane().serve(&BTreeMap::new());
    stage.turn().expect("it goes on");
    let _client = stage.client(&Request::Restart { router: "core".to_owned() });
    stage.after(300 * MS).expect("it goes on");
    assert!(!patience(&mut stage).is_zero());
}

#[test]
fn threads_of_the_kernel_are_looked_for_so_many_times_a_second() {
    let (mut stage, looks) = looking(Duration::ZERO);
    for owner in 0..100 {
        stage.plane().say(&ToSupervisor::FindThread { owner });
    }
    stage.turn().expect("it goes on");
    assert_eq!(looks.get(), 16);
    // As many more are queued; a data plane that does not wait for its answers gets none.
    assert_eq!(found(&stage), 100 - 16);
    assert!(patience(&mut stage) > 100 * MS, "the loop does not spin meanwhile");
    stage.after(SECOND - MS).expect("it goes on");
    assert_eq!(looks.get(), 16);
    stage.after(MS).expect("it goes on");
    assert_eq!((looks.get(), found(&stage)), (32, 16));
    stage.after(2 * SECOND).expect("it goes on");
    assert_eq!(looks.get(), 32);
}

#[test]
fn looks_that_take_long_leave_most_of_the_time_to_all_else() {
    let (mut stage, looks) = looking(200 * MS);
    for owner in 0..10 {
        stage.plane().say(&ToSupervisor::FindThread { owner });
    }
    stage.turn().expect("it goes on");
    assert_eq!(looks.get(), 1);
    let mut client = stage.client(&Request::Events { since: None });
    client.next_answer().expect("it is answered");
    stage.after(1000 * MS - MS).expect("it goes on");
    assert_eq!(looks.get(), 1);
    stage.after(MS).expect("it goes on");
    assert_eq!(looks.get(), 2);
}

/// Whatever takes the time: here each reading of the clock does.
#[test]
fn what_is_said_too_much_for_a_turn_waits_for_the_next_one() {
    let mut stage = Stage::up(ONE);
    let time = clock(&mut stage);
    stage.supervisor().clock = Box::new(move || {
        time.set(time.get() + 3 * MS);
        time.get()
    });
    let plane = stage.plane();
    for number in 0..30 {
        plane.say(&ToSupervisor::Event {
            kind: "notice".to_owned(),
            router: None,
            of_peer: false,
            process: None,
            message: format!("line {number}"),
        });
    }
    stage.turn().expect("it goes on");
    let first = stage.lines("line ").len();
    assert_eq!(first, 7, "three milliseconds each, of twenty");
    assert_eq!(patience(&mut stage), Duration::ZERO, "it goes on at once");
    plane.die();
    let mut client = stage.client(&Request::Events { since: None });
    client.next_answer().expect("it is answered between");
    for _ in 0..4 {
        stage.turn().expect("it goes on");
    }
    assert_eq!(stage.lines("line ").len(), 30, "what it said before it died is told");
    assert_eq!(stage.lines("was killed by SIGSEGV").len(), 1);
}

#[test]
fn threads_are_placed_so_many_times_a_second_and_the_last_ones_in_the_end() {
    let placed = Rc::<RefCell<Vec<_>>>::default();
    let text = file("1kpps").replace("guarantee = \"1kpps\"\n", "");
    let mut stage = Stage::start_with(&text, Box::new(Placer(placed.clone())));
    stage.comes_up();
    let now = stage.now;
    let supervisor = stage.supervisor();
    supervisor.placement.pending.queue(promised("1kpps", None, now), now);
    supervisor.attend_following(now);
    let _clock = clock(&mut stage);
    placed.borrow_mut().clear();
    // An existing thread: this one.
    let plane = stage.plane();
    plane.is_process(std::process::id());
    let own = rustix::thread::gettid().as_raw_nonzero().get();
    let tell = |tid| {
        let threads = vec![api::Thread { name: "edge/vhost".to_owned(), tid }];
        plane.say(&ToSupervisor::Threads { threads });
    };
    (0..100).for_each(|_| tell(-1));
    tell(own);
    stage.turn().expect("it goes on");
    assert_eq!(placed.borrow().len(), 20);
    stage.after(SECOND - MS).expect("it goes on");
    assert_eq!(placed.borrow().len(), 20);
    stage.after(MS).expect("it goes on");
    assert_eq!(placed.borrow().len(), 21);
    assert_eq!(placed.borrow().last(), Some(&vec![own]), "it was told last");
}
