//! Routers of the command itself, with its supervisor and its confinement, each between two interfaces of a namespace. Load
//! enters by packet sockets in front of them and is received by the routers' own threads; the kernel behind them counts.

mod counted;
mod folder;
mod links;
mod text;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use host::{cores, own_files};
use rustix::process::{Pid, Signal, kill_process};
use uplink::{Links, Netns, Wire};

use self::counted::{Counted, Counts};
use self::folder::Folder;
pub(crate) use self::links::{Link, ip, steer};
use crate::device::{self, NEAR_MAC};
use crate::experiment::Options;
use crate::generator::{Settings, first_frames};

/// Routers, and Open vSwitch, are up long before this; and down.
const PATIENCE: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(5);
/// Flows of the load where a router has several queues to spread them over.
const FLOWS: usize = 64;

/// What the routers' file is made of.
pub(crate) struct File<'a> {
    /// Device, engine, frame, vCPUs and queues of each.
    pub(crate) options: &'a Options,
    pub(crate) link: Link,
    pub(crate) queue_len: Option<&'static str>,
    /// For each router the lines of its table that say where its threads run and what they may have.
    pub(crate) routers: &'a [String],
    /// What the command remembers from other rooms; none: nothing.
    pub(crate) memory: Option<&'a Memory>,
}

impl<'a> File<'a> {
    /// Routers with queues of the default length, of which nothing is remembered.
    pub(crate) fn new(options: &'a Options, link: Link, routers: &'a [String]) -> Self {
        Self { options, link, queue_len: None, routers, memory: None }
    }
}

/// One router's way through the room.
struct Lane {
    wire: Wire,
    /// One frame for a station behind the router; where it has several queues, one of each flow.
    frames: Vec<Vec<u8>>,
    /// Where what was forwarded arrives.
    behind: String,
}

/// Running routers.
pub(crate) struct Room {
    lanes: Vec<Lane>,
    run: Process,
    counted: Arc<Counted>,
    _switch: Vec<Process>,
    netns: Netns,
    _links: Links,
    _folder: Folder,
}

/// What the command remembers from one room to the next: its state, never that of the host's own routers.
pub(crate) struct Memory(Folder);

impl Memory {
    /// Nothing is remembered yet.
    pub(crate) fn new() -> Result<Self> {
        Folder::new().map(Self)
    }
}

