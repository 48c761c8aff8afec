//! Objective: the kernel's scheduling of every thread matches the file's settings for CPUs and scheduler, also after `set`,
//! `apply` and the death of the process that runs the router; a setting that cannot be granted is refused with numbers before
//! anything starts; nothing of it remains on the host, not even after SIGKILL.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_setaffinity};
use serde_json::Value;
use support::{Flow, Namespace, Scheduled, Stage, Traces, UnprivilegedLocker, all_below, needs, ping, run};

const RINGROAD: &str = env!("CARGO_BIN_EXE_ringroad");
/// Timeout of every step, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(60);
/// Datagrams a second: far below the capacity of a third of a CPU.
const RATE: u32 = 1000;
const RIGHT: &str = "198.51.100.2:7032";

/// One router between two TAPs, with these lines of its own.
fn file(engine: &str, more: &str) -> String {
    format!(
        "[[router]]\nname = \"t32\"\nengine = \"{engine}\"\nvhost = \"per-nic\"\n{more}\n\
         [[router.nic]]\nname = \"left\"\nattach = \"tap:t32-l\"\naddress = \"192.0.2.1/24\"\nqueue_len = 8000\n\
         [[router.nic]]\nname = \"right\"\nattach = \"tap:t32-r\"\naddress = \"198.51.100.1/24\"\nqueue_len = 8000\n"
    )
}

/// KVM if available.
fn engine() -> &'static str {
    if support::missing(&[support::Need::Kvm]).is_none() { "kvm" } else { "process" }
}

/// Run of a file with a host on each side.
struct World {
    stage: Stage,
    left: Namespace,
    right: Namespace,
}

impl World {
    fn start(file: &str) -> Self {
        let mut stage =
            Stage::start_with_groups(RINGROAD, file, &["--json", "--name", "t32"]).expect("it starts");
        let left = stage.host("t32-l", "192.0.2.2/24", "192.0.2.1").expect("left");
        let right = stage.host("t32-r", "198.51.100.2/24", "198.51.100.1").expect("right");
        ping(left.command("busybox"), 3, &["198.51.100.2"]).expect("answers");
        Self { stage, left, right }
    }

    fn flow(&self) -> Flow {
        Flow::start(&self.left, &self.right, RIGHT.parse().expect("an address"), RATE).expect("a flow")
    }

    fn finish(self) {
        let Self { stage, left, right } = self;
        let counters = stage.finish(vec![left, right]).expect("nothing is left");
        assert_eq!(counters.faults("t32"), [""; 0]);
    }
}

fn ask(words: &[&str]) -> support::Finished {
    run(Command::new(RINGROAD).args(words), PATIENCE).expect("it ends")
}

fn set(setting: &str) {
    let done = ask(&["set", "t32", setting]);
    assert!(done.status.success(), "{setting}: {}", done.stderr);
}

/// Waits until all three threads of the router are scheduled as wanted.
#[track_caller]
fn are(wanted: impl Fn(&str, &Scheduled) -> bool) -> BTreeMap<String, Scheduled> {
    let end = Instant::now() + PATIENCE;
    loop {
        let threads = Scheduled::of_router(RINGROAD, "t32").expect("an answer");
        if threads.len() == 3 && threads.iter().all(|(name, scheduled)| wanted(name, scheduled)) {
            return threads;
        }
        assert!(Instant::now() < end, "{threads:#?}");
        thread::sleep(Duration::from_millis(20));
    }
}

fn is_vcpu(name: &str) -> bool {
    name.ends_with("/vcpu0")
}

/// Root folder of this host's cgroups with a controller; in version 1 each controller has its own.
fn hierarchy(controller: &str) -> Option<PathBuf> {
    let v1 = Path::new("/sys/fs/cgroup").join(controller);
    if v1.is_dir() {
        return Some(v1);
    }
    let known = fs::read_to_string("/sys/fs/cgroup/cgroup.controllers").ok()?;
    known.split_whitespace().any(|known| known == controller).then(|| "/sys/fs/cgroup".into())
}

