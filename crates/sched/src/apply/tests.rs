use std::fs;
use std::slice::from_ref;
use std::sync::mpsc::channel;

use config::{Reservation, Shares};
use rustix::process::getpid;
use rustix::thread::{gettid, sched_getaffinity};

use super::*;
use crate::interrupts::{Interrupt, Irq};
use crate::outline::{CpuNeighbours, Placement, Slot};
use crate::task::ThreadIdentity;

/// Runs a test with a thread that sleeps meanwhile.
fn with_thread(test: impl FnOnce(&Thread)) {
    let (tell, told) = channel();
    let (end, ended) = channel::<()>();
    let sleeper = std::thread::spawn(move || {
        tell.send(gettid().as_raw_nonzero().get()).expect("the test listens");
        let _ = ended.recv();
    });
    let tid = told.recv().expect("a thread");
    let task = ThreadIdentity::look(getpid().as_raw_nonzero().get(), tid).expect("it runs");
    test(&Thread { router: "edge".to_owned(), class: Class::Vcpu(0), name: "edge/vcpu0".to_owned(), task });
    drop(end);
    sleeper.join().expect("it ends");
}

/// An outline that places that thread on one CPU, or anywhere.
fn outline(cpu: Option<u32>, policy: Policy) -> Outline {
    let schedule = Schedule {
        cpus: CpuSet::from_cpus(cpu),
        placement: Placement::Pin,
        policy,
        island: None,
        group: None,
    };
    let (router, class, name) = ("edge".to_owned(), Class::Vcpu(0), "edge/vcpu0".to_owned());
    let slot = Slot { router, class, name, schedule, neighbours: CpuNeighbours::Nobody };
    Outline { slots: vec![slot], ..Outline::default() }
}

/// A reservation that every kernel refuses: it is longer than its period.
fn impossible() -> Policy {
    let [runtime, period] = [20, 10].map(Duration::from_millis);
    Policy::Deadline(Reservation { runtime, deadline: period, period, reclaim: false })
}

fn cpus_of(thread: &Thread) -> Vec<u32> {
    let mask = sched_getaffinity(Pid::from_raw(thread.task.tid)).expect("it sleeps");
    (0..1024).filter(|cpu| mask.is_set(*cpu as usize)).collect()
}

/// A thread that was moved, but could not be given its policy there, has a part of what was wanted.
#[test]
fn a_thread_that_could_not_be_moved_goes_back() {
    let usable: Vec<u32> = Topology::read().allowed.into_iter().collect();
    let &[first, second, ..] = usable.as_slice() else {
        return println!("SKIPPED: one CPU");
    };
    with_thread(|thread| {
        let mut applier = Applier::new("t", Path::new("/nonexistent"), |_| {});
        let mut placed = |outline: Outline| {
            applier.outline = outline;
            (applier.place(from_ref(thread)).len(), cpus_of(thread))
        };
        assert_eq!(placed(outline(Some(second), impossible())), (1, vec![second]));
        assert_eq!(placed(outline(None, Policy::Other)), (0, usable.clone()), "never placed before");
        assert_eq!(placed(outline(Some(first), Policy::Other)), (0, vec![first]));
        assert_eq!(placed(outline(Some(second), impossible())), (1, vec![second]));
        assert_eq!(placed(outline(Some(first), Policy::Other)), (0, vec![first]));
    });
}

/// The outline before is made again, as the supervisor does it.
#[test]
fn a_weight_goes_back_after_an_outline_that_could_not_be_made() {
    let base = tempfile::tempdir().expect("a folder");
    let edge = base.path().join("ringroad-t.edge");
    fs::create_dir(&edge).expect("made");
    fs::write(edge.join("cpu.shares"), "").expect("written");
    let outline = |groups: &[(&str, u32)]| {
        let group = |(name, weight): &(&str, u32)| Group {
            name: (*name).to_owned(),
            shares: Shares { weight: *weight, quota: None },
        };
        Outline { groups: groups.iter().map(group).collect(), ..Outline::default() }
    };
    let weight = || fs::read_to_string(edge.join("cpu.shares")).expect("a file");
    let mut applier = Applier::new("t", base.path(), |_| {});
    let (version, base, home) = (Version::V1, base.path().to_owned(), base.path().to_owned());
    applier.host.cpu = Ok(Hierarchy { version, base, home });
    let before = outline(&[("edge", 100)]);
    applier.make(&before).expect("it is there");
    assert_eq!(weight(), "1024");
    // The folder of the other one has no control files.
    applier.make(&outline(&[("edge", 200), ("guest", 100)])).expect_err("nothing to write to");
    assert_eq!(weight(), "2048");
    applier.make(&before).expect("it is there");
    assert_eq!(weight(), "1024");
    fs::remove_file(edge.join("cpu.shares")).expect("it was there");
}

/// As with one that the kernel manages itself.
#[test]
fn an_interrupt_that_cannot_be_moved_is_reported_once() {
    let interrupt = |number| Interrupt {
        interface: "eth0".to_owned(),
        irq: Irq { number, name: "x".to_owned() },
        cpus: CpuSet::from_cpus([0]).expect("a CPU"),
    };
    // No host has such interrupts.
    let outline = Outline {
        interrupts: [u32::MAX - 1, u32::MAX].map(interrupt).into(),
        ..outline(None, Policy::Other)
    };
    let mut applier = Applier::new("t", Path::new("/nonexistent"), |_| {});
    let mut told = || {
        applier.make(&outline).expect("the rest is made");
        Vec::from_iter(applier.place(&[]).iter().map(ToString::to_string))
    };
    let [first, second] = [told(), told()];
    let line = "interrupts 4294967294 of eth0, 4294967295 of eth0 stay where they are: ";
    assert!(matches!(first.as_slice(), [only] if only.starts_with(line)), "{first:?}");
    assert!(second.is_empty(), "{second:?}");
    assert!(applier.undos().is_empty(), "nothing is to be undone");
    assert_eq!(applier.outline, outline, "it is in force");
}
