//! Outlines carried out by a real kernel, and taken back. Where this host lacks what a test needs, it says so and is skipped.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use config::CpuSet;
use rustix::thread::{Pid, sched_getaffinity};
use sched::{
    Applier, ApplyError, Class, Host, Interrupt, Irq, Known, Outline, RealTime, Task, Thread, Undo, Version,
    attributes, outline,
};
use support::{Stranger, all_below};
use tempfile::TempDir;

/// One test at a time: the root cpuset is there once.
fn alone() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why a test with these needs cannot be had here, said aloud.
fn lacks(known: &Known, needs: &[&str]) -> bool {
    let missing = needs.iter().find_map(|need| {
        let lacks = |found: &Result<sched::Hierarchy, String>| found.as_ref().err().cloned();
        match *need {
            "nice" => (known.host.priority < 99).then(|| "no CAP_SYS_NICE".to_owned()),
            "real-time group" => {
                (known.host.group_rt_us == Some(0)).then(|| "no rt_runtime_us here".to_owned())
            }
            "cpu" => lacks(&known.host.cpu),
            "cpuset" => lacks(&known.host.cpuset),
            _ => (known.topology.allowed.len() < 2).then(|| "one CPU".to_owned()),
        }
    });
    let Some(reason) = missing else { return false };
    println!("SKIPPED: {reason}");
    true
}

/// A thread that sleeps, or that burns, until it is dropped.
struct Worker {
    thread: Thread,
    stop: Arc<AtomicBool>,
    join: Option<JoinHandle<()>>,
}

impl Worker {
    fn start(class: Class, burns: bool) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (tell, told) = channel();
        let seen = stop.clone();
        let body = move || {
            tell.send(rustix::thread::gettid()).expect("somebody listens");
            while !seen.load(Ordering::Relaxed) {
                if burns {
                    std::hint::spin_loop();
                } else {
                    std::thread::park_timeout(Duration::from_millis(20));
                }
            }
        };
        let join = std::thread::spawn(body);
        let tid = told.recv().expect("a number").as_raw_nonzero().get();
        let pid = i32::try_from(std::process::id()).expect("a number of a process");
        let (router, name) = ("edge".to_owned(), format!("edge/{class:?}"));
        let task = Task::look(pid, tid).expect("it runs");
        Self { thread: Thread { router, class, name, task }, stop, join: Some(join) }
    }

    fn tid(&self) -> i32 {
        self.thread.task.tid
    }

    fn cpus(&self) -> Vec<usize> {
        let set = sched_getaffinity(Pid::from_raw(self.tid())).expect("its CPUs");
        (0..1024).filter(|cpu| set.is_set(*cpu)).collect()
    }

    fn cpu_time(&self) -> Duration {
        let path = format!("/proc/self/task/{}/schedstat", self.tid());
        let text = fs::read_to_string(path).expect("its time");
        Duration::from_nanos(text.split(' ').next().and_then(|ns| ns.parse().ok()).expect("nanoseconds"))
    }

    /// In which group of a controller's hierarchy it is.
    fn group(&self, controller: &str) -> String {
        let text = fs::read_to_string(format!("/proc/self/task/{}/cgroup", self.tid())).expect("its groups");
        let mut lines = text.lines().map(|line| line.splitn(3, ':').skip(1).collect::<Vec<_>>());
        let line = lines.find(|line| line[0].split(',').any(|name| name == controller) || line[0].is_empty());
        line.expect("a group")[1].to_owned()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(join) = self.join.take() {
            join.join().expect("a worker ends");
        }
    }
}

fn vcpu(burns: bool) -> Worker {
    Worker::start(Class::Vcpu(0), burns)
}

fn vhost(burns: bool) -> Worker {
    Worker::start(Class::Vhost { nic: None, direction: None, pair: None }, burns)
}

fn plan(lines: &str) -> config::Plan {
    let text =
        format!("[[router]]\nname = \"edge\"\n{lines}\n[[router.nic]]\nname = \"a\"\nattach = \"null\"\n");
    config::parse(&text, "f.toml").expect("a good file")
}

#[track_caller]
fn outlined(lines: &str, known: &Known) -> Outline {
    let plan = plan(lines);
    outline(&plan, known).unwrap_or_else(|refused| panic!("{}", sched::refused(&plan, refused)))
}

fn run() -> String {
    format!("t{}", std::process::id())
}