/// Load-balancing flag that a deadline on one CPU changes for the whole host, and that must be restored.
fn balance() -> Option<String> {
    fs::read_to_string("/sys/fs/cgroup/cpuset/cpuset.sched_load_balance").ok()
}

/// Last CPU of the affinity mask; on a host with a single CPU nothing can be placed.
fn last_cpu() -> u32 {
    let cpus = rustix::thread::sched_getaffinity(None).expect("CPUs");
    (0..1024_u32).rev().find(|cpu| cpus.is_set(*cpu as usize)).expect("one at least")
}

/// Data-plane process of the only run here, if it has one now.
fn data_plane() -> Option<Pid> {
    let run: Value = serde_json::from_str(ask(&["ps", "--json"]).stdout.lines().next()?).expect("JSON");
    run["data_plane"].as_i64().and_then(|pid| Pid::from_raw(pid as i32))
}

/// Innermost group below `root` with this in its name that contains threads.
fn group_with(root: &Path, name: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(root).ok()?.flatten().map(|entry| entry.path()).filter(|path| path.is_dir());
    entries.into_iter().find_map(|path| {
        if let Some(inner) = group_with(&path, name) {
            return Some(inner);
        }
        let ours = path.to_string_lossy().contains(name);
        let is_used =
            |list: &str| fs::read_to_string(path.join(list)).is_ok_and(|text| !text.trim().is_empty());
        (ours && (is_used("tasks") || is_used("cgroup.threads"))).then_some(path)
    })
}

