//! Brings a whole file up and down many times in one process, with each engine: no descriptor, thread,
//! mapping or child process is left behind. A file with too little memory is refused, and leaves nothing
//! behind either. One test at a time, because each examines its whole process.

#[path = "instance/opened.rs"]
mod opened;

use std::fs;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use config::{Engine, Plan};
use engine::{HostServices, Instance, Plugs};
use opened::opened;
use vmm::{Firmware, Forker, Spawn};

const FILE: &str = r#"
[switch.lan]

[[router]]
name   = "one"
vcpus  = 2
memory = "32M"
vhost  = "split"

[[router.nic]]
name    = "lan"
attach  = "switch:lan"
address = "192.0.2.1/24"

[[router.nic]]
name    = "file"
attach  = "pcap:FOLDER/out.pcap"
address = "203.0.113.1/24"

[[router]]
name = "two"

[[router.nic]]
name    = "lan"
attach  = "switch:lan"
deliver = "direct"
address = "192.0.2.2/24"
"#;

/// Resources held by a process: open descriptors, threads, mappings, children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    descriptors: usize,
    threads: usize,
    mappings: usize,
    children: usize,
}

impl Held {
    fn now() -> Self {
        let count = |folder: &str| fs::read_dir(folder).expect("proc").count();
        let maps = fs::read_to_string("/proc/self/maps").expect("proc");
        // The allocator's own mappings come and go.
        let ours = |line: &&str| ["ringroad", "memfd", "kvm"].iter().any(|word| line.contains(word));
        let tasks = fs::read_dir("/proc/self/task").expect("proc").filter_map(Result::ok);
        // A thread that ends meanwhile has no such file.
        let children = tasks.map(|task| fs::read_to_string(task.path().join("children")).unwrap_or_default());
        Self {
            children: children.map(|list| list.split_whitespace().count()).sum(),
            descriptors: count("/proc/self/fd"),
            threads: threads(),
            mappings: maps.lines().filter(ours).count(),
        }
    }

    /// Waits until the process holds no more than this: a child process may disappear a moment after it was
    /// killed.
    fn settled(&self) -> Self {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            let now = Self::now();
            if now == *self || Instant::now() > end {
                return now;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Counts threads that are not exiting: a joined thread leaves its folder in /proc a moment later. The engine's reserve for
/// take-downs stays as long as the process.
fn threads() -> usize {
    /// The kernel's flag for an exiting thread (`PF_EXITING`), in the seventh field after the name
    /// (proc_pid_stat(5)).
    const EXITING: u64 = 4;
    /// Its name, of which the kernel keeps 15 octets.
    const RESERVE: &str = "(ringroad/reserv)";
    let stays = |task: &fs::DirEntry| {
        let stat = fs::read_to_string(task.path().join("stat")).ok()?;
        if stat.contains(RESERVE) {
            return None;
        }
        let flags = stat.rsplit_once(") ")?.1.split(' ').nth(6)?.parse::<u64>().ok()?;
        (flags & EXITING == 0).then_some(())
    };
    let tasks = fs::read_dir("/proc/self/task").expect("proc").filter_map(Result::ok);
    tasks.filter(|task| stays(task).is_some()).count()
}

fn plan(text: &str, engine: Engine) -> Plan {
    let mut plan = config::parse(text, "file.toml").expect("a good file");
    plan.routers.iter_mut().for_each(|router| router.engine = Some(engine));
    plan
}

fn start(plan: &Plan) -> anyhow::Result<Instance> {
    let opened = opened(plan);
    Instance::start(plan, HostServices { opened, ..HostServices::default() })
}

/// Returns why this host cannot run an engine, if it cannot.
fn missing(engine: Engine) -> Option<anyhow::Error> {
    match engine {
        Engine::Kvm | Engine::Linux => vmm::open_kvm().err(),
        Engine::Process => {
            let tried = Forker::new().and_then(|forker| forker.spawn("trial", Firmware::Plain));
            tried.map(|spawned| vmm::process::end(&spawned.pidfd)).err()
        }
        Engine::Kernel | Engine::Lxc => Some(anyhow::anyhow!("it has no machine")),
    }
}

#[test]
fn nothing_stays() {
    of_each_engine(4);
}

mod all {
    mod alone {
        #[test]
        fn nothing_stays_of_twenty_turns() {
            super::super::of_each_engine(20);
        }
    }
}

fn of_each_engine(turns: usize) {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    for engine in [Engine::Kvm, Engine::Process] {
        match missing(engine) {
            None => nothing_stays_of(engine, turns),
            Some(error) => println!("SKIPPED: {error:#}"),
        }
    }
}

fn nothing_stays_of(engine: Engine, turns: usize) {
    let folder = std::env::temp_dir().join(format!("ringroad-engine-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let plan = plan(&FILE.replace("FOLDER", &folder.display().to_string()), engine);
    let first = Held::now();
    // The first start allocates what stays for good: signal handlers, the allocator's arenas.
    drop(start(&plan).expect("it starts"));
    let before = Held { children: first.children, threads: first.threads, ..Held::now() }.settled();
    for round in 0..turns {
        let instance = start(&plan).expect("it starts");
        assert_eq!(instance.fault(), None);
        let held = Held::now();
        assert!(held.threads > before.threads && held.mappings > before.mappings);
        assert_eq!(held.children, if engine == Engine::Process { 2 } else { 0 });
        drop(instance);
        assert_eq!(before.settled(), before, "{} round {round}", engine.name());
    }
    restarts_leave_nothing(&plan, turns);
    assert_eq!(before.settled(), before, "{}", engine.name());
    too_little_memory(before, engine);
    fs::remove_dir_all(&folder).expect("removed");
}

/// Restarts, adds and removes routers within one instance: that leaves nothing behind either.
fn restarts_leave_nothing(whole: &Plan, turns: usize) {
    let mut part = whole.clone();
    part.routers.truncate(1);
    let mut instance = start(whole).expect("it starts");
    let children = Held::now().children;
    // Once before measuring, so that the allocator has reached its size.
    instance.restart_router("one").expect("it starts again");
    let up = Held { children, ..Held::now() }.settled();
    for round in 0..turns {
        instance.restart_router("one").expect("it starts again");
        instance.look_after(Instant::now());
        assert_eq!(up.settled(), up, "round {round}, started again");
        instance.apply(&part, Plugs::new()).expect("it is applied");
        assert!(Held::now().threads < up.threads);
        instance.apply(whole, Plugs::new()).expect("it is applied");
        assert_eq!(up.settled(), up, "round {round}, removed and added");
    }
}

fn too_little_memory(before: Held, engine: Engine) {
    let nic =
        |n: u32| format!("[[router.nic]]\nname = \"n{n}\"\nattach = \"null\"\naddress = \"10.{n}.0.1/24\"\n");
    let nics: String = (0..8).map(nic).collect();
    let text = format!("[[router]]\nname = \"small\"\nvcpus = 2\nmemory = \"78M\"\n{nics}");
    let mut plan = plan(&text, engine);
    // A file cannot request this: only the firmware notices.
    plan.routers[0].memory = 16 << 20;
    for _ in 0..3 {
        let error = start(&plan).err().expect("it is refused");
        assert_eq!(
            format!("{error:#}"),
            "router small: the memory is too small for the NICs' rings and buffers: give the router more"
        );
        assert_eq!(before.settled(), before);
    }
}