/// The folder of all runs of these tests.
fn shared() -> &'static Path {
    static FOLDER: LazyLock<TempDir> = LazyLock::new(|| {
        let mode = Permissions::from_mode(0o700);
        tempfile::Builder::new().permissions(mode).tempdir().expect("a folder of its own")
    });
    FOLDER.path()
}

fn applier() -> Applier {
    Applier::new(&run(), shared(), |_| {})
}

#[track_caller]
fn place(applier: &mut Applier, workers: &[&Worker]) {
    let errors = lasting(applier, workers, |_| false);
    assert!(errors.is_empty(), "{errors:?}");
}

/// What is left of the errors when those that pass, and are not `meant`, have passed.
fn lasting(
    applier: &mut Applier,
    workers: &[&Worker],
    meant: impl Fn(&ApplyError) -> bool,
) -> Vec<ApplyError> {
    let threads: Vec<Thread> = workers.iter().map(|worker| worker.thread.clone()).collect();
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let errors = applier.place(&threads);
        if errors.iter().all(|error| meant(error) || !error.is_passing()) || Instant::now() > end {
            return errors;
        }
        sleep(Duration::from_millis(5));
    }
}

/// Everything of this test that is still on the host.
fn left_over(host: &Host) -> Vec<PathBuf> {
    let bases = [&host.cpu, &host.cpuset].map(|found| found.as_ref().ok().map(|found| found.base.clone()));
    // One folder in version 2.
    let bases = BTreeSet::from(bases);
    let entries = bases.into_iter().flatten().filter_map(|base| fs::read_dir(base).ok()).flatten().flatten();
    let ours = entries.map(|entry| entry.path()).filter(|path| path.display().to_string().contains(&run()));
    ours.collect()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).trim().to_owned()
}

fn balance(host: &Host) -> Option<String> {
    let found = host.cpuset.as_ref().ok().filter(|found| found.version == Version::V1)?;
    Some(read(&found.base.join("cpuset.sched_load_balance")))
}

/// What there is once on a host and must be as it was: who balances load, and which controllers groups have.
fn settings(host: &Host) -> Vec<Option<String>> {
    let bases = [&host.cpu, &host.cpuset].map(|found| found.as_ref().ok().map(|found| found.base.clone()));
    let controllers = |base: &PathBuf| fs::read_to_string(base.join("cgroup.subtree_control")).ok();
    bases.iter().map(|base| base.as_ref().and_then(controllers)).chain([balance(host)]).collect()
}

/// The host, and the CPUs of which some can be made exclusive; none where that cannot be, which is told.
fn exclusive_can_be() -> Option<(Known, Vec<u32>)> {
    let known = Known::read(&plan(""));
    let cpus = known.topology.allowed.iter().copied().collect();
    (!lacks(&known, &["nice", "two CPUs", "cpuset"])).then_some((known, cpus))
}

const RESERVED: &str = "sched = { vcpu = { policy = \"deadline\", runtime = \"2ms\", period = \"10ms\" } }";

/// Nanoseconds of the reservation that RESERVED is for.
fn assert_reserved(worker: &Worker, runtime: u64, period: u64) {
    let held = attributes(worker.tid()).expect("a thread");
    assert!(held.is_deadline());
    assert_eq!((held.runtime, held.deadline, held.period), (runtime, period, period));
}

/// A burning thread's time on a CPU over a while is no more than its share and one budget on either side.
fn at_most_its_share(worker: &Worker, share: f64, budget: Duration) {
    let (start, used) = (Instant::now(), worker.cpu_time());
    sleep(Duration::from_millis(500));
    let used = worker.cpu_time() - used;
    let most = start.elapsed().mul_f64(share) + 2 * budget + Duration::from_millis(10);
    assert!(used <= most, "{used:?} of at most {most:?}");
}

/// An interrupt of this host that may be moved, with where it is.
fn movable() -> Option<(u32, String)> {
    let entries = fs::read_dir("/proc/irq").ok()?.flatten();
    let mut numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    numbers.find_map(|number| {
        let path = format!("/proc/irq/{number}/smp_affinity_list");
        let held = fs::read_to_string(&path).ok()?.trim().to_owned();
        fs::OpenOptions::new().write(true).open(&path).ok()?.write_all(held.as_bytes()).ok()?;
        Some((number, held))
    })
}

