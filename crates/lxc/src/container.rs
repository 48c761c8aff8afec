//! Description of a container, and its configuration for LXC (lxc.container.conf(5)).

use std::fmt::Write as _;
use std::path::PathBuf;

use netlink::{Mac, MacvtapMode};

use crate::{Error, HostPaths, check};

/// Init of a container without a root file system of its own. The kernel forwards and needs no process, but a container ends with
/// its init.
const WAITING: &str = "/bin/sleep infinity";
/// Capabilities kept in a container with the host's programs: those that routing daemons and a shell need.
const KEPT: &str =
    "chown dac_override fowner fsetid kill net_admin net_bind_service net_raw setgid setpcap setuid";
/// Capabilities dropped in a container with its own root file system.
const DROPPED: &str = "mac_admin mac_override mknod sys_boot sys_module sys_rawio sys_time syslog";
/// Size limit of each tmpfs of a container.
const ROOM: &str = "4m";

/// A container with a router in it. It has no user namespace: root inside is the host's root, with fewer capabilities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// Name for LXC ([`name_for`]), unique on the host.
    pub name: String,
    /// Host name inside the container.
    pub host_name: String,
    /// Root file system.
    pub root: Root,
    /// Network interfaces, in order.
    pub nics: Vec<Nic>,
}

/// Root file system of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Root {
    /// The host's programs and libraries, mounted read-only, and private directories that are removed with the container. Its
    /// init does nothing.
    Programs,
    /// A directory of the user's, which the container may change.
    Folder {
        /// Absolute path of the directory.
        path: PathBuf,
        /// Command line of its init, in words without blanks; the first is an absolute path in that root.
        init: Vec<String>,
    },
}

/// A network interface of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nic {
    /// Name inside the container.
    pub name: String,
    /// Type and counterpart of the interface.
    pub link: Link,
    /// Ethernet address; `None`: as created. Ignored for an interface that is moved in, because LXC would not restore its
    /// address.
    pub mac: Option<Mac>,
    /// MTU, in octets; `None`: as created.
    pub mtu: Option<u32>,
}

/// Type of a container's interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Link {
    /// One end of a veth pair.
    Veth {
        /// Name of the other end, outside.
        peer: String,
    },
    /// A macvlan on an interface of the host.
    Macvlan {
        /// Name of the lower interface.
        parent: String,
        /// Mode in which it reaches other macvlans of that interface.
        mode: MacvtapMode,
    },
    /// An interface of the host, physical or a virtual function, which is moved in and returned at the end.
    Phys {
        /// Name of the interface on the host.
        link: String,
    },
}

/// Returns the name of a router's container, as `lxc-ls` shows it.
pub fn name_for(router: &str) -> String {
    format!("ringroad-{router}")
}

/// Renders the configuration of a container, as `lxc-start` reads it.
///
/// # Errors
/// See [`check()`].
pub fn text(container: &Container, ground: &HostPaths) -> Result<String, Error> {
    check(container)?;
    let mut lines = Lines::default();
    lines.say("lxc.uts.name", &container.host_name);
    // The container gets no console of ringroad.
    lines.say("lxc.console.path", "none");
    lines.say("lxc.tty.max", "0");
    lines.say("lxc.pty.max", "64");
    lines.say("lxc.autodev", "1");
    // With `sys:ro` the sysfs of its network namespace would be read-only as a whole, also for us, who set threaded NAPI there.
    lines.say("lxc.mount.auto", "proc:mixed sys:mixed");
    if let Some(profile) = &ground.seccomp {
        lines.say("lxc.seccomp.profile", &profile.display().to_string());
    }
    root(&mut lines, &container.root, ground);
    if container.nics.is_empty() {
        // Without any `lxc.net` entry the container would share the host's interfaces.
        lines.say("lxc.net.0.type", "empty");
    }
    for (number, nic) in container.nics.iter().enumerate() {
        interface(&mut lines, number, nic);
    }
    Ok(lines.0)
}

#[derive(Default)]
struct Lines(String);

impl Lines {
    fn say(&mut self, key: &str, value: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "{key} = {value}");
    }
}

fn root(lines: &mut Lines, root: &Root, ground: &HostPaths) {
    match root {
        Root::Programs => {
            lines.say("lxc.rootfs.path", &format!("dir:{}", ground.root().display()));
            for folder in &ground.mounted {
                lines.say("lxc.mount.entry", &format!("/{folder} {folder} none bind,ro,nosuid,nodev 0 0"));
            }
            for folder in ["run", "tmp"] {
                lines.say("lxc.mount.entry", &format!("tmpfs {folder} tmpfs nosuid,nodev,size={ROOM} 0 0"));
            }
            lines.say("lxc.cap.keep", KEPT);
            lines.say("lxc.init.cmd", WAITING);
            // The init of a PID namespace ignores signals that it has no handler for, except SIGKILL from outside.
            lines.say("lxc.signal.halt", "SIGKILL");
        }
        Root::Folder { path, init } => {
            lines.say("lxc.rootfs.path", &format!("dir:{}", path.display()));
            lines.say("lxc.cap.drop", DROPPED);
            lines.say("lxc.init.cmd", &init.join(" "));
        }
    }
}

fn interface(lines: &mut Lines, number: usize, nic: &Nic) {
    let mut say = |key: &str, value: &str| lines.say(&format!("lxc.net.{number}.{key}"), value);
    match &nic.link {
        Link::Veth { peer } => {
            say("type", "veth");
            say("veth.pair", peer);
        }
        Link::Macvlan { parent, mode } => {
            say("type", "macvlan");
            say("macvlan.mode", word(*mode));
            say("link", parent);
        }
        Link::Phys { link } => {
            say("type", "phys");
            say("link", link);
        }
    }
    say("name", &nic.name);
    say("flags", "up");
    if let Some(mac) = nic.mac.filter(|_| !matches!(nic.link, Link::Phys { .. })) {
        let octets: Vec<String> = mac.iter().map(|octet| format!("{octet:02x}")).collect();
        say("hwaddr", &octets.join(":"));
    }
    if let Some(mtu) = nic.mtu {
        say("mtu", &mtu.to_string());
    }
}

fn word(mode: MacvtapMode) -> &'static str {
    match mode {
        MacvtapMode::Private => "private",
        MacvtapMode::Vepa => "vepa",
        MacvtapMode::Bridge => "bridge",
        MacvtapMode::Passthru => "passthru",
    }
}