/// Keeps a CPU busy until dropped.
struct Burn {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Burn {
    fn on(cpu: u32) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let asked = stop.clone();
        let thread = thread::spawn(move || {
            let mut cpus = CpuSet::new();
            cpus.set(cpu as usize);
            sched_setaffinity(None, &cpus).expect("a CPU that may be used");
            while !asked.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Burn {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

mod alone {
    use super::*;

    #[test]
    fn real_time_priorities_are_those_of_the_file_and_of_set() {
        needs!(Root, Tun, Program("ip"), Program("busybox"), Program("chrt"), Program("nsenter"));
        let cpu = last_cpu();
        let world = World::start(&file(
            engine(),
            &format!(
                "pin = {{ vcpu = \"{cpu}\" }}\naffinity = {{ vhost = \"{cpu}\" }}\nsched = {{ vcpu = {{ policy = \"fifo\", priority = 20 }}, vhost = {{ policy = \"rr\", priority = 30 }} }}"
            ),
        ));
        let is = |fifo, rr| {
            move |name: &str, is: &Scheduled| {
                let wanted = if is_vcpu(name) { ("SCHED_FIFO", fifo) } else { ("SCHED_RR", rr) };
                (is.policy.as_str(), is.priority) == wanted && is.cpus == cpu.to_string()
            }
        };
        are(is(20, 30));
        let flow = world.flow();
        flow.reaches(500, PATIENCE).expect("it flows");
        for (n, setting) in ["sched.vcpu.priority=40", "sched.vhost.priority=41"].into_iter().enumerate() {
            set(setting);
            are(is(40, if n == 0 { 30 } else { 41 }));
        }
        // Two threads on one CPU, one with the higher priority, both always busy: neither starves.
        set("sched.vcpu.priority=50");
        flow.reaches(1500, PATIENCE).expect("it goes on");
        set("sched={ policy = \"other\" }");
        are(|_, is| is.policy == "SCHED_OTHER");
        let tally = flow.stop().expect("it ends");
        assert_eq!(tally.lost(), 0, "{tally:?}");
        world.finish();
    }

    #[test]
    fn what_cannot_be_reserved_is_refused_with_numbers() {
        needs!(Root, Tun);
        let cpu = last_cpu();
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("much.toml");
        let more = format!(
            "pin = {{ vcpu = \"{cpu}\", vhost = \"{cpu}\" }}\n\
             sched = {{ policy = \"deadline\", runtime = \"80ms\", period = \"200ms\" }}"
        );
        fs::write(&path, file(engine(), &more)).expect("a file");
        let before = Traces::now();
        for verb in ["check", "run"] {
            let done = run(Command::new(RINGROAD).arg(verb).arg(&path), PATIENCE).expect("it ends");
            assert!(!done.status.success(), "{verb}: {}", done.stdout);
            let line = done.stderr.lines().next().unwrap_or_default();
            // Three threads of 0.4 each.
            assert!(
                line.contains("much.toml:") && line.contains("router.sched") && line.contains("1.2"),
                "{verb}: {}",
                done.stderr
            );
        }
        assert_eq!(Traces::left(&before, PATIENCE), [""; 0]);
    }

    #[test]
    fn nobody_else_can_hold_up_a_run_by_what_he_may_open() {
        needs!(Root, Tun, Program("ip"), Program("busybox"), Program("bash"), Program("flock"));
        let bases: Vec<PathBuf> = ["cpu", "cpuset"].into_iter().filter_map(hierarchy).collect();
        if bases.len() < 2 || last_cpu() == 0 {
            println!("SKIPPED: no cgroups with the controllers cpu and cpuset, or one CPU");
            return;
        }
        let deadline = "{ policy = \"deadline\", runtime = \"30ms\", period = \"200ms\" }";
        let cpu = last_cpu();
        let exclusive = format!("pin = {{ vcpu = \"{cpu}\" }}\nsched = {{ vcpu = {deadline} }}");
        let files =
            ["sched = { policy = \"shares\", weight = 3 }", &exclusive, ""].map(|more| file(engine(), more));
        let world = World::start(&files[2]);
        let home = world.stage.path("");
        // Files that another user may open are those that all programs share.
        fs::set_permissions(&home, fs::Permissions::from_mode(0o755)).expect("for everybody");
        for way in ["-s", "-x"] {
            let folders = bases.iter().map(PathBuf::as_path).chain([Path::new("/run/ringroad"), &home]);
            let stranger =
                UnprivilegedLocker::lock(way, folders.flat_map(all_below)).expect("a process of nobody");
            let held = stranger.held();
            assert!(bases.iter().chain([&home]).all(|folder| held.contains(folder)), "{held:?}");
            for file in &files {
                let path = world.stage.path("next.toml");
                fs::write(&path, file).expect("a file");
                let done = ask(&["apply", path.to_str().expect("a path")]);
                assert!(done.status.success(), "while somebody holds {way} locks: {}", done.stderr);
            }
        }
        world.finish();
    }

    #[test]
    fn weights_and_quotas_are_those_of_groups() {
        needs!(Root, Tun, Program("ip"), Program("busybox"), Program("chrt"), Program("nsenter"));
        let Some(root) = hierarchy("cpu") else {
            println!("SKIPPED: no cgroups with the controller cpu");
            return;
        };
        let world = World::start(&file(engine(), "sched = { policy = \"shares\", weight = 3, quota = 0.5 }"));
        let group = || group_with(&root, "ringroad");
        let wait = |wanted: &dyn Fn(&Path) -> bool| {
            let end = Instant::now() + PATIENCE;
            while !group().is_some_and(|group| wanted(&group)) {
                assert!(Instant::now() < end, "{:?}", group());
                thread::sleep(Duration::from_millis(20));
            }
        };
        let holds = |group: &Path, v1: u64, v2: u64| {
            let read = |name: &str| {
                fs::read_to_string(group.join(name)).ok().and_then(|text| text.trim().parse::<u64>().ok())
            };
            read("cpu.shares") == Some(v1) || read("cpu.weight") == Some(v2)
        };
        wait(&|group| holds(group, 3072, 300));
        let flow = world.flow();
        flow.reaches(500, PATIENCE).expect("it flows");
        set("sched.weight=0.5");
        wait(&|group| holds(group, 512, 50));
        let so_far = flow.so_far().received;
        flow.reaches(so_far + 500, PATIENCE).expect("it goes on");
        let tally = flow.stop().expect("it ends");
        assert_eq!(tally.lost(), 0, "{tally:?}");
        world.finish();
    }

    #[test]
    fn reservations_are_the_kernels_own_and_change_without_loss() {
        needs!(Root, Tun, Program("ip"), Program("busybox"), Program("chrt"), Program("nsenter"));
        if hierarchy("cpuset").is_none() {
            println!("SKIPPED: no cpusets that can be made exclusive");
            return;
        }
        let (cpu, before) = (last_cpu(), balance());
        if cpu == 0 {
            println!("SKIPPED: one CPU only, which cannot be taken from everybody else");
            return;
        }
        let more = format!(
            "pin = {{ vcpu = \"{cpu}\", vhost = \"{cpu}\" }}\n\
             sched = {{ policy = \"deadline\", runtime = \"30ms\", period = \"200ms\" }}"
        );
        let world = World::start(&file(engine(), &more));
        let is = |runtime: u64| {
            move |_: &str, is: &Scheduled| {
                is.policy == "SCHED_DEADLINE" && is.reserved == [runtime, 200_000_000, 200_000_000]
            }
        };
        are(is(30_000_000));
        let flow = world.flow();
        flow.reaches(500, PATIENCE).expect("it flows");
        for runtime in [40, 20, 50] {
            set(&format!("sched.runtime={runtime}ms"));
            are(is(runtime * 1_000_000));
            let so_far = flow.so_far().received;
            flow.reaches(so_far + 500, PATIENCE).expect("it goes on");
        }
        // More than is available: nothing changes.
        let done = ask(&["set", "t32", "sched.runtime=150ms"]);
        let said = &done.stderr;
        assert!(!done.status.success() && said.contains("router t32: sched.runtime: "), "{said}");
        assert!(
            said.contains("the kernel admits") && !said.contains(".toml"),
            "by numbers and names: {said}"
        );
        are(is(50_000_000));
        set("sched={ policy = \"other\" }");
        are(|_, is| is.policy == "SCHED_OTHER");
        let tally = flow.stop().expect("it ends");
        assert_eq!(tally.lost(), 0, "{tally:?}");
        world.finish();
        assert_eq!(balance(), before);
    }

    mod all {
        use super::*;

        #[test]
        fn threads_of_a_data_plane_or_router_that_died_are_placed_again() {
            needs!(Root, Tun, Program("ip"), Program("busybox"), Program("chrt"), Program("nsenter"));
            let cpu = last_cpu();
            let more = format!(
                "affinity = {{ vcpu = \"{cpu}\", vhost = \"{cpu}\" }}\nsched = {{ policy = \"fifo\", priority = 7 }}"
            );
            let world = World::start(&file(engine(), &more));
            let is = |_: &str, is: &Scheduled| {
                is.policy == "SCHED_FIFO" && is.priority == 7 && is.cpus == cpu.to_string()
            };
            are(is);
            assert!(ask(&["set", "t32", "state=stopped"]).status.success());
            assert!(ask(&["set", "t32", "state=running"]).status.success());
            are(is);
            set("sched.priority=8");
            let plane = data_plane().expect("a data plane");
            kill_process(plane, Signal::KILL).expect("killed");
            let end = Instant::now() + PATIENCE;
            while data_plane().is_none_or(|now| now == plane) {
                assert!(Instant::now() < end, "no data plane after {plane:?}");
                thread::sleep(Duration::from_millis(20));
            }
            // As set by hand, not as in the file.
            are(|_, is| is.policy == "SCHED_FIFO" && is.priority == 8);
            let World { stage, left, right } = world;
            stage.finish_troubled(vec![left, right]).expect("nothing is left");
        }

        #[test]
        fn nothing_is_left_of_a_run_that_was_killed() {
            needs!(Root, Tun, Program("chrt"), Program("nsenter"));
            let (cpu, before, balanced) = (last_cpu(), Traces::now(), balance());
            let reserved = format!(
                "pin = {{ vcpu = \"{cpu}\", vhost = \"{cpu}\" }}\n\
                 sched = {{ policy = \"deadline\", runtime = \"30ms\", period = \"200ms\" }}"
            );
            let shares = "sched = { policy = \"shares\", weight = 3 }".to_owned();
            let mut all = vec![];
            all.extend((hierarchy("cpuset").is_some() && cpu > 0).then_some(reserved));
            all.extend(hierarchy("cpu").map(|_| shares));
            for more in all {
                let folder = tempfile::tempdir().expect("a folder");
                let path = folder.path().join("file.toml");
                let text = file(engine(), &more).replace("tap:t32-l", "null").replace("tap:t32-r", "null");
                fs::write(&path, text).expect("a file");
                let mut command = Command::new(RINGROAD);
                let mut run = support::Running::start(command.args(["run", "--log", "text"]).arg(&path))
                    .expect("it starts");
                run.wait_for_line(PATIENCE, |line| line.contains("is up after")).expect("it comes up");
                are(|_, is| is.policy != "SCHED_FIFO");
                run.signal(Signal::KILL).expect("killed");
                run.wait(PATIENCE).expect("it ends");
                assert_eq!(Traces::left(&before, PATIENCE), [""; 0], "{more}");
                let end = Instant::now() + PATIENCE;
                while balance() != balanced {
                    assert!(Instant::now() < end, "{:?}", balance());
                    thread::sleep(Duration::from_millis(20));
                }
            }
        }

        #[test]
        fn a_cpu_that_others_keep_busy_is_left_to_them() {
            needs!(Root, Tun, Program("ip"), Program("busybox"), Program("chrt"), Program("nsenter"));
            let cpu = last_cpu();
            if cpu == 0 {
                println!("SKIPPED: one CPU only, on which everybody is");
                return;
            }
            // Two threads, for which two CPUs would suffice.
            let text = file(engine(), "sched = { policy = \"fifo\", priority = 7 }")
                .replace("vhost = \"per-nic\"\n", "");
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("file.toml");
            fs::write(&path, &text).expect("a file");
            let burn = Burn::on(cpu);
            let plan = run(Command::new(RINGROAD).arg("check").arg(&path), PATIENCE).expect("it ends").stdout;
            let note =
                format!("note: no thread is placed on CPU {cpu} automatically: others keep it busy for ");
            let percent = plan
                .lines()
                .find_map(|line| line.strip_prefix(&note)?.split(' ').next()?.parse::<u32>().ok());
            assert!(percent.is_some_and(|percent| percent >= 50), "{plan}");
            assert!(!plan.contains(&format!("on CPU {cpu} (automatic)")), "{plan}");

            let world = World::start(&text);
            let end = Instant::now() + PATIENCE;
            let placed = loop {
                let threads = Scheduled::of_router(RINGROAD, "t32").expect("an answer");
                if threads.len() == 2 && threads.values().all(|is| is.policy == "SCHED_FIFO") {
                    break threads;
                }
                assert!(Instant::now() < end, "{threads:#?}");
            };
            drop(burn);
            assert!(placed.values().all(|is| is.cpus != cpu.to_string()), "{placed:#?}");
            world.finish();
        }

        #[test]
        fn a_file_that_says_nothing_is_not_touched() {
            needs!(Root, Tun, Program("ip"), Program("busybox"), Program("chrt"), Program("nsenter"));
            let world = World::start(&file(engine(), ""));
            let own = Scheduled::read(std::process::id()).expect("this one");
            are(|_, is| is.policy == "SCHED_OTHER" && is.cpus == own.cpus);
            // Its only group is that of the run, for memory and tasks.
            for controller in ["cpu", "cpuset"] {
                assert_eq!(group_with(&Path::new("/sys/fs/cgroup").join(controller), "ringroad"), None);
            }
            world.finish();
        }
    }
}