/// A process that is ended with this.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The number that the kernel gave away last, in this namespace of processes.
const LAST: &str = "/proc/sys/kernel/ns_last_pid";

/// Whether a number cannot be chosen here, which is told.
fn lacks_numbers() -> bool {
    let lacks = fs::OpenOptions::new().write(true).open(LAST).is_err();
    if lacks {
        println!("SKIPPED: {LAST} cannot be written");
    }
    lacks
}

/// Starts something until it has a number that was had before.
fn again<T>(number: i32, start: impl Fn() -> (i32, T)) -> T {
    let end = Instant::now() + HANGS;
    loop {
        fs::write(LAST, (number - 1).to_string()).expect("a number");
        let (given, started) = start();
        if given == number {
            return started;
        }
        assert!(Instant::now() < end, "others take number {number}");
    }
}

/// Nobody outside needs a patience like this, even on a busy host.
const HANGS: Duration = Duration::from_secs(120);

mod alone {
    use super::*;

    #[test]
    fn nobody_who_may_look_at_groups_can_hold_up_who_makes_them() {
        let _alone = alone();
        let known = Known::read(&plan(""));
        if lacks(&known, &["nice", "two CPUs", "cpuset", "cpu"]) || !rustix::process::geteuid().is_root() {
            return println!("SKIPPED: only root can be somebody else");
        }
        let before = settings(&known.host);
        let cpu = *known.topology.allowed.last().expect("a CPU");
        let shares = "vhost = { policy = \"shares\", weight = 2 }";
        let reserved = RESERVED.replace(" }}", &format!(" }}, {shares} }}"));
        let outline = outlined(&format!("pin = {{ vcpu = \"{cpu}\" }}\n{reserved}"), &known);
        let bases =
            [&known.host.cpu, &known.host.cpuset].map(|found| found.as_ref().expect("one").base.clone());
        let paths: Vec<PathBuf> =
            bases.iter().map(PathBuf::as_path).chain([shared()]).flat_map(all_below).collect();
        for way in ["-s", "-x"] {
            let stranger = Stranger::lock(way, &paths).expect("a process of nobody");
            let held = stranger.held();
            assert!(bases.iter().all(|base| held.contains(base)), "{held:?}");
            let (mut applier, outline) = (applier(), outline.clone());
            let (tell, told) = channel();
            let work = std::thread::spawn(move || {
                let made = applier.make(&outline).map_err(|error| error.to_string());
                // Nobody listens any more if this took too long.
                let _ = tell.send((made, applier.undo_all().len()));
            });
            let outcome = told.recv_timeout(HANGS);
            drop(stranger);
            work.join().expect("it ends");
            assert_eq!(outcome, Ok((Ok(()), 0)), "while somebody holds {way} locks");
            assert!(left_over(&known.host).is_empty(), "{:?}", left_over(&known.host));
            assert_eq!(settings(&known.host), before);
        }
    }

    #[test]
    fn places_and_priorities() {
        let _alone = alone();
        let known = Known::read(&plan(""));
        if lacks(&known, &["nice", "real-time group", "two CPUs"]) {
            return;
        }
        let cpus: Vec<u32> = known.topology.allowed.iter().copied().collect();
        let (first, second) = (cpus[0], cpus[1]);
        let pin = |vcpu, vhost| format!("pin = {{ vcpu = \"{vcpu}\", vhost = \"{vhost}\" }}\n");
        let policies = "sched = { vcpu = { policy = \"fifo\", priority = 5 }, vhost = { policy = \"rr\", priority = 4 } }";
        let (vcpu, vhost) = (vcpu(false), vhost(false));
        let mut applier = applier();
        applier.make(&outlined(&(pin(first, second) + policies), &known)).expect("nothing to make");
        place(&mut applier, &[&vcpu, &vhost]);
        let held = [&vcpu, &vhost].map(|worker| attributes(worker.tid()).expect("a thread"));
        assert_eq!(held.map(|held| (held.policy, held.priority)), [(1, 5), (2, 4)], "SCHED_FIFO, SCHED_RR");
        assert_eq!((vcpu.cpus(), vhost.cpus()), (vec![first as usize], vec![second as usize]));
        // The other way round, and ordinary.
        applier.make(&outlined(&pin(second, first), &known)).expect("nothing to make");
        place(&mut applier, &[&vcpu, &vhost]);
        assert!([&vcpu, &vhost].iter().all(|worker| attributes(worker.tid()).expect("a thread").is_other()));
        assert_eq!((vcpu.cpus(), vhost.cpus()), (vec![second as usize], vec![first as usize]));
        assert!(applier.undos().is_empty());
    }

