//! Objective: systemd itself runs the unit of the package, and the rights and the file system that it leaves a run suffice to
//! place and schedule threads, with control groups of version 2; what does not work is refused by name.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use support::{Injected, Process, Running, Scheduled, Signal, descendants_of, inject_syscall, threads_of};

/// Timeout of every step, generous for software emulation on a busy host.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(50);
const SYSTEMD: &str = "/lib/systemd/systemd";
const UNITS: &str = "/etc/systemd/system";
/// Group in which systemd runs, as if it were the root.
const HOME: &str = "/sys/fs/cgroup/systemd-box";
/// File with the service's standard error, as redirected by systemd.
const TOLD: &str = "/run/told";
const SERVICE: &str = "system.slice/system-ringroad.slice/ringroad@edge.service";

/// System call number of x86-64, and its arguments: 256 MiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE,
/// no file.
const MMAP: i64 = 9;
const MORE_MEMORY: [u64; 6] = [0, 256 << 20, 3, 0x8022, u64::MAX, 0];

/// A systemd in namespaces and a group of its own, which end with it.
struct Systemd {
    running: Running,
    /// Process ID outside its namespace.
    id: u32,
}

impl Systemd {
    fn start() -> Self {
        for unit in ["sysinit", "basic", "shutdown", "network-pre", "box"] {
            fs::create_dir_all(UNITS).expect("a folder");
            fs::write(format!("{UNITS}/{unit}.target"), "[Unit]\nDefaultDependencies=no\n").expect("a unit");
        }
        // Redirect its messages to a file that this test can read.
        let folder = format!("{UNITS}/ringroad@.service.d");
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(format!("{folder}/told.conf"), format!("[Service]\nStandardError=append:{TOLD}\n"))
            .expect("a unit");
        fs::write("/etc/machine-id", "0123456789abcdef0123456789abcdef\n").expect("a machine");
        fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+cpu +cpuset +memory +pids")
            .expect("controllers");
        fs::create_dir(HOME).expect("a group");
        let inside = format!(
            "mount -t proc proc /proc && umount /sys/fs/cgroup && mount -t cgroup2 cgroup2 /sys/fs/cgroup && \
             mount -t tmpfs tmpfs /run && \
             exec env container=box {SYSTEMD} --system --unit=box.target --log-target=console --show-status=no"
        );
        // It is alone in the group that it takes for the root.
        let enter = format!("echo 0 >{HOME}/cgroup.procs && exec unshare --cgroup sh -c \"$1\"");
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-c", &enter, "sh", &inside]);
        let running = Running::start(&mut command).expect("it starts");
        let started = running.id();
        let is_it =
            |id: &u32| fs::read_link(format!("/proc/{id}/exe")).is_ok_and(|exe| exe.ends_with("systemd"));
        let found = || descendants_of(started).iter().map(|found| found.id).find(is_it);
        let end = Instant::now() + PATIENCE;
        while found().is_none() {
            let said = || [running.lines(0), running.stderr_lines(0)].concat().join("\n");
            assert!(Instant::now() < end, "no systemd below {:?}: {}", descendants_of(started), said());
            thread::sleep(LOOK);
        }
        let systemd = Self { running, id: found().expect("systemd") };
        wait("its door", || systemd.inside("test -S /run/systemd/private").status.success());
        systemd
    }

    /// Runs a shell script in its namespaces.
    fn inside(&self, script: &str) -> support::Finished {
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.id.to_string(), "-m", "-p", "-C", "sh", "-c", script]);
        support::run(&mut command, PATIENCE).expect("it ends")
    }

    fn control(&self, words: &str) -> support::Finished {
        self.inside(&format!("systemctl {words}"))
    }

    fn told(&self) -> String {
        let lines = self.running.lines(0).join("\n");
        format!("{lines}\n{}", self.inside(&format!("cat {TOLD}")).stdout)
    }
}

impl Drop for Systemd {
    fn drop(&mut self) {
        // All processes in its PID namespace end with it.
        let _ = self.running.signal(Signal::KILL).and_then(|()| self.running.wait(PATIENCE));
        let end = Instant::now() + PATIENCE;
        while Path::new(HOME).exists() && Instant::now() < end {
            remove(Path::new(HOME));
            thread::sleep(LOOK);
        }
    }
}

/// Removes a group and its subgroups, as far as they are empty.
fn remove(group: &Path) {
    let inside = fs::read_dir(group).into_iter().flatten().flatten().map(|entry| entry.path());
    inside.filter(|path| path.is_dir()).for_each(|path| remove(&path));
    let _ = fs::remove_dir(group);
}

#[track_caller]
fn wait(what: &str, is_there: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_there() {
        assert!(Instant::now() < end, "not within {PATIENCE:?}: {what}");
        thread::sleep(LOOK);
    }
}

/// Thread of this name below a process, by its ID outside.
fn thread_named(name: &str, below: u32) -> Option<u32> {
    let processes = descendants_of(below);
    let threads = processes.iter().flat_map(|process| threads_of(process.id).unwrap_or_default());
    threads.into_iter().find(|(_, called)| called == name).map(|(id, _)| id)
}

