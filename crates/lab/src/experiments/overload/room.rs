//! The host: a namespace with what the router is attached to, the load on one side and the count on the other.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use switch::Source;
use uplink::{Links, Netns, Wire};

use super::Link;
use super::counted::{Counted, Counts};
use crate::cores;
use crate::device::{self, FAR_MAC, NEAR_MAC, STATION_MAC};
use crate::experiment::Options;
use crate::generator::Generator;

/// A router, and Open vSwitch, are up long before this; and down.
const PATIENCE: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(5);
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";

/// What the router's file is made of.
pub(super) struct File<'a> {
    pub(super) options: &'a Options,
    pub(super) queue_len: Option<&'static str>,
    /// For its vCPU and its vhost thread.
    pub(super) cpu: usize,
}

/// A running router between two interfaces.
pub(super) struct Room {
    frame: Vec<u8>,
    wire: Wire,
    /// Where what was forwarded arrives.
    behind: &'static str,
    run: Process,
    counted: Arc<Counted>,
    _switch: Vec<Process>,
    netns: Netns,
    _links: Links,
    folder: PathBuf,
}

/// A process that ends with this.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Room {
    pub(super) fn open(program: &Path, link: Link, file: &File<'_>) -> Result<Self> {
        let netns = Netns::new()?;
        let links = netns.settle(false)?;
        // Several may be open at once.
        static ROOMS: AtomicU32 = AtomicU32::new(0);
        let id = format!("{}-{}", std::process::id(), ROOMS.fetch_add(1, Relaxed));
        let folder = std::env::temp_dir().join(format!("ringroad-lab-{id}"));
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let switch = prepare(&netns, link, &folder)?;
        let (run, counted) = start(program, &netns, text(link, file, &id), &folder)?;
        let (ahead, behind) = match link {
            Link::Tap => ("lab-near", "lab-far"),
            _ => ("near1", "far1"),
        };
        let wire = Wire::open(&netns, ahead)?;
        let frame = frame(file.options)?;
        Ok(Self { frame, wire, behind, run, counted, _switch: switch, netns, _links: links, folder })
    }

    /// Sends a burst to the router; returns how many frames were taken.
    pub(super) fn send(&self, frames: usize) -> usize {
        self.wire.repeat(&self.frame, frames)
    }

    /// Frames that have come through.
    pub(super) fn forwarded(&self) -> Result<u64> {
        Ok(self.netns.counters(self.behind)?.rx_frames)
    }

    /// What the router has counted so far.
    pub(super) fn counts(&self) -> Counts {
        self.counted.so_far()
    }

    /// Kicks and exits for each frame that it forwarded since.
    pub(super) fn each_since(&self, before: &Counts) -> Result<[f64; 2]> {
        self.counted.each_since(before, PATIENCE)
    }

    /// Ends the router.
    pub(super) fn close(mut self) -> Result<()> {
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

impl Drop for Room {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// One frame for a station behind the router.
fn frame(options: &Options) -> Result<Vec<u8>> {
    let mut generator =
        Generator::new(&crate::generator::Settings { rate: None, ..device::traffic(options) })?;
    let mut octets = Vec::new();
    generator.drain(1, &mut |frames| {
        for frame in frames {
            octets.resize(frame.len(), 0);
            frame.octets().copy_to_slice(&mut octets);
        }
    });
    ensure!(!octets.is_empty(), "the generator gives no frame");
    Ok(octets)
}

/// Makes what the NICs are attached to; and the processes of Open vSwitch, if it takes part.
fn prepare(netns: &Netns, link: Link, folder: &Path) -> Result<Vec<Process>> {
    if link == Link::Tap {
        return Ok(Vec::new());
    }
    for side in ["near", "far"] {
        ip(netns, &format!("link add {side}0 type veth peer name {side}1"))?;
        ip(netns, &format!("link set {side}0 up"))?;
        ip(netns, &format!("link set {side}1 up"))?;
        if link == Link::Bridge {
            ip(netns, &format!("link add br-{side} type bridge"))?;
            ip(netns, &format!("link set br-{side} up"))?;
            ip(netns, &format!("link set {side}0 master br-{side}"))?;
        }
    }
    if link == Link::Ovs { open_vswitch(netns, folder) } else { Ok(Vec::new()) }
}

fn ip(netns: &Netns, words: &str) -> Result<()> {
    finished(netns.command("ip").args(words.split(' ')))
}

fn finished(command: &mut Command) -> Result<()> {
    let done = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {command:?}"))?;
    ensure!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr).trim());
    Ok(())
}

