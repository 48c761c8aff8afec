//! NAPI threads of kernel routers: placed whenever they have changed, and controlled for a guarantee by the counters of their router.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use config::{CpuSet, Policy};
use sched::costs::Costs;
use sched::promises::Promises;
use sched::{ApplyError, Class, CpuNeighbours, Outline, Placement, Schedule, Slot, Thread, ThreadIdentity};

use super::stage::Stage;
use crate::costs::{hertz, machine};
use crate::kernels::napi::Napi;
use crate::thread_placement::{OutlineApplier, Planned};

const SECOND: Duration = Duration::from_secs(1);
/// Interval between two checks of the guarantees.
const TICK: Duration = Duration::from_millis(100);

/// A kernel router with one pair.
fn file(keys: &str) -> String {
    format!(
        "[[router]]\nname = \"edge\"\nengine = \"kernel\"\n{keys}\n\
         [[router.nic]]\nname = \"wan\"\nattach = \"veth:rr-wan\"\naddress = \"192.0.2.1/24\"\n"
    )
}

/// Outline of its only thread, on CPU 0.
fn outline() -> Outline {
    let slot = Slot {
        router: "edge".to_owned(),
        class: Class::Napi { nic: 0, queue: 0 },
        name: "edge/wan-napi0".to_owned(),
        schedule: Schedule {
            cpus: CpuSet::from_cpus([0]),
            placement: Placement::Pin,
            policy: Policy::Other,
            island: None,
            group: None,
        },
        neighbours: CpuNeighbours::Nobody,
    };
    Outline { slots: vec![slot], ..Outline::default() }
}

/// Records the threads to place.
#[derive(Clone, Default)]
struct Recorder(Rc<RefCell<Vec<Thread>>>);

impl OutlineApplier for Recorder {
    fn make(&mut self, _: &Outline) -> Result<(), ApplyError> {
        Ok(())
    }

    fn place(&mut self, threads: &[Thread]) -> Vec<ApplyError> {
        *self.0.borrow_mut() = threads.to_vec();
        Vec::new()
    }

    fn try_lock(&mut self, _: &Outline) -> Result<bool, ApplyError> {
        Ok(true)
    }

    fn unlock(&mut self) {}

    fn locked_out(&self) -> ApplyError {
        unreachable!("there is no other run")
    }

    fn let_go(&mut self) {}

    fn undo_all(&mut self) -> Vec<ApplyError> {
        Vec::new()
    }
}

impl Recorder {
    /// Names, classes and IDs of the threads that were placed last.
    fn placed(&self) -> Vec<(String, Class, i32)> {
        let of = |thread: &Thread| (thread.name.clone(), thread.class.clone(), thread.task.tid);
        self.0.borrow().iter().map(of).collect()
    }
}

