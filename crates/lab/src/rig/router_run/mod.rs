//! Room: routers run by the command itself, with its supervisor and its confinement, each between two interfaces of a
//! namespace. Load enters through packet sockets in front of the interfaces and is received by the routers' own threads;
//! the kernel behind them counts frames.
//!
//! Routers of the engines `kernel` and `lxc` are network namespaces in which the host's kernel forwards. `hand` creates such
//! namespaces with ip(8), for comparison. The kernel processes the received frames of all of these on one chosen CPU
//! ([`RouterRun::arrive_at`]), or in NAPI threads (`inside`).

mod asked;
mod controlled;
mod counted;
mod flow_probe;
mod folder;
mod forwarder;
mod group;
mod guest;
mod hand;
mod inside;
mod links;
mod members;
mod probe;
mod text;
mod traced;

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
use sched::account::Thread;
use uplink::{Links, Netns, PacketSender};

pub(crate) use self::controlled::{ControlledRun, freeze};
use self::counted::{Counts, RunCounters};
pub(crate) use self::flow_probe::FlowProbe;
pub(crate) use self::folder::Folder;
pub(crate) use self::forwarder::Forwarder;
pub(crate) use self::group::{Balancer, GroupShape, Interconnect, Stages};
pub(crate) use self::guest::with_files;
pub(crate) use self::inside::threaded;
pub(crate) use self::links::{Link, ip, steer};
pub(crate) use self::members::change;
pub(crate) use self::probe::Probe;
use crate::device::{self, NEAR_MAC};
use crate::experiment::Options;
use crate::generator::{Settings, first_frames};
use crate::metric::usage;

/// Timeout for routers and Open vSwitch to start or stop; normally they do long before.
const PATIENCE: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(5);
/// Fewest flows of the load of routers with several queues or members to spread them over.
const FLOWS: u32 = 64;

/// Content of the routers' configuration file.
pub(crate) struct File<'a> {
    /// Device, engine, frame size, vCPUs and queues of each router.
    pub(crate) options: &'a Options,
    /// Forwarder; by default the command with the engine of the options.
    pub(crate) by: Forwarder,
    pub(crate) link: Link,
    pub(crate) queue_len: Option<&'static str>,
    /// Queueing discipline at the load's end of each veth pair, in which the load's frames wait; none: they bypass queueing
    /// disciplines.
    pub(crate) qdisc: Option<&'static str>,
    /// For each router, the lines of its table that place its threads and give them resources.
    pub(crate) routers: &'a [String],
    /// Group that stands in the place of each router; none: it is a router.
    pub(crate) group: Option<GroupShape>,
    /// Flows of the load of each router; none: those of the options where they are spread over queues or members, and else one.
    pub(crate) flows: Option<u32>,
    /// State that the command keeps from other rooms; none: it starts without any.
    pub(crate) memory: Option<&'a StateDirectory>,
}

impl<'a> File<'a> {
    /// Creates a file for routers with queues of the default length, without remembered state.
    pub(crate) fn new(options: &'a Options, link: Link, routers: &'a [String]) -> Self {
        let (by, queue_len, group) = (Forwarder::of(options), None, None);
        Self { options, by, link, queue_len, qdisc: None, routers, group, flows: None, memory: None }
    }

    /// Number of flows of each router's load.
    fn flows(&self) -> u32 {
        let is_spread = self.options.queues > 1 || self.group.is_some();
        self.flows.unwrap_or(if is_spread { self.options.flows.max(FLOWS) } else { 1 })
    }
}

/// Path of one router's frames through the room.
struct Lane {
    wire: PacketSender,
    /// Frames for a station behind the router, one of each flow.
    frames: Vec<Vec<u8>>,
    /// Interface at which forwarded frames arrive.
    behind: String,
}

/// Running routers.
pub(crate) struct RouterRun {
    lanes: Vec<Lane>,
    /// Run of the command; `None` if the routers are set up by hand.
    run: Option<Run>,
    /// Configuration file of the command; empty if the routers are set up by hand.
    text: String,
    by: Forwarder,
    link: Link,
    /// Group that stands in the place of each router.
    group: Option<GroupShape>,
    /// Unique part of the routers' names.
    id: String,
    /// Network namespaces of the routers, if the host's kernel forwards.
    inside: Vec<Netns>,
    _switch: Vec<Process>,
    netns: Netns,
    _links: Links,
    folder: Folder,
}

