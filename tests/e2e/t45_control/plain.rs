//! A plain Linux router with FRR, in a namespace of the test.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use frr::{Content, FOLDERS, Layout, Options, Owner, Programs, Running, Setup};
use support::Namespace;

/// Time between two turns.
const LOOK: Duration = Duration::from_millis(20);

/// FRR that runs until it is dropped. What it says is printed.
pub(super) struct Plain {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Plain {
    /// Starts FRR with this configuration. The kernel of the namespace forwards.
    pub(super) fn start(host: &Namespace, text: &str) -> Self {
        host.set("net.ipv4.ip_forward", "1").expect("a parameter");
        let content = Content::read(text).expect("a good configuration");
        let root = Path::new("/");
        let passwd = std::fs::read_to_string("/etc/passwd").expect("the users of this host");
        let setup = Setup {
            programs: Programs::find(root, content.daemons()).expect("FRR"),
            layout: Layout::new(root, "plain").expect("a name"),
            folders: &FOLDERS,
            options: Options::default(),
            owner: Owner::find(&passwd),
        };
        let network = File::open(format!("/run/netns/{}", host.name())).expect("a namespace").into();
        let (text, stop) = (text.to_owned(), Arc::new(AtomicBool::new(false)));
        let is_stopped = stop.clone();
        let thread = spawn(move || {
            let mut running = Running::new(setup, network, &content, &text).expect("it can be started");
            let begun = Instant::now();
            while !is_stopped.load(Ordering::Relaxed) {
                let now = u64::try_from(begun.elapsed().as_millis()).expect("a short test");
                running.turn(now, &mut |heard| println!("plain: {heard:?}"));
                sleep(LOOK);
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