fn open_vswitch(netns: &Netns, folder: &Path) -> Result<Vec<Process>> {
    let at = |name: &str| folder.join(name).display().to_string();
    finished(Command::new("ovsdb-tool").args(["create", &at("conf.db"), SCHEMA]))?;
    let mut processes = Vec::new();
    let mut daemon = |program: &str, words: &[&str]| -> Result<()> {
        let mut command = netns.command(program);
        let command = environment(&mut command, folder).args(words).current_dir(folder);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        processes.push(Process(child.with_context(|| format!("cannot start {program}"))?));
        Ok(())
    };
    let (remote, local) = (format!("--remote=punix:{}", at("db.sock")), format!("unix:{}", at("db.sock")));
    daemon("ovsdb-server", &[&at("conf.db"), &remote, "--unixctl=db.ctl", "--no-chdir"])?;
    let end = Instant::now() + PATIENCE;
    while !folder.join("db.sock").exists() {
        ensure!(Instant::now() < end, "Open vSwitch's database does not come up");
        thread::sleep(LOOK);
    }
    daemon("ovs-vswitchd", &[&local, "--unixctl=vs.ctl", "--no-chdir"])?;
    for side in ["near", "far"] {
        let bridge = format!("br-{side}");
        let mut command = Command::new("ovs-vsctl");
        let words = format!(
            "--timeout=20 add-br {bridge} -- set bridge {bridge} datapath_type=netdev -- add-port {bridge} {side}0"
        );
        finished(environment(&mut command, folder).args(words.split(' ')))?;
    }
    Ok(processes)
}

fn environment<'c>(command: &'c mut Command, folder: &Path) -> &'c mut Command {
    ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"]
        .iter()
        .fold(command, |command, key| command.env(key, folder))
}

fn text(link: Link, file: &File<'_>, id: &str) -> String {
    let engine = device::engine(file.options).name();
    let (cpu, vhost) = (file.cpu, file.options.vhost.name());
    let mut text = format!(
        "[[router]]\nname = \"lab{id}\"\nengine = \"{engine}\"\nvhost = \"{vhost}\"\n\
         pin = {{ vcpu = \"{cpu}\", vhost = \"{cpu}\" }}\n"
    );
    for (side, mac, address) in [("near", NEAR_MAC, "198.18.0.1"), ("far", FAR_MAC, "198.19.0.1")] {
        let attach = match link {
            Link::Macvtap => format!("macvtap:{side}0"),
            Link::Bridge => format!("bridge:br-{side}"),
            Link::Ovs => format!("ovs:br-{side}"),
            Link::Tap => format!("tap:lab-{side}"),
            Link::Xdp => format!("xdp:{side}0"),
        };
        let model = file.options.nic.name();
        let _ = write!(
            text,
            "[[router.nic]]\nname = \"{side}\"\nmodel = \"{model}\"\nattach = \"{attach}\"\nmac = \"{}\"\n\
             address = \"{address}/24\"\n",
            frame::Mac(mac)
        );
        if let Some(length) = file.queue_len {
            let _ = writeln!(text, "queue_len = {length}");
        }
    }
    let station = device::STATION;
    let _ = write!(
        text,
        "[[router.route]]\nto = \"0.0.0.0/0\"\nvia = \"{station}\"\n[[router.neighbour]]\naddress = \"{station}\"\n\
         mac = \"{}\"\n",
        frame::Mac(STATION_MAC)
    );
    text
}

/// Runs what follows it where /sys is that of its network namespace.
const IN_ITS_OWN_SYS: &str = "mount -t sysfs none /sys && exec \"$0\" \"$@\"";

/// All CPUs, as a list.
fn everywhere() -> Result<String> {
    Ok(cores::online()?.iter().map(usize::to_string).collect::<Vec<_>>().join(","))
}

fn start(program: &Path, netns: &Netns, text: String, folder: &Path) -> Result<(Process, Arc<Counted>)> {
    let path = folder.join("lab.toml");
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    // With a /sys of its namespace, and on any CPU: this thread has one of its own.
    let mut command = netns.command("unshare");
    command.args(["--mount", "taskset", "-c", &everywhere()?, "sh", "-c", IN_ITS_OWN_SYS]);
    environment(&mut command, folder).arg(program).arg("run").arg(&path).args(["--log", "text", "--json"]);
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