    #[test]
    fn a_pinned_reservation_has_an_exclusive_cpuset() {
        let _alone = alone();
        let Some((known, cpus)) = exclusive_can_be() else { return };
        let before = settings(&known.host);
        let on = |cpu| format!("{RESERVED}\npin = {{ vcpu = \"{cpu}\" }}\naffinity = {{ vhost = \"free\" }}");
        let (vcpu, vhost) = (vcpu(true), vhost(false));
        let mut applier = applier();
        applier.make(&outlined(&on(cpus[1]), &known)).expect("a cpuset");
        place(&mut applier, &[&vcpu, &vhost]);
        assert_reserved(&vcpu, 2_000_000, 10_000_000);
        assert_eq!(vcpu.cpus(), [cpus[1] as usize]);
        assert!(
            vcpu.group("cpuset").ends_with(&format!("ringroad-{}.cpus{}", run(), cpus[1])),
            "{}",
            vcpu.group("cpuset")
        );
        assert!(attributes(vhost.tid()).expect("a thread").is_other());
        if balance(&known.host).is_some() {
            assert_eq!(balance(&known.host).as_deref(), Some("0"));
        }
        at_most_its_share(&vcpu, 0.2, Duration::from_millis(2));
        // More time, in place.
        let longer = on(cpus[1]).replace("\"2ms\"", "\"3ms\"");
        applier.make(&outlined(&longer, &known)).expect("the same cpuset");
        place(&mut applier, &[&vcpu, &vhost]);
        assert_reserved(&vcpu, 3_000_000, 10_000_000);
        // Another CPU.
        applier.make(&outlined(&on(cpus[0]), &known)).expect("another cpuset");
        place(&mut applier, &[&vcpu, &vhost]);
        assert_reserved(&vcpu, 2_000_000, 10_000_000);
        assert_eq!(vcpu.cpus(), [cpus[0] as usize]);
        assert_eq!(left_over(&known.host).len(), 1, "{:?}", left_over(&known.host));
        assert!(applier.undo_all().is_empty());
        assert!(left_over(&known.host).is_empty(), "{:?}", left_over(&known.host));
        assert_eq!(settings(&known.host), before);
    }

    #[test]
    fn who_moves_to_another_exclusive_cpu_takes_all_of_its_time_along() {
        let _alone = alone();
        let Some((known, cpus)) = exclusive_can_be() else { return };
        let before = settings(&known.host);
        let on = |cpu, vcpu: &str, vhost: &str| {
            let class =
                |runtime| format!("{{ policy = \"deadline\", runtime = \"{runtime}\", period = \"10ms\" }}");
            let sched = format!("sched = {{ vcpu = {}, vhost = {} }}", class(vcpu), class(vhost));
            outlined(&format!("{sched}\npin = {{ vcpu = \"{cpu}\", vhost = \"{cpu}\" }}"), &known)
        };
        let (vcpu, vhost) = (vcpu(true), vhost(false));
        let mut applier = applier();
        for (cpu, first, second) in
            [(cpus[1], "3ms", "2ms"), (cpus[0], "2ms", "400us"), (cpus[1], "8ms", "400us")]
        {
            applier.make(&on(cpu, first, second)).expect("a cpuset");
            place(&mut applier, &[&vcpu, &vhost]);
            assert_eq!((vcpu.cpus(), vhost.cpus()), (vec![cpu as usize], vec![cpu as usize]));
        }
        assert_reserved(&vcpu, 8_000_000, 10_000_000);
        assert_reserved(&vhost, 400_000, 10_000_000);
        assert!(applier.undo_all().is_empty());
        assert_eq!(settings(&known.host), before);
    }

