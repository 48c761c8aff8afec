//! Objective: all processes of a run together get no more memory and no more tasks than its ceilings; exceeding one gives a line, a
//! count and a new data plane; another plan has another ceiling; nothing remains on the host, not even after SIGKILL.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use support::{
    Finished, Injected, Namespace, Process, Running, Signal, Stage, Traces, alone, children_of,
    inject_syscall,
};

const BINARY: &str = env!("CARGO_BIN_EXE_ringroad");
/// Timeout of every step, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);
const MIB: u64 = 1 << 20;
/// Ceiling that suffices for one router and its data plane, with little to spare.
const CEILING: u64 = 160 * MIB;
/// System call numbers of x86-64 (`asm/unistd_64.h`), their arguments and results.
const MMAP: i64 = 9;
const CLONE: i64 = 56;
const EAGAIN: i64 = 11;
const SIGKILL: i32 = 9;
/// Arguments for one GiB: PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, no file.
const A_GIB_OF_MEMORY: [u64; 6] = [0, 1 << 30, 3, 0x8022, u64::MAX, 0];
/// Arguments CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM.
const A_THREAD: [u64; 6] = [0x5_0f00, 0, 0, 0, 0, 0];

/// Returns true, and prints the reason, if a run on this host can have no ceilings; determined without the program.
fn lacks() -> bool {
    let has = |controller: &str| Path::new("/sys/fs/cgroup").join(controller).join("cgroup.procs").exists();
    let lacks = !(has("memory") && has("pids"));
    if lacks {
        println!("SKIPPED: no control groups of version 1 for memory and pids");
    }
    lacks
}

fn router(name: &str, engine: &str, attach: &str) -> String {
    format!(
        "[[router]]\nname = \"{name}\"\nengine = \"{engine}\"\nmemory = \"32M\"\n\
         [[router.nic]]\nname = \"a\"\nattach = \"{attach}\"\naddress = \"192.0.2.1/24\"\n"
    )
}

/// Run with one router at a TAP.
struct World {
    stage: Stage,
    host: Namespace,
}

impl World {
    fn start(text: &str, options: &[&str]) -> Self {
        let options = [&["--json", "--name", "t37"], options].concat();
        let mut stage = Stage::start_with_groups(BINARY, text, &options).expect("it starts");
        let host = stage.host("t37", "192.0.2.2/24", "192.0.2.1").expect("a host");
        let world = Self { stage, host };
        world.answers();
        world
    }

    /// Checks that the router answers, within the time of a start.
    fn answers(&self) {
        let end = Instant::now() + PATIENCE;
        let ping = || {
            let mut ping = self.host.command("busybox");
            ping.args(["ping", "-c", "1", "-W", "1", "192.0.2.1"]);
            support::run(&mut ping, PATIENCE).is_ok_and(|done| done.status.success())
        };
        while !ping() {
            assert!(Instant::now() < end, "the router does not answer");
        }
    }

    fn plane(&mut self) -> Option<Process> {
        children_of(self.stage.run().id()).into_iter().find(is_plane)
    }

    /// Waits until there is another data plane than this one.
    fn another(&mut self, than: u32) {
        let end = Instant::now() + PATIENCE;
        while self.plane().is_none_or(|now| now.id == than) {
            assert!(Instant::now() < end, "no data plane after {than}");
            thread::sleep(LOOK);
        }
        self.answers();
    }

    fn finish(self) -> Finished {
        let Self { stage, host } = self;
        stage.finish_troubled(vec![host]).expect("nothing is left")
    }
}

fn is_plane(process: &Process) -> bool {
    process.words.get(1).is_some_and(|verb| verb == "data-plane")
}

/// Control group of a process, according to the kernel.
fn group(process: u32, controller: &str) -> PathBuf {
    let text = fs::read_to_string(format!("/proc/{process}/cgroup")).expect("a process");
    let of = |line: &str| line.split(':').nth(1) == Some(controller);
    let line = text.lines().find(|line| of(line)).expect("a group");
    let path = line.rsplit_once(':').expect("a path").1;
    Path::new("/sys/fs/cgroup").join(controller).join(path.trim_start_matches('/'))
}

fn number(group: &Path, file: &str) -> u64 {
    let text = fs::read_to_string(group.join(file)).expect("a file of the group");
    text.trim().parse().unwrap_or_else(|_| panic!("{file}: {text}"))
}