/// A process that ends with this.
pub(crate) struct Process(pub(crate) Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The command, which lies beside this program.
pub(crate) fn program() -> Result<PathBuf> {
    own_files::beside("ringroad")?
        .context("this runs a router by the command `ringroad`, which does not lie beside this program")
}

impl Room {
    /// Starts the command on a file.
    pub(crate) fn open(file: &File<'_>) -> Result<Self> {
        let program = program()?;
        let netns = Netns::new()?;
        let links = netns.settle(false)?;
        Self::furnish(&program, file, (netns, links), Folder::new()?)
    }

    /// Opens a room, has something measured there, and closes it.
    ///
    /// # Errors
    /// The routers do not run, by what is said of the first one, or whatever goes wrong there.
    pub(crate) fn visit<T>(file: &File<'_>, measure: impl FnOnce(&Self) -> Result<T>) -> Result<T> {
        let first = file.routers.first().map_or("", |lines| lines.trim());
        let room = Self::open(file).with_context(|| format!("with {}", first.replace('\n', ", ")))?;
        let measured = measure(&room);
        room.close()?;
        measured
    }

    fn furnish(
        program: &Path,
        file: &File<'_>,
        (netns, links): (Netns, Links),
        folder: Folder,
    ) -> Result<Self> {
        let (routers, place) = (file.routers.len(), &*folder.path);
        let switch = links::prepare(&netns, file.link, routers, place)?;
        let state = file.memory.map_or_else(|| place.join("state"), |memory| memory.0.path.clone());
        let (run, counted) = start(program, &netns, text::text(file, &folder.id), (place, &state))?;
        let lane = |router: usize| {
            let [near, far] = links::sides(router);
            let (ahead, behind) = match file.link {
                Link::Tap => (text::tap(&near), text::tap(&far)),
                _ => (format!("{near}1"), format!("{far}1")),
            };
            let frames = frames(file.options, text::mac(NEAR_MAC, router))?;
            anyhow::Ok(Lane { wire: Wire::open(&netns, &ahead)?, frames, behind })
        };
        let lanes = (0..routers).map(lane).collect::<Result<_>>()?;
        Ok(Self { lanes, run, counted, _switch: switch, netns, _links: links, _folder: folder })
    }

    /// Sends a burst to a router; returns how many frames were taken. Where there are several flows, `turn` picks one.
    pub(crate) fn send(&self, router: usize, frames: usize, turn: u64) -> usize {
        let Some(lane) = self.lanes.get(router) else { return 0 };
        let flow = (turn % lane.frames.len().max(1) as u64) as usize;
        lane.frames.get(flow).map_or(0, |frame| lane.wire.repeat(frame, frames))
    }

    /// Frames that have come through each router.
    pub(crate) fn forwarded(&self) -> Result<Vec<u64>> {
        let forwarded = |lane: &Lane| anyhow::Ok(self.netns.counters(&lane.behind)?.rx_frames);
        self.lanes.iter().map(forwarded).collect()
    }

    /// Has the kernel take frames in for each router on this CPU, as if the NIC's interrupts were served there.
    pub(crate) fn arrive_at(&self, cpu: usize) -> Result<()> {
        for router in 0..self.lanes.len() {
            let [near, _] = links::sides(router);
            links::steer(&self.netns, &format!("{near}0"), cpu)?;
        }
        Ok(())
    }

    /// The process that was started: the supervisor.
    pub(crate) fn supervisor(&self) -> u32 {
        self.run.0.id()
    }

    /// What the routers have counted so far.
    pub(crate) fn counts(&self) -> Counts {
        self.counted.so_far()
    }

    /// Kicks and exits for each frame that they forwarded since.
    pub(crate) fn each_since(&self, before: &Counts) -> Result<[f64; 2]> {
        self.counted.each_since(before, PATIENCE)
    }

    /// Ends the routers.
    pub(crate) fn close(mut self) -> Result<()> {
        let id = Pid::from_raw(self.run.0.id().cast_signed()).context("a process number")?;
        kill_process(id, Signal::TERM).context("the router had ended")?;
        let end = Instant::now() + PATIENCE;
        while self.run.0.try_wait()?.is_none() {
            ensure!(Instant::now() < end, "the router does not end");
            thread::sleep(LOOK);
        }
        Ok(())
    }
}

/// Frames for a station behind a router, whose NIC has this address.
fn frames(options: &Options, near: [u8; 6]) -> Result<Vec<Vec<u8>>> {
    let flows = if options.queues > 1 { FLOWS } else { 1 };
    let traffic = Settings { rate: None, destination_mac: frame::Mac(near), ..device::traffic(options) };
    first_frames(&traffic, flows)
}

/// Runs what follows it where /sys is that of its network namespace, with the control groups of the host, if there are any.
const IN_ITS_OWN_SYS: &str = "if mount -o rbind /sys/fs/cgroup \"$LAB_GROUPS\" 2>/dev/null; \
     then mount -t sysfs none /sys && mount -o rbind \"$LAB_GROUPS\" /sys/fs/cgroup; \
     else mount -t sysfs none /sys; fi && exec \"$0\" \"$@\"";

/// All CPUs, as a list.
fn everywhere() -> Result<String> {
    Ok(cores::online()?.iter().map(usize::to_string).collect::<Vec<_>>().join(","))
}

fn start(
    program: &Path,
    netns: &Netns,
    text: String,
    (folder, state): (&Path, &Path),
) -> Result<(Process, Arc<Counted>)> {
    let path = folder.join("lab.toml");
    let groups = folder.join("groups");
    fs::create_dir_all(&groups).with_context(|| format!("cannot make {}", groups.display()))?;
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    // With a /sys of its namespace, and on any CPU: this thread has one of its own.
    let mut command = netns.command("unshare");
    command.args(["--mount", "taskset", "-c", &everywhere()?, "sh", "-c", IN_ITS_OWN_SYS]);
    links::environment(&mut command, folder)
        .env("LAB_GROUPS", &groups)
        .env("STATE_DIRECTORY", state)
        .arg(program)
        .arg("run")
        .arg(&path)
        .args(["--log", "text", "--json"]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut run = Process(child.context("cannot start the router")?);
    let counted = Counted::by(run.0.stdout.take().context("the router has no output")?);
    let said = run.0.stderr.take().context("the router has no output")?;
    let mut heard = Vec::new();
    let mut lines = BufReader::new(said).lines();
    for line in lines.by_ref() {
        let line = line.context("cannot hear the router")?;
        if line.contains("is up after") {
            // What else it says is read, so that it can go on.
            thread::spawn(move || lines.for_each(drop));
            return Ok((run, counted));
        }
        heard.push(line);
    }
    bail!("the router ended: {}", heard.join("; "))
}