fn file(sched: &str) -> String {
    format!(
        "[[router]]\nname = \"edge\"\nengine = \"process\"\npin = {{ vcpu = \"1\" }}\nsched = {{ {sched} }}\n\
         [[router.nic]]\nname = \"wan\"\nattach = \"tap:unit-edge\"\naddress = \"192.0.2.1/24\"\n"
    )
}

/// If the data plane exceeds the unit's memory it is killed, which is reported, and replaced; the unit continues.
fn gets_no_more_memory_than_the_unit_has(systemd: &Systemd) {
    let unit = |key: &str| fs::read_to_string(Path::new(HOME).join(SERVICE).join(key)).unwrap_or_default();
    assert_eq!(unit("pids.max").trim(), "16384");
    assert!(unit("memory.max").trim().parse::<u64>().is_ok(), "{}", unit("memory.max"));
    let done = systemd.control("set-property --runtime ringroad@edge MemoryMax=128M");
    assert!(done.status.success(), "{}", done.stderr);
    wait("the new ceiling", || unit("memory.max").trim() == (128 << 20).to_string());
    let plane = || {
        let is_it = |process: &Process| process.words.get(1).is_some_and(|verb| verb == "data-plane");
        descendants_of(systemd.id).into_iter().find(is_it).map(|process| process.id)
    };
    let before = plane().expect("a data plane");
    let done = inject_syscall(before, "ringroad/clock", MMAP, MORE_MEMORY).expect("injected");
    assert_eq!(done, Injected::Killed(9), "{}", systemd.told());
    let line = "the run has reached its ceiling of memory, 128 MiB: the kernel has ended 1 of its processes";
    wait("the line", || systemd.told().contains(line));
    wait("another data plane", || plane().is_some_and(|now| now != before));
    wait("a router again", || thread_named("edge/vcpu0", systemd.id).is_some());
    assert_eq!(systemd.control("is-active ringroad@edge").stdout.trim(), "active", "{}", systemd.told());
}

#[test]
fn systemd_runs_it_and_its_threads_are_scheduled() {
    support::needs!(Root, Tun, Program("systemctl"), Program("unshare"), Program("nsenter"), Program("chrt"));
    if !inbox::inside() || !Path::new(SYSTEMD).exists() {
        println!("SKIPPED: not in the box, or no {SYSTEMD} in it");
        return;
    }
    fs::create_dir_all("/etc/ringroad").expect("a folder");
    let shares = "vcpu = { policy = \"fifo\", priority = 5 }, vhost = { policy = \"shares\", weight = 2, quota = 0.5 }";
    fs::write("/etc/ringroad/edge.toml", file(shares)).expect("a file");
    let systemd = Systemd::start();
    let done = systemd.control("start ringroad@edge");
    assert!(done.status.success(), "{}: {}", done.stderr, systemd.told());
    let vcpu = || Scheduled::read(thread_named("edge/vcpu0", systemd.id)?);
    wait("the vCPU's priority", || {
        vcpu().is_some_and(|is| (is.policy.as_str(), is.priority, is.cpus.as_str()) == ("SCHED_FIFO", 5, "1"))
    });
    let group = PathBuf::from(format!("{HOME}/{SERVICE}/ringroad-edge.edge.vhost"));
    let held = |key: &str| fs::read_to_string(group.join(key)).unwrap_or_default().trim().to_owned();
    wait("its thread in a group", || !held("cgroup.threads").is_empty());
    assert_eq!([held("cpu.weight"), held("cpu.max")], ["200", "5000 10000"]);

    // Files that it may write, at their actual locations.
    let main = systemd.control("show -p MainPID --value ringroad@edge").stdout;
    let script = format!(
        "chroot /proc/{}/root /bin/busybox sh -c '\
         for file in /proc/irq/*/smp_affinity_list; do echo \"$(cat $file)\" >$file && moved=1; done 2>/dev/null; \
         echo moved $moved; \
         for file in /proc/sys/vm/stat_interval /sys/kernel/mm/ksm/run /usr/bin/new; do echo 1 >$file || echo closed; done'",
        main.trim()
    );
    let said = systemd.inside(&script);
    assert_eq!(said.stdout, "moved 1\nclosed\nclosed\nclosed", "{}", said.stderr);
    gets_no_more_memory_than_the_unit_has(&systemd);
    let done = systemd.control("stop ringroad@edge");
    assert!(done.status.success(), "{}: {}", done.stderr, systemd.told());
    wait("its groups go", || !Path::new(HOME).join(SERVICE).exists());

    // A service is in no cpuset partition.
    let reserved = file("vcpu = { policy = \"deadline\", runtime = \"5ms\", period = \"100ms\" }");
    fs::write("/etc/ringroad/edge.toml", reserved).expect("a file");
    assert!(!systemd.control("start ringroad@edge").status.success());
    let why =
        "edge.toml:5: router.sched.vcpu: edge/vcpu0: a reservation on CPU 1 alone needs an exclusive cpuset";
    let told = systemd.told();
    assert!(told.contains(why) && told.contains("is neither the root nor a partition"), "{told}");
}