fn ask(words: &[&str]) -> Finished {
    support::run(Command::new(BINARY).args(words), PATIENCE).expect("it ends")
}

/// Reads the sample of a series like Prometheus does.
fn sample(socket: &Path, series: &str) -> Option<f64> {
    let mut stream = UnixStream::connect(socket).expect("somebody listens");
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("asked");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer.lines().find_map(|line| line.strip_prefix(series)?.trim().parse().ok())
}

/// Lines about ceilings.
fn told(done: &Finished) -> Vec<&str> {
    done.stderr.lines().filter(|line| line.contains("ceiling")).collect()
}

fn a_run_gets_no_more_memory(engine: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("page");
    let telemetry = format!("[telemetry]\nprometheus = \"unix:{}\"\n", socket.display());
    let text = telemetry + &router("t37", engine, "tap:t37");
    let mut world = World::start(&text, &["--memory-max", "160M"]);
    let supervisor = world.stage.run().id();
    let plane = world.plane().expect("a data plane");
    for (controller, file, most) in [
        ("memory", "memory.limit_in_bytes", CEILING),
        ("pids", "pids.max", if engine == "process" { 352 } else { 320 }),
    ] {
        let own = group(plane.id, controller);
        assert_eq!(number(&own, file), most, "{}", own.display());
        for child in children_of(supervisor) {
            let is_bounded = !child.words.iter().any(|word| word == "cleaner");
            assert_eq!(group(child.id, controller) == own, is_bounded, "{:?}", child.words);
        }
        assert_ne!(group(supervisor, controller), own);
    }
    let used = number(&group(plane.id, "memory"), "memory.usage_in_bytes");
    assert!((MIB..CEILING).contains(&used), "{used} octets are charged to it");
    let done = inject_syscall(plane.id, "ringroad/clock", MMAP, A_GIB_OF_MEMORY).expect("injected");
    assert_eq!(done, Injected::Killed(SIGKILL));
    let reached =
        "the run has reached its ceiling of memory, 160 MiB: the kernel has ended 1 of its processes";
    world.stage.run().wait_for_line(PATIENCE, |line| line.contains(reached)).expect("it is told");
    world.another(plane.id);
    let now = world.plane().expect("a data plane");
    assert_eq!(number(&group(now.id, "memory"), "memory.limit_in_bytes"), CEILING, "the next one has it too");
    let series = r#"ringroad_ceiling_reached_total{run="t37",of="memory"}"#;
    assert_eq!(sample(&socket, series), Some(1.0));
    let done = world.finish();
    assert_eq!(told(&done).len(), 1, "{}", done.stderr);
    assert_eq!(done.stderr.lines().count(), 2, "and that the data plane has died: {}", done.stderr);
}

#[test]
fn a_run_that_is_taken_over_gets_no_more_memory_than_its_ceiling() {
    support::needs!(Root, Kvm, Tun, Program("busybox"), Program("nsenter"));
    if !lacks() {
        a_run_gets_no_more_memory("kvm");
    }
}

mod all {
    use super::*;

    #[test]
    fn a_run_of_processes_gets_no_more_memory_than_its_ceiling() {
        support::needs!(Root, Tun, Program("busybox"), Program("nsenter"));
        if !lacks() {
            a_run_gets_no_more_memory("process");
        }
    }

    #[test]
    fn a_run_starts_no_more_threads_than_its_ceiling() {
        support::needs!(Root, Tun, Program("busybox"), Program("nsenter"));
        if lacks() {
            return;
        }
        let mut world = World::start(&router("t37", "process", "tap:t37"), &[]);
        let plane = world.plane().expect("a data plane");
        let pids = group(plane.id, "pids");
        let most = number(&pids, "pids.max");
        // One less than there are: a stopped router cannot be started again.
        let few = number(&pids, "pids.current") - 1;
        fs::write(pids.join("pids.max"), few.to_string()).expect("written");
        let done = inject_syscall(plane.id, "ringroad/plane", CLONE, A_THREAD).expect("injected");
        assert_eq!(done, Injected::Returned(-EAGAIN));
        let reached =
            format!("the run has reached its ceiling of tasks, {few}: the kernel has refused 1 threads");
        world.stage.run().wait_for_line(PATIENCE, |line| line.contains(&reached)).expect("it is told");
        let done = ask(&["restart", "t37"]);
        assert!(!done.status.success(), "{}", done.stdout);
        assert_eq!(done.stderr.lines().count(), 1, "{}", done.stderr);
        fs::write(pids.join("pids.max"), most.to_string()).expect("written");
        let done = ask(&["start", "t37"]);
        assert!(done.status.success(), "{}", done.stderr);
        world.answers();
        assert_eq!(world.plane().map(|now| now.id), Some(plane.id), "it is the same data plane");
        let done = world.finish();
        assert!((1..=2).contains(&told(&done).len()), "once in ten seconds at most: {}", done.stderr);
    }