/// Run of the command, and its counters.
struct Run {
    process: Process,
    counted: Arc<RunCounters>,
}

/// Run of the command on any file, in a network namespace of its own.
pub(crate) struct FileRun {
    run: Run,
    /// Time from the start of the command until all routers were up.
    pub(crate) came_up: Duration,
    _links: Links,
    _folder: Folder,
}

impl FileRun {
    /// Starts the command on a file of this text, and waits until its routers are up.
    ///
    /// # Errors
    /// The routers do not run.
    pub(crate) fn open(text: &str) -> Result<Self> {
        let (netns, folder) = (Netns::new()?, Folder::new()?);
        let links = netns.settle(false)?;
        Self::open_in((netns, links), folder, text)
    }

    /// Starts the command on a file of this text in the namespace of this program, whose interfaces the routers use.
    ///
    /// # Errors
    /// The routers do not run.
    pub(crate) fn open_here(text: &str) -> Result<Self> {
        let (netns, folder) = (Netns::here()?, Folder::new()?);
        let links = netns.links()?;
        Self::open_in((netns, links), folder, text)
    }

    fn open_in((netns, links): (Netns, Links), folder: Folder, text: &str) -> Result<Self> {
        let program = program()?;
        let (place, begin) = (&*folder.path, Instant::now());
        let run = start(&program, &netns, text, (place, &place.join("state")))?;
        Ok(Self { run, came_up: begin.elapsed(), _links: links, _folder: folder })
    }

    /// Process ID of the command: the supervisor.
    pub(crate) fn supervisor(&self) -> u32 {
        self.run.process.0.id()
    }

    /// Stops the routers.
    ///
    /// # Errors
    /// They do not end.
    pub(crate) fn close(self) -> Result<()> {
        self.run.end()
    }
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
    /// Starts the command on a file, or sets its routers up by hand.
    pub(crate) fn open(file: &File<'_>) -> Result<Self> {
        if file.by != Forwarder::Hand {
            program()?;
        }
        let netns = Netns::new()?;
        let links = netns.settle(false)?;
        let room = Self::furnish(file, (netns, links), Folder::new()?)?;
        if file.by.is_linux_guest() {
            room.await_guests()?;
        }
        Ok(room)
    }

    /// Opens a room, calls `measure` with it, and closes it.
    ///
    /// # Errors
    /// The routers do not run (the error names the first router's lines), or `measure` fails.
    pub(crate) fn with_routers<T>(file: &File<'_>, measure: impl FnOnce(&Self) -> Result<T>) -> Result<T> {
        let first = file.routers.first().map_or("", |lines| lines.trim());
        let first = if first.is_empty() { file.by.name() } else { first };
        let room = Self::open(file).with_context(|| format!("with {}", first.replace('\n', ", ")))?;
        let measured = measure(&room);
        room.close()?;
        measured
    }