    #[test]
    fn who_is_outside_of_exclusive_cpus_keeps_its_own() {
        let _alone = alone();
        let Some((known, cpus)) = exclusive_can_be() else { return };
        let pinned = format!("pin = {{ vcpu = \"{}\", vhost = \"{}\" }}", cpus[1], cpus[0]);
        let (vcpu, vhost) = (vcpu(false), vhost(false));
        let mut applier = applier();
        for lines in [pinned.clone(), format!("{RESERVED}\n{pinned}"), pinned] {
            applier.make(&outlined(&lines, &known)).expect("a cpuset, or nothing to make");
            place(&mut applier, &[&vcpu, &vhost]);
            assert_eq!(
                (vcpu.cpus(), vhost.cpus()),
                (vec![cpus[1] as usize], vec![cpus[0] as usize]),
                "{lines}"
            );
        }
        // One of them without any: it has all that there are, as before.
        let all: Vec<usize> = cpus.iter().map(|cpu| *cpu as usize).collect();
        for lines in [format!("{RESERVED}\npin = {{ vcpu = \"{}\" }}", cpus[1]), String::new()] {
            let free = lines + "\naffinity = { vhost = \"free\" }";
            applier.make(&outlined(&free, &known)).expect("a cpuset, or nothing to make");
            place(&mut applier, &[&vcpu, &vhost]);
        }
        assert_eq!(vhost.cpus(), all);
        assert!(applier.undo_all().is_empty());
    }

    #[test]
    fn a_run_that_ends_leaves_others_what_they_have() {
        let _alone = alone();
        let known = Known::read(&plan(""));
        if lacks(&known, &["nice", "cpu"]) {
            return;
        }
        let before = settings(&known.host);
        let shares = outlined("sched = { policy = \"shares\", weight = 3 }", &known);
        let [mut first, mut second] =
            ["a", "b"].map(|n| Applier::new(&format!("{}{n}", run()), shared(), |_| {}));
        first.make(&shares).expect("a group");
        second.make(&shares).expect("a group");
        assert!(first.undo_all().is_empty());
        let hierarchy = known.host.cpu.as_ref().expect("there is one");
        let group = hierarchy.base.join(format!("ringroad-{}b.edge", run()));
        let weight =
            ["cpu.shares", "cpu.weight"].iter().find_map(|file| fs::read_to_string(group.join(file)).ok());
        assert!(
            weight.is_some_and(|weight| ["3072", "300"].contains(&weight.trim())),
            "it weighs what it did"
        );
        assert!(second.undo_all().is_empty());
        assert!(left_over(&known.host).is_empty(), "{:?}", left_over(&known.host));
        assert_eq!(settings(&known.host), before);
    }

    #[test]
    fn overlapping_reservations_of_one_run_make_room() {
        let _alone = alone();
        let known = Known::read(&plan(""));
        let cpus: Vec<u32> = known.topology.allowed.iter().copied().collect();
        if lacks(&known, &["nice", "two CPUs", "cpuset"]) || cpus.len() < 3 && known.topology.cpus.len() < 3 {
            println!("SKIPPED: a set of two CPUs that are not all");
            return;
        }
        let on = |set: String| format!("{RESERVED}\naffinity = {{ vcpu = \"{set}\" }}");
        let vcpu = vcpu(false);
        let mut applier = applier();
        for set in [format!("{}", cpus[0]), format!("{},{}", cpus[0], cpus[1]), format!("{}", cpus[1])] {
            applier.make(&outlined(&on(set), &known)).expect("a cpuset");
            place(&mut applier, &[&vcpu]);
            assert_reserved(&vcpu, 2_000_000, 10_000_000);
        }
        assert!(applier.undo_all().is_empty());
        assert!(left_over(&known.host).is_empty());
    }

    #[test]
    fn what_the_kernel_does_not_admit_is_explained() {
        let _alone = alone();
        let mut known = Known::read(&plan(""));
        if lacks(&known, &["nice", "two CPUs", "cpuset"]) || known.host.real_time.runtime_us.is_none() {
            return;
        }
        // As if nothing were limited here.
        known.host.real_time = RealTime { runtime_us: None, period_us: 1_000_000 };
        known.host.fair_server.clear();
        let cpu = *known.topology.allowed.last().expect("a CPU");
        let greedy = RESERVED.replace("\"2ms\"", "\"9990us\"");
        let vcpu = vcpu(false);
        let mut applier = applier();
        applier
            .make(&outlined(&format!("{greedy}\npin = {{ vcpu = \"{cpu}\" }}"), &known))
            .expect("a cpuset");
        let errors = lasting(&mut applier, &[&vcpu], |error| error.to_string().contains("admits"));
        let [error] = errors.as_slice() else { panic!("{errors:?}") };
        let told = error.to_string();
        assert!(told.contains("(0.999 of a CPU)") && told.contains("the kernel admits 0."), "{told}");
        assert!(error.is_passing() && error.of_thread() == Some(vcpu.thread.name.as_str()), "{told}");
        drop(applier);
        assert!(left_over(&known.host).is_empty());
    }