    #[test]
    fn another_plan_has_other_ceilings() {
        support::needs!(Root, Tun, Program("busybox"), Program("nsenter"));
        if lacks() {
            return;
        }
        let one = router("t37", "process", "tap:t37");
        let mut world = World::start(&one, &[]);
        let plane = world.plane().expect("a data plane");
        let (memory, pids) = (group(plane.id, "memory"), group(plane.id, "pids"));
        let ceilings = || (number(&memory, "memory.limit_in_bytes"), number(&pids, "pids.max"));
        let before = ceilings();
        let two = one.clone() + &router("t37-more", "process", "null").replace("192.0.2", "198.51.100");
        let apply = |text: &str| {
            let path = world.stage.path("next.toml");
            fs::write(&path, text).expect("a file");
            let done = ask(&["apply", "--run", "t37", path.to_str().expect("a path")]);
            assert!(done.status.success(), "{}", done.stderr);
        };
        apply(&two);
        let after = ceilings();
        assert!(after.0 > before.0 + 32 * MIB && after.1 >= before.1 + 256, "{before:?} then {after:?}");
        apply(&one);
        // The kernel releases the second router's memory a little later.
        let end = Instant::now() + PATIENCE;
        while ceilings() != before {
            assert!(Instant::now() < end, "{:?} instead of {before:?}", ceilings());
            thread::sleep(LOOK);
        }
        let done = world.finish();
        assert_eq!(done.stderr, "");
    }

    #[test]
    fn nothing_is_left_of_a_run_that_was_killed() {
        support::needs!(Root);
        if lacks() {
            return;
        }
        let _turn = alone();
        let before = Traces::now();
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("null.toml");
        fs::write(&path, router("t37", "process", "null")).expect("a file");
        let mut command = Command::new(BINARY);
        let mut run = Running::start(command.args(["run", "--log", "text"]).arg(&path)).expect("it starts");
        run.wait_for_line(PATIENCE, |line| line.contains("is up after")).expect("it comes up");
        let made = Traces::now().since(&before);
        // Runs of other tests are called `t37`.
        let is_its = |thing: &&String| thing.starts_with("cgroup ") && thing.contains("/ringroad-null.");
        assert_eq!(made.iter().filter(is_its).count(), 2, "{made:?}");
        run.signal(Signal::KILL).expect("killed");
        run.wait(PATIENCE).expect("it ends");
        assert_eq!(Traces::left(&before, PATIENCE), [""; 0]);
    }

    /// Without control groups a run starts all the same, unless its owner wants a ceiling.
    #[test]
    fn a_host_without_control_groups_costs_a_run_nothing_but_its_ceilings() {
        support::needs!(Root, Program("unshare"), Program("mount"));
        let _turn = alone();
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("null.toml");
        fs::write(&path, router("t37", "process", "null")).expect("a file");
        let without = |words: &[&str]| {
            let mut command = Command::new("unshare");
            let script = "mount -t tmpfs none /sys/fs/cgroup && exec \"$0\" \"$@\"";
            command.args(["--mount", "sh", "-c", script, BINARY]).args(words).current_dir(folder.path());
            support::run(&mut command, PATIENCE).expect("it ends")
        };
        let run = ["run", "--seconds", "0.1", "--json", "null.toml"];
        let done = without(&run);
        assert!(done.status.success() && done.stderr.is_empty(), "{}", done.stderr);
        let done = without(&[&run[..], &["--memory-max", "64M"]].concat());
        assert!(
            !done.status.success() && done.stderr.starts_with("ringroad: --memory-max: "),
            "{}",
            done.stderr
        );
        assert_eq!(done.stderr.lines().count(), 1, "{}", done.stderr);
        let found = without(&["doctor"]).stdout;
        let line = found.lines().find(|line| line.contains("ceilings")).expect("it was looked at");
        assert!(line.starts_with("note") && line.contains("none"), "{line}");
    }
}