    fn furnish(file: &File<'_>, (netns, links): (Netns, Links), folder: Folder) -> Result<Self> {
        let (routers, place) = (file.routers.len(), &*folder.path);
        let mut switch = links::prepare(&netns, file.link, routers, place)?;
        if let Some(group) = file.group {
            switch.extend(group.prepare(&netns, place)?);
        }
        let state = file.memory.map_or_else(|| place.join("state"), |memory| memory.0.path.clone());
        let id = text::id(file, &folder.id);
        let text = text::text(file, &id, place);
        let (run, inside) = match file.by {
            Forwarder::Hand => {
                let made = (0..routers).map(|router| hand::set_up(&netns, file.link, router));
                (None, made.collect::<Result<Vec<_>>>()?)
            }
            Forwarder::Command(engine) => {
                let run = start(&program()?, &netns, &text, (place, &state))?;
                let names = (0..routers).filter(|_| engine.is_kernel()).map(|at| text::name(&id, at));
                let inside = names.map(|name| inside::namespace(run.process.0.id(), &name));
                let inside = inside.collect::<Result<Vec<_>>>()?;
                (Some(run), inside)
            }
        };
        if file.by.is_kernel() {
            links::set_up_outer(&netns, file.link, routers)?;
        }
        let lane = |router: usize| {
            let [ahead, behind] = links::sides(router).map(|side| file.link.outer(&side));
            let frames = frames((file.options, file.flows()), text::mac(NEAR_MAC, router))?;
            let open = if file.qdisc.is_some() { PacketSender::open_queued } else { PacketSender::open };
            anyhow::Ok(Lane { wire: open(&netns, &ahead)?, frames, behind })
        };
        let lanes = (0..routers).map(lane).collect::<Result<_>>()?;
        let File { by, link, group, .. } = *file;
        Ok(Self {
            lanes,
            run,
            text,
            by,
            link,
            group,
            id,
            inside,
            _switch: switch,
            netns,
            _links: links,
            folder,
        })
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

    /// Makes the kernel process received frames of all routers on this CPU, as if the NIC's interrupts were served there.
    pub(crate) fn arrive_at(&self, cpu: usize) -> Result<()> {
        self.arrive_each(|_| cpu)
    }

    /// Process ID of the command: the supervisor; `None` if the routers are set up by hand.
    pub(crate) fn supervisor(&self) -> Option<u32> {
        self.run.as_ref().map(|run| run.process.0.id())
    }

    /// Content of the configuration file of the command.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Lists all threads of the routers: those of the command's processes, and the NAPI threads of the routers' interfaces.
    pub(crate) fn threads(&self) -> Result<Vec<Thread>> {
        let mut threads = self.supervisor().map_or_else(|| Ok(Vec::new()), usage::threads)?;
        if self.by.is_kernel() {
            threads.extend(self.receiving()?);
        }
        Ok(threads)
    }

    /// Totals of the routers' counters so far.
    pub(crate) fn counts(&self) -> Counts {
        self.run.as_ref().map_or_else(Counts::default, |run| run.counted.so_far())
    }

    /// Doorbells and exits per frame forwarded since `before`.
    pub(crate) fn each_since(&self, before: &Counts) -> Result<[f64; 2]> {
        let run = self.run.as_ref().context("routers that are set up by hand tell no counters")?;
        run.counted.each_since(before, PATIENCE)
    }

    /// Stops the routers.
    pub(crate) fn close(self) -> Result<()> {
        self.run.map_or(Ok(()), Run::end)
    }
}

impl Run {
    /// Ends the command, and waits for its end.
    fn end(mut self) -> Result<()> {
        let process = &mut self.process.0;
        let id = Pid::from_raw(process.id().cast_signed()).context("a process number")?;
        kill_process(id, Signal::TERM).context("the router had ended")?;
        let end = Instant::now() + PATIENCE;
        while process.try_wait()?.is_none() {
            ensure!(Instant::now() < end, "the router does not end");
            thread::sleep(LOOK);
        }
        Ok(())
    }
}

/// Frames for a station behind a router, whose NIC has this address: one of each flow.
fn frames((options, flows): (&Options, u32), near: [u8; 6]) -> Result<Vec<Vec<u8>>> {
    let destination_mac = frame::Mac(near);
    let traffic = Settings { rate: None, destination_mac, flows, ..device::traffic(options) };
    first_frames(&traffic, flows as usize)
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

fn start(program: &Path, netns: &Netns, text: &str, (folder, state): (&Path, &Path)) -> Result<Run> {
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
    let mut process = Process(child.context("cannot start the router")?);
    let counted = RunCounters::by(process.0.stdout.take().context("the router has no output")?);
    let said = process.0.stderr.take().context("the router has no output")?;
    let mut heard = Vec::new();
    let mut lines = BufReader::new(said).lines();
    for line in lines.by_ref() {
        let line = line.context("cannot hear the router")?;
        if line.contains("is up after") {
            // Keep reading its messages, so that the pipe does not fill up and block it.
            thread::spawn(move || lines.for_each(drop));
            return Ok(Run { process, counted });
        }
        heard.push(line);
    }
    bail!("the router ended: {}", heard.join("; "))
}
