//! FRR without ringroad: Debian's daemons in a network namespace, whose kernel they serve, as neighbours of routers and as what these
//! are compared with.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use frr::{Content, FOLDERS, Layout, Options, Owner, Programs, Running, Setup};

/// Time between two turns.
const LOOK: Duration = Duration::from_millis(20);

/// FRR that runs until it is dropped.
#[derive(Debug)]
pub struct PlainFrr {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl PlainFrr {
    /// Starts FRR with this configuration in a network namespace; `heard` gets what it says.
    ///
    /// # Errors
    /// FRR is not installed, refuses the configuration, or cannot be started.
    pub fn start(
        network: OwnedFd,
        text: &str,
        options: Options,
        mut heard: impl FnMut(String) + Send + 'static,
    ) -> Result<Self> {
        let content = Content::read(text)?;
        let root = Path::new("/");
        let passwd = fs::read_to_string("/etc/passwd").context("cannot read the users of this host")?;
        let setup = Setup {
            programs: Programs::find(root, content.daemons())?,
            layout: Layout::new(root, "plain").context("a name for FRR")?,
            folders: &FOLDERS,
            options,
            owner: Owner::find(&passwd),
        };
        let (text, stop) = (text.to_owned(), Arc::<AtomicBool>::default());
        let is_stopped = stop.clone();
        let (tell, told) = mpsc::channel();
        let thread = spawn(move || {
            let running = Running::new(setup, network, &content, &text);
            let mut running = match running {
                Ok(running) => running,
                Err(error) => {
                    let _ = tell.send(Err(error));
                    return;
                }
            };
            let begun = Instant::now();
            let _ = tell.send(Ok(()));
            while !is_stopped.load(Ordering::Relaxed) {
                let now = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
                running.turn(now, &mut |said| heard(format!("{said:?}")));
                sleep(LOOK);
            }
        });
        told.recv().context("the thread of FRR has died")??;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for PlainFrr {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
