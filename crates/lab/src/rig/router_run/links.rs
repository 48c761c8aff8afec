//! Backends of the routers' NICs: interfaces of a namespace, bridges, Open vSwitch.

use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use uplink::Netns;

use super::{LOOK, PATIENCE, Process};
use crate::experiment::named_kind;

const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";

named_kind! {
    /// Backend of the routers' NICs.
    pub(crate) enum Link {
        /// macvtaps on veth pairs.
        Macvtap = "macvtap",
        /// TAPs in bridges of the kernel, with veth pairs.
        Bridge = "bridge",
        /// TAPs in bridges of Open vSwitch with its user-space datapath, with veth pairs.
        Ovs = "ovs",
        /// Bare TAPs.
        Tap = "tap",
        /// veth pairs through AF_XDP.
        Xdp = "xdp",
        /// macvlans on veth pairs, for engines `kernel` and `lxc`.
        Macvlan = "macvlan",
        /// veth pairs with one end in the router's namespace, for the same engines.
        Veth = "veth",
    }
}

/// Names of the n-th router's two sides: the ingress side, and the egress side.
pub(super) fn sides(router: usize) -> [String; 2] {
    ["near", "far"].map(|side| if router == 0 { side.to_owned() } else { format!("{side}-{router}-") })
}

impl Link {
    /// Returns true if engines other than `kernel` and `lxc` can use it.
    pub(crate) const fn is_for_machines(self) -> bool {
        !matches!(self, Self::Macvlan | Self::Veth)
    }

    /// Returns the outer interface of a side, where frames enter or leave the router.
    pub(super) fn outer(self, side: &str) -> String {
        if self == Self::Tap { super::text::tap(side) } else { format!("{side}1") }
    }

    /// Returns true if the forwarder creates the outer interfaces.
    pub(super) const fn is_made_by_router(self) -> bool {
        matches!(self, Self::Tap | Self::Veth)
    }
}

/// Creates the backends for this many routers; returns the processes of Open vSwitch, if it takes part.
pub(super) fn prepare(netns: &Netns, link: Link, routers: usize, folder: &Path) -> Result<Vec<Process>> {
    if link.is_made_by_router() {
        return Ok(Vec::new());
    }
    let sides: Vec<String> = (0..routers).flat_map(sides).collect();
    for side in &sides {
        ip(netns, &format!("link add {side}0 type veth peer name {side}1"))?;
        ip(netns, &format!("link set {side}0 up"))?;
        ip(netns, &format!("link set {side}1 up"))?;
        if link == Link::Bridge {
            ip(netns, &format!("link add br-{side} type bridge"))?;
            ip(netns, &format!("link set br-{side} up"))?;
            ip(netns, &format!("link set {side}0 master br-{side}"))?;
        }
    }
    if link == Link::Ovs { open_vswitch(netns, &sides, folder) } else { Ok(Vec::new()) }
}

/// Sets the outer interfaces up. Engines `kernel` and `lxc` leave the other ends of their veth pairs down.
pub(super) fn set_up_outer(netns: &Netns, link: Link, routers: usize) -> Result<()> {
    let sides = (0..routers).flat_map(sides).filter(|_| link.is_made_by_router());
    let mut outer = sides.map(|side| link.outer(&side));
    outer.try_for_each(|name| ip(netns, &format!("link set {name} up")))
}

/// Runs ip(8) in a namespace.
pub(crate) fn ip(netns: &Netns, words: &str) -> Result<()> {
    finished(netns.command("ip").args(words.split(' ')))
}

/// Makes the kernel process frames received on an interface on this CPU (receive packet steering, RPS).
pub(crate) fn steer(netns: &Netns, interface: &str, cpu: usize) -> Result<()> {
    ensure!(cpu < 32, "CPU {cpu} is beyond the 32 that a mask names here");
    let file = format!("/sys/class/net/{interface}/queues/rx-0/rps_cpus");
    let write = format!("mount -t sysfs none /sys && echo {:x} > {file}", 1u32 << cpu);
    finished(netns.command("unshare").args(["--mount", "sh", "-c", &write]))
}

/// Runs a command to completion; fails unless it succeeds.
pub(super) fn finished(command: &mut Command) -> Result<()> {
    told(command).map(drop)
}

/// Runs a command to completion, and returns its output; fails unless it succeeds.
pub(super) fn told(command: &mut Command) -> Result<String> {
    let done = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {command:?}"))?;
    ensure!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr).trim());
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

fn open_vswitch(netns: &Netns, sides: &[String], folder: &Path) -> Result<Vec<Process>> {
    let processes = vswitchd(netns, folder)?;
    for side in sides {
        add_ovs_bridge(folder, &format!("br-{side}"), Some(&format!("{side}0")))?;
    }
    Ok(processes)
}

/// Starts Open vSwitch in a namespace; returns its processes.
pub(super) fn vswitchd(netns: &Netns, folder: &Path) -> Result<Vec<Process>> {
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
    Ok(processes)
}

/// Creates a bridge with the user-space datapath of Open vSwitch, and perhaps a port of it.
pub(super) fn add_ovs_bridge(folder: &Path, bridge: &str, port: Option<&str>) -> Result<()> {
    let mut words = format!("--timeout=20 add-br {bridge} -- set bridge {bridge} datapath_type=netdev");
    if let Some(port) = port {
        words.push_str(&format!(" -- add-port {bridge} {port}"));
    }
    let mut command = Command::new("ovs-vsctl");
    finished(environment(&mut command, folder).args(words.split(' ')))
}

/// Sets the directories of Open vSwitch.
pub(super) fn environment<'c>(command: &'c mut Command, folder: &Path) -> &'c mut Command {
    ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"]
        .iter()
        .fold(command, |command, key| command.env(key, folder))
}