    #[test]
    fn groups_hold_threads_to_their_weight_and_quota() {
        let _alone = alone();
        let known = Known::read(&plan(""));
        if lacks(&known, &["nice", "cpu"]) {
            return;
        }
        let shares = |weight, more| {
            let burner = format!("{{ policy = \"shares\", weight = {weight}{more} }}");
            format!("affinity = {{ vcpu = \"free\", vhost = \"free\" }}\nsched = {{ vcpu = {burner} }}")
        };
        let (vcpu, vhost) = (vcpu(true), vhost(false));
        let mut applier = applier();
        applier.make(&outlined(&shares(2, ", quota = 0.2"), &known)).expect("two groups");
        place(&mut applier, &[&vcpu, &vhost]);
        let group = |part: &str| format!("ringroad-{}.edge{part}", run());
        assert!(vcpu.group("cpu").ends_with(&group(".vcpu")) && vhost.group("cpu").ends_with(&group("")));
        at_most_its_share(&vcpu, 0.2, Duration::from_millis(5));
        let hierarchy = known.host.cpu.as_ref().expect("there is one");
        let folder = hierarchy.base.join(group(".vcpu"));
        let weight = match hierarchy.version {
            Version::V1 => ("cpu.shares", ["2048", "3072"]),
            Version::V2 => ("cpu.weight", ["200", "300"]),
        };
        assert_eq!(read(&folder.join(weight.0)), weight.1[0]);
        applier.make(&outlined(&shares(3, ""), &known)).expect("the same groups");
        place(&mut applier, &[&vcpu, &vhost]);
        assert_eq!(read(&folder.join(weight.0)), weight.1[1]);
        let unlimited = match hierarchy.version {
            Version::V1 => read(&folder.join("cpu.cfs_quota_us")) == "-1",
            Version::V2 => read(&folder.join("cpu.max")).starts_with("max"),
        };
        assert!(unlimited);
        // Out of the groups, and they are gone.
        applier.make(&outlined("affinity = { vcpu = \"free\" }", &known)).expect("nothing to make");
        place(&mut applier, &[&vcpu, &vhost]);
        assert!(left_over(&known.host).is_empty(), "{:?}", left_over(&known.host));
    }

    #[test]
    fn who_was_told_before_can_clean_up() {
        let _alone = alone();
        let known = Known::read(&plan(""));
        if lacks(&known, &["nice", "two CPUs", "cpuset", "cpu"]) {
            return;
        }
        let before = settings(&known.host);
        let cpu = *known.topology.allowed.last().expect("a CPU");
        let lines = format!(
            "pin = {{ vcpu = \"{cpu}\" }}\nsched = {{ vcpu = {{ policy = \"deadline\", runtime = \"2ms\", period = \"10ms\" }}, \
             vhost = {{ policy = \"shares\", weight = 2 }} }}"
        );
        let (vcpu, vhost) = (vcpu(false), vhost(false));
        let (tell, told) = channel();
        let mut applier = Applier::new(&run(), shared(), move |undo| {
            tell.send(serde_json::to_string(undo).expect("text")).expect("somebody listens");
        });
        applier.make(&outlined(&lines, &known)).expect("a cpuset and a group");
        place(&mut applier, &[&vcpu, &vhost]);
        assert_eq!(left_over(&known.host).len(), 2);
        // Killed: nobody undoes anything.
        std::mem::forget(applier);
        let told: Vec<String> = told.try_iter().collect();
        for _ in 0..2 {
            for text in told.iter().rev() {
                let undo: Undo = serde_json::from_str(text).expect("an undo");
                undo.now().unwrap_or_else(|error| panic!("{undo:?}: {error}"));
            }
        }
        assert!(left_over(&known.host).is_empty(), "{:?}", left_over(&known.host));
        assert_eq!(settings(&known.host), before);
    }

