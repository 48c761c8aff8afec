//! Room: routers run by the command itself, with its supervisor and its confinement, each between two interfaces of a
//! namespace. Load enters through packet sockets in front of the interfaces and is received by the routers' own threads;
//! the kernel behind them counts frames.

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
use uplink::{Links, Netns, PacketSender};

use self::counted::{Counts, RunCounters};
use self::folder::Folder;
pub(crate) use self::links::{Link, ip, steer};
use crate::device::{self, NEAR_MAC};
use crate::experiment::Options;
use crate::generator::{Settings, first_frames};

/// Timeout for routers and Open vSwitch to start or stop; normally they do long before.
const PATIENCE: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(5);
/// Flows of the load, for routers with several queues to spread them over.
const FLOWS: usize = 64;

/// Content of the routers' configuration file.
pub(crate) struct File<'a> {
    /// Device, engine, frame size, vCPUs and queues of each router.
    pub(crate) options: &'a Options,
    pub(crate) link: Link,
    pub(crate) queue_len: Option<&'static str>,
    /// For each router, the lines of its table that place its threads and give them resources.
    pub(crate) routers: &'a [String],
    /// Of how many members each router is a group; none: it is a router.
    pub(crate) members: Option<u32>,
    /// State that the command keeps from other rooms; none: it starts without any.
    pub(crate) memory: Option<&'a StateDirectory>,
}

impl<'a> File<'a> {
    /// Creates a file for routers with queues of the default length, without remembered state.
    pub(crate) fn new(options: &'a Options, link: Link, routers: &'a [String]) -> Self {
        Self { options, link, queue_len: None, routers, members: None, memory: None }
    }
}

/// Path of one router's frames through the room.
struct Lane {
    wire: PacketSender,
    /// A frame for a station behind the router; for a router with several queues, one frame of each flow.
    frames: Vec<Vec<u8>>,
    /// Interface at which forwarded frames arrive.
    behind: String,
}

/// Running routers.
pub(crate) struct RouterRun {
    lanes: Vec<Lane>,
    run: Process,
    counted: Arc<RunCounters>,
    _switch: Vec<Process>,
    netns: Netns,
    _links: Links,
    _folder: Folder,
}

/// State directory of the command, kept from one room to the next, and separate from that of the host's own routers.
pub(crate) struct StateDirectory(Folder);

impl StateDirectory {
    /// Creates an empty state directory.
    pub(crate) fn new() -> Result<Self> {
        Folder::new().map(Self)
    }
}

/// Child process, killed when dropped.
pub(crate) struct Process(pub(crate) Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Path of the `ringroad` command, which must be in the same folder as this program.
pub(crate) fn program() -> Result<PathBuf> {
    own_files::beside("ringroad")?
        .context("this runs a router by the command `ringroad`, which does not lie beside this program")
}

impl RouterRun {
    /// Starts the command on a file.
    pub(crate) fn open(file: &File<'_>) -> Result<Self> {
        let program = program()?;
        let netns = Netns::new()?;
        let links = netns.settle(false)?;
        Self::furnish(&program, file, (netns, links), Folder::new()?)
    }

    /// Opens a room, calls `measure` with it, and closes it.
    ///
    /// # Errors
    /// The routers do not run (the error names the first router's lines), or `measure` fails.
    pub(crate) fn with_routers<T>(file: &File<'_>, measure: impl FnOnce(&Self) -> Result<T>) -> Result<T> {
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
            let is_spread = file.options.queues > 1 || file.members.is_some();
            let frames = frames((file.options, is_spread), text::mac(NEAR_MAC, router))?;
            anyhow::Ok(Lane { wire: PacketSender::open(&netns, &ahead)?, frames, behind })
        };
        let lanes = (0..routers).map(lane).collect::<Result<_>>()?;
        Ok(Self { lanes, run, counted, _switch: switch, netns, _links: links, _folder: folder })
    }

    /// Sends a burst to a router; returns how many frames were accepted. If there are several flows, `turn` selects one.
    pub(crate) fn send(&self, router: usize, frames: usize, turn: u64) -> usize {
        let Some(lane) = self.lanes.get(router) else { return 0 };
        let flow = (turn % lane.frames.len().max(1) as u64) as usize;
        lane.frames.get(flow).map_or(0, |frame| lane.wire.repeat(frame, frames))
    }

    /// Frames forwarded by each router.
    pub(crate) fn forwarded(&self) -> Result<Vec<u64>> {
        let forwarded = |lane: &Lane| anyhow::Ok(self.netns.counters(&lane.behind)?.rx_frames);
        self.lanes.iter().map(forwarded).collect()
    }

    /// Makes the kernel process received frames of each router on this CPU, as if the NIC's interrupts were served there.
    pub(crate) fn arrive_at(&self, cpu: usize) -> Result<()> {
        for router in 0..self.lanes.len() {
            let [near, _] = links::sides(router);
            links::steer(&self.netns, &format!("{near}0"), cpu)?;
        }
        Ok(())
    }

    /// Process ID of the command: the supervisor.
    pub(crate) fn supervisor(&self) -> u32 {
        self.run.0.id()
    }

    /// Totals of the routers' counters so far.
    pub(crate) fn counts(&self) -> Counts {
        self.counted.so_far()
    }

    /// Doorbells and exits per frame forwarded since `before`.
    pub(crate) fn each_since(&self, before: &Counts) -> Result<[f64; 2]> {
        self.counted.each_since(before, PATIENCE)
    }

    /// Stops the routers.
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

/// Frames for a station behind a router, whose NIC has this address: of several flows where they are spread.
fn frames((options, is_spread): (&Options, bool), near: [u8; 6]) -> Result<Vec<Vec<u8>>> {
    let flows = if is_spread { FLOWS } else { 1 };
    let traffic = Settings { rate: None, destination_mac: frame::Mac(near), ..device::traffic(options) };
    first_frames(&traffic, flows)
}

/// Shell script that runs a command with the /sys of its network namespace, and with the host's control groups, if there
/// are any.
const IN_ITS_OWN_SYS: &str = "if mount -o rbind /sys/fs/cgroup \"$LAB_GROUPS\" 2>/dev/null; \
     then mount -t sysfs none /sys && mount -o rbind \"$LAB_GROUPS\" /sys/fs/cgroup; \
     else mount -t sysfs none /sys; fi && exec \"$0\" \"$@\"";

/// Comma-separated list of all CPUs.
fn everywhere() -> Result<String> {
    Ok(cores::online()?.iter().map(usize::to_string).collect::<Vec<_>>().join(","))
}

fn start(
    program: &Path,
    netns: &Netns,
    text: String,
    (folder, state): (&Path, &Path),
) -> Result<(Process, Arc<RunCounters>)> {
    let path = folder.join("lab.toml");
    let groups = folder.join("groups");
    fs::create_dir_all(&groups).with_context(|| format!("cannot make {}", groups.display()))?;
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    // Start it with the /sys of its namespace, and free on all CPUs: this thread itself is pinned to one.
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
    let counted = RunCounters::by(run.0.stdout.take().context("the router has no output")?);
    let said = run.0.stderr.take().context("the router has no output")?;
    let mut heard = Vec::new();
    let mut lines = BufReader::new(said).lines();
    for line in lines.by_ref() {
        let line = line.context("cannot hear the router")?;
        if line.contains("is up after") {
            // Keep reading its messages, so that the pipe does not fill up and block it.
            thread::spawn(move || lines.for_each(drop));
            return Ok((run, counted));
        }
        heard.push(line);
    }
    bail!("the router ended: {}", heard.join("; "))
}
