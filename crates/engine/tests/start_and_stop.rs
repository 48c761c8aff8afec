//! A whole file is brought up and taken down twenty times in one process: no descriptor, thread or mapping stays. A
//! file whose memory is too small says so, and leaves as little. One test, because it looks at its whole process.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use engine::{Instance, Plugs};

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

/// What a process holds: open descriptors, threads, mappings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    descriptors: usize,
    threads: usize,
    mappings: usize,
}

impl Held {
    fn now() -> Self {
        let count = |folder: &str| fs::read_dir(folder).expect("proc").count();
        let maps = fs::read_to_string("/proc/self/maps").expect("proc");
        // The allocator's own mappings come and go.
        let ours = |line: &&str| ["ringroad", "memfd", "kvm"].iter().any(|word| line.contains(word));
        Self {
            descriptors: count("/proc/self/fd"),
            threads: count("/proc/self/task"),
            mappings: maps.lines().filter(ours).count(),
        }
    }

    /// Waits until the process holds no more than this: a thread that was joined leaves its folder a moment later.
    fn settled(&self) -> Self {
        let end = Instant::now() + Duration::from_secs(5);
        loop {
            let now = Self::now();
            if now == *self || Instant::now() > end {
                return now;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

fn start(text: &str) -> anyhow::Result<Instance> {
    let plan = config::parse(text, "file.toml").expect("a good file");
    Instance::start(&plan, Plugs::new())
}

#[test]
fn nothing_stays() {
    if let Err(error) = vmm::open_kvm() {
        println!("SKIPPED: {error:#}");
        return;
    }
    let folder = std::env::temp_dir().join(format!("ringroad-engine-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let text = FILE.replace("FOLDER", &folder.display().to_string());
    // The first one brings what stays for good: signal handlers, the allocator's arenas.
    drop(start(&text).expect("it starts"));
    thread::sleep(Duration::from_millis(50));
    let before = Held::now();
    for round in 0..20 {
        let instance = start(&text).expect("it starts");
        assert_eq!(instance.fault(), None);
        assert!(Held::now().threads > before.threads && Held::now().mappings > before.mappings);
        drop(instance);
        assert_eq!(before.settled(), before, "round {round}");
    }
    too_little_memory(before);
    fs::remove_dir_all(&folder).expect("removed");
}

fn too_little_memory(before: Held) {
    let nic =
        |n: u32| format!("[[router.nic]]\nname = \"n{n}\"\nattach = \"null\"\naddress = \"10.{n}.0.1/24\"\n");
    let nics: String = (0..8).map(nic).collect();
    let text = format!("[[router]]\nname = \"small\"\nvcpus = 2\nmemory = \"78M\"\n{nics}");
    let mut plan = config::parse(&text, "file.toml").expect("a good file");
    // No file can ask for this: the firmware is the last one who notices.
    plan.routers[0].memory = 16 << 20;
    for _ in 0..3 {
        let error = Instance::start(&plan, Plugs::new()).err().expect("it is refused");
        assert_eq!(
            format!("{error:#}"),
            "router small: the memory is too small for the NICs' rings and buffers: give the router more"
        );
        assert_eq!(before.settled(), before);
    }
}