    #[test]
    fn interrupts_are_moved_and_go_back() {
        let _alone = alone();
        let known = Known::read(&plan(""));
        let Some((number, held)) = movable() else {
            println!("SKIPPED: no interrupt of this host can be moved");
            return;
        };
        let cpu = *known.topology.allowed.last().expect("a CPU");
        let irq = Irq { number, name: "x".to_owned() };
        let cpus = CpuSet::from_cpus([cpu]).expect("a CPU");
        let moved = Interrupt { interface: "eth0".to_owned(), irq, cpus };
        let path = format!("/proc/irq/{number}/smp_affinity_list");
        let mut applier = applier();
        applier
            .make(&Outline { interrupts: vec![moved], ..Outline::default() })
            .expect("one that can be moved");
        assert_eq!(read(Path::new(&path)), cpu.to_string());
        assert_eq!(applier.undos().len(), 1);
        applier.make(&Outline::default()).expect("nothing to make");
        place(&mut applier, &[]);
        assert_eq!(read(Path::new(&path)), held);
        assert!(applier.undos().is_empty());
    }

    #[test]
    fn a_thread_that_has_ended_is_no_lasting_error() {
        let _alone = alone();
        let known = Known::read(&plan(""));
        if lacks(&known, &["two CPUs"]) {
            return;
        }
        let mut ended = vcpu(false).thread.clone();
        ended.task.tid = i32::MAX;
        let mut applier = applier();
        let cpu = *known.topology.allowed.last().expect("a CPU");
        applier.make(&outlined(&format!("pin = {{ vcpu = \"{cpu}\" }}"), &known)).expect("nothing to make");
        let errors = applier.place(&[ended]);
        assert_eq!(errors.iter().map(|error| error.is_passing()).collect::<Vec<_>>(), [true]);
    }

    #[test]
    fn who_has_the_number_of_one_that_ended_is_not_touched() {
        let _alone = alone();
        let Some((known, cpus)) = exclusive_can_be() else { return };
        if lacks_numbers() {
            return;
        }
        let on = |cpu| format!("{RESERVED}\npin = {{ vcpu = \"{cpu}\" }}\naffinity = {{ vhost = \"free\" }}");
        let vcpu = vcpu(false);
        let thread = vcpu.thread.clone();
        let mut applier = applier();
        applier.make(&outlined(&on(cpus[1]), &known)).expect("a cpuset");
        place(&mut applier, &[&vcpu]);
        drop(vcpu);
        let other = again(thread.task.tid, || {
            let mut command = Command::new("chrt");
            let child = command.args(["--rr", "3", "cat"]).stdin(Stdio::piped()).spawn().expect("chrt");
            (child.id().cast_signed(), Ended(child))
        });
        let held =
            || attributes(thread.task.tid).map(|held| (held.policy, held.priority)).expect("it is there");
        let end = Instant::now() + HANGS;
        while held() != (2, 3) {
            assert!(Instant::now() < end, "chrt does nothing");
        }
        // Wherever the one that ended would have been made an ordinary thread.
        applier.make(&outlined(&on(cpus[0]), &known)).expect("another cpuset");
        assert_eq!(held(), (2, 3), "SCHED_RR");
        let errors = applier.place(std::slice::from_ref(&thread));
        assert!(errors.iter().all(ApplyError::is_passing) && errors.len() == 1, "{errors:?}");
        assert_eq!(held(), (2, 3), "SCHED_RR");
        applier.let_go();
        assert!(applier.undo_all().is_empty());
        assert_eq!(held(), (2, 3), "SCHED_RR");
        drop(other);
    }

    #[test]
    fn another_thread_with_a_number_that_was_placed_is_placed() {
        let _alone = alone();
        let known = Known::read(&plan(""));
        if lacks(&known, &["two CPUs"]) || lacks_numbers() {
            return;
        }
        let cpu = *known.topology.allowed.last().expect("a CPU");
        let mut applier = applier();
        applier.make(&outlined(&format!("pin = {{ vcpu = \"{cpu}\" }}"), &known)).expect("nothing to make");
        let first = vcpu(false);
        place(&mut applier, &[&first]);
        let task = first.thread.task;
        drop(first);
        // It is told apart by when it was started, which is counted in ticks.
        let second = loop {
            let second = again(task.tid, || {
                let worker = vcpu(false);
                (worker.tid(), worker)
            });
            if second.thread.task != task {
                break second;
            }
        };
        assert_ne!(second.cpus(), [cpu as usize]);
        place(&mut applier, &[&second]);
        assert_eq!(second.cpus(), [cpu as usize]);
    }
}
