//! Private network namespaces of a test.

use std::fs::{self, File};
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use rustix::fd::AsFd;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::running::run;

/// Timeout of `ip`.
const LIMIT: Duration = Duration::from_secs(60);

/// Named network namespace, removed on drop with all links in it.
#[derive(Debug)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// Adds a namespace, with loopback up; the name contains this process's ID, so that two runs do not collide.
    pub fn add(name: &str) -> Result<Self> {
        let namespace = Self { name: format!("{name}-{}", std::process::id()) };
        ip(&["netns", "add", &namespace.name])?;
        namespace.ip(&["link", "set", "lo", "up"])?;
        Ok(namespace)
    }

    /// Adds one without IPv6, as [`Self::add`] does: it sends nothing unasked.
    pub fn add_silent(name: &str) -> Result<Self> {
        let namespace = Self::add(name)?;
        for which in ["all", "default"] {
            namespace.set(&format!("net.ipv6.conf.{which}.disable_ipv6"), "1")?;
        }
        Ok(namespace)
    }

    /// Takes over one with this name that a command has added; it is removed on drop.
    pub fn adopt(name: &str) -> Self {
        Self { name: name.to_owned() }
    }

    /// Name of the namespace.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns a command that will run inside it; the program keeps the process ID of the started child.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, program]);
        command
    }

    /// Returns a command for a program that needs the host's control groups, which `ip netns exec` hides together
    /// with all of `/sys`.
    pub fn command_with_groups(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{}", self.name)).arg(program);
        command
    }

    /// Returns a command for a program whose network namespaces the host is to see: `ip netns exec` would hide their names. The
    /// host's control groups are hidden from it, as `ip netns exec` does. The program keeps the process ID of the started child.
    pub fn command_with_names(&self, program: &str) -> Command {
        // Mounts below /sys stay inside, and those in /run/netns go out.
        let hide = "mount --make-rprivate /sys && mount -t sysfs sysfs /sys && exec \"$0\" \"$@\"";
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{}", self.name));
        command.args(["unshare", "--mount", "--propagation", "unchanged", "sh", "-c", hide, program]);
        command
    }

    /// Runs `work` inside, in a thread of its own: sockets that it opens belong to the namespace.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        let file = File::open(format!("/run/netns/{}", self.name))?;
        thread::scope(|scope| {
            let thread = scope.spawn(move || {
                move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
                anyhow::Ok(work())
            });
            thread.join().map_err(|_| anyhow!("a panic inside the namespace {}", self.name))?
        })
    }

    /// Sets a kernel parameter of the namespace, such as `net.ipv4.ip_forward`.
    pub fn set(&self, key: &str, value: &str) -> Result<()> {
        let path = format!("/proc/sys/{}", key.replace('.', "/"));
        self.inside(|| fs::write(&path, value))?.with_context(|| format!("cannot write {path}"))
    }

    /// Gives one of its links an address (`192.0.2.2/24`), sets it up, and gives it a default route.
    pub fn add_four(&self, link: &str, address: &str, gateway: &str) -> Result<()> {
        self.ip(&["address", "add", address, "dev", link])?;
        self.ip(&["link", "set", link, "up"])?;
        // It keeps sending ARP requests until a router on a busy host answers, instead of only three.
        self.set(&format!("net.ipv4.neigh.{link}.mcast_solicit"), "60")?;
        self.ip(&["route", "add", "default", "via", gateway])?;
        Ok(())
    }

    /// Gives one of its links an IPv6 address (`2001:db8:1::2/64`), which it uses at once, and a default route. IPv6 may have been
    /// off until now, as it is in a host of a [`crate::Stage`].
    pub fn add_six(&self, link: &str, address: &str, gateway: &str) -> Result<()> {
        self.set("net.ipv6.conf.all.disable_ipv6", "0")?;
        self.ip(&["address", "add", address, "dev", link, "nodad"])?;
        // It keeps asking until the router uses its address, instead of only three times.
        self.set(&format!("net.ipv6.neigh.{link}.mcast_solicit"), "60")?;
        self.ip(&["-6", "route", "add", "default", "via", gateway])?;
        Ok(())
    }

    /// Switches IPv6 off: from now on it sends nothing unasked, so that ledgers come to rest.
    pub fn silence_six(&self) -> Result<()> {
        self.set("net.ipv6.conf.all.disable_ipv6", "1")
    }

    /// Returns true if it has an interface of this name.
    ///
    /// # Panics
    ///
    /// The interfaces cannot be listed.
    pub fn has_link(&self, name: &str) -> bool {
        self.links().expect("links").iter().any(|link| link == name)
    }

    /// Names of its links.
    pub fn links(&self) -> Result<Vec<String>> {
        Ok(names(&self.ip(&["-o", "link", "show"])?))
    }

    /// Names of its links that are up.
    pub fn links_up(&self) -> Result<Vec<String>> {
        Ok(names(&self.ip(&["-o", "link", "show", "up"])?))
    }

    /// Runs `ip` with these words inside it.
    pub fn ip(&self, words: &[&str]) -> Result<String> {
        ip(&[&["-n", &self.name], words].concat())
    }
}

/// Parses the names in the output of `ip -o link show`.
fn names(text: &str) -> Vec<String> {
    let name = |line: &str| Some(line.split(": ").nth(1)?.split('@').next()?.to_owned());
    text.lines().filter_map(name).collect()
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = ip(&["netns", "delete", &self.name]);
    }
}

fn ip(words: &[&str]) -> Result<String> {
    let done = run(Command::new("ip").args(words), LIMIT)?;
    ensure!(done.status.success(), "ip {}: {}", words.join(" "), done.stderr);
    Ok(done.stdout)
}