/// Thread of this process that stands for a kernel thread; it ends when this is dropped.
struct Stand {
    task: ThreadIdentity,
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Stand {
    fn new() -> Self {
        let (end, ended): (Sender<()>, Receiver<()>) = channel();
        let (tell, told) = channel();
        let thread = std::thread::spawn(move || {
            let tid = rustix::thread::gettid().as_raw_nonzero().get();
            tell.send(tid).expect("somebody waits");
            let _ = ended.recv();
        });
        let own = std::process::id().cast_signed();
        let task = ThreadIdentity::look(own, told.recv().expect("its number")).expect("it runs");
        Self { task, end: Some(end), thread: Some(thread) }
    }

    fn napi(&self, name: &str) -> Napi {
        Napi { name: format!("edge/{name}"), nic: "wan".to_owned(), task: self.task }
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        drop(self.end.take());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[test]
fn threads_are_placed_when_they_are_seen_and_when_an_interface_was_made_anew() {
    let recorder = Recorder::default();
    let mut stage = Stage::start_with(&file("pin = { vhost = \"0\" }"), Box::new(recorder.clone()));
    let (first, second, other) = (Stand::new(), Stand::new(), Stand::new());
    stage.kernel.has_threads("edge", &[first.napi("wan-napi0"), second.napi("wan-napi1")]);
    stage.comes_up();
    let now = stage.now;
    let supervisor = stage.supervisor();
    supervisor.placement.pending.queue(Planned { outline: outline(), ..Planned::default() }, now);
    supervisor.attend_following(now);
    stage.after(SECOND).expect("it goes on");
    let placed = |recorder: &Recorder, queue: u32, stand: &Stand| {
        let name = format!("edge/wan-napi{queue}");
        recorder.placed().contains(&(name, Class::Napi { nic: 0, queue }, stand.task.tid))
    };
    stage.until(|_| placed(&recorder, 0, &first) && placed(&recorder, 1, &second));
    let shown = |stage: &mut Stage| {
        let router = stage.plan().routers[0].clone();
        let now = stage.now;
        stage.supervisor().kernel_status(&router, now).threads
    };
    let names: Vec<String> = shown(&mut stage).into_iter().map(|thread| thread.name).collect();
    assert_eq!(names, ["edge/wan-napi0", "edge/wan-napi1"]);
    // The interface was deleted, and created again with another thread.
    stage.kernel.has_threads("edge", &[other.napi("wan-napi0")]);
    stage.after(SECOND).expect("it goes on");
    stage.until(|_| placed(&recorder, 0, &other));
    assert_eq!(recorder.placed().len(), 1);
}

#[test]
fn a_change_has_threads_looked_for_at_once() {
    let mut stage = Stage::up(&file("threaded = true"));
    stage.until(|stage| stage.supervisor().kernel_is_seen("edge"));
    let stand = Stand::new();
    stage.kernel.has_threads("edge", &[stand.napi("wan-napi0")]);
    let request = api::Request::Set {
        router: "edge".to_owned(),
        key: "rp_filter".to_owned(),
        value: "strict".to_owned(),
    };
    let _client = stage.client(&request);
    // The clock has not advanced.
    stage.until(|stage| {
        let router = stage.plan().routers[0].clone();
        let now = stage.now;
        !stage.supervisor().kernel_status(&router, now).threads.is_empty()
    });
}

/// Run with a guarantee of 10 kpps, and the counters of its router.
struct Kept {
    stage: Stage,
    taken_in: u64,
    lost: u64,
}

impl Kept {
    fn new() -> Self {
        let text = file("guarantee = \"10kpps\"\npin = { vhost = \"0\" }");
        let mut stage = Stage::up(&text);
        let plan = config::parse(&text, "x.toml").expect("a good file");
        let now = stage.now;
        let known = || (Costs::nowhere(None, machine(), now), hertz());
        let promises = Promises::make((&plan, &outline()), None, known, now).expect("it can be kept");
        stage.supervisor().placement.promises = promises;
        Self { stage, taken_in: 0, lost: 0 }
    }

    /// Advances by `number` ticks, in each of which this many frames are received, and lost before the pair.
    fn ticks(&mut self, number: u32, taken_in: u64, lost: u64) {
        for _ in 0..number {
            (self.taken_in, self.lost) = (self.taken_in + taken_in, self.lost + lost);
            let kernel = self.stage.kernel.clone();
            kernel.count("edge", "wan.rx.frames", self.taken_in);
            kernel.count("edge", "wan.rx.bytes", self.taken_in * 60);
            kernel.count("edge", "wan.queue.drop_full", self.lost);
            kernel.spend("edge", "edge/wan-napi0", self.taken_in * 1000);
            self.stage.after(TICK).expect("it goes on");
            self.stage.plane().serve(&BTreeMap::new());
            self.stage.until(|stage| stage.supervisor().request_router.merged_replies.is_empty());
        }
    }

    fn standing(&mut self) -> String {
        let promises = self.stage.supervisor().placement.promises.as_ref();
        promises.and_then(|promises| promises.standing("edge")).expect("it is promised")
    }
}

#[test]
fn a_promise_to_a_kernel_router_is_kept_by_what_its_interfaces_count() {
    let mut kept = Kept::new();
    kept.ticks(3, 1000, 0);
    assert_eq!(kept.standing(), "kept; 10000 of 10000 packets/s delivered");
    kept.ticks(20, 500, 800);
    assert!(kept.standing().starts_with("not kept: "), "{}", kept.standing());
    assert_eq!(kept.stage.lines("its guarantee is not kept").len(), 1);
    kept.ticks(20, 1000, 200);
    assert_eq!(kept.standing(), "kept; 10000 of 12000 packets/s delivered");
    assert_eq!(kept.stage.lines("its guarantee is kept again").len(), 1);
}

#[test]
fn only_routers_with_a_guarantee_are_read_for_promises() {
    let mut stage = Stage::up(&file("threaded = true"));
    assert!(stage.supervisor().kernels_promised().is_empty());
    assert_eq!(Kept::new().stage.supervisor().kernels_promised(), ["edge"]);
}
