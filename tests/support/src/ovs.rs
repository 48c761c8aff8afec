//! A private Open vSwitch with its datapath in user space: it needs no kernel module.

use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tempfile::TempDir;

use crate::Namespace;
use crate::Signal;
use crate::running::{Running, run};

const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";
/// Timeout of its answers, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(70);

/// Running database and switch; both end when dropped.
#[derive(Debug)]
pub struct Ovs {
    daemons: Vec<Running>,
    folder: TempDir,
}

impl Ovs {
    /// Starts it in a namespace.
    pub fn start(namespace: &Namespace) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let at = |name: &str| folder.path().join(name).display().to_string();
        let made = run(Command::new("ovsdb-tool").args(["create", &at("conf.db"), SCHEMA]), PATIENCE)?;
        ensure!(made.status.success(), "{}", made.stderr);
        let mut ovs = Self { daemons: Vec::new(), folder };
        ovs.start_again(namespace)?;
        Ok(ovs)
    }

    /// Kills database and switch, as a crash would: the database's content persists, and what the switch had created in the
    /// namespace disappears with its process.
    pub fn kill(&mut self) -> Result<()> {
        for mut daemon in self.daemons.drain(..).rev() {
            daemon.signal(Signal::KILL)?;
            daemon.wait(PATIENCE)?;
        }
        // Clients must find no socket, as after a regular end of the service.
        std::fs::remove_file(self.folder.path().join("db.sock"))?;
        Ok(())
    }

    /// Starts both on the existing database.
    pub fn start_again(&mut self, namespace: &Namespace) -> Result<()> {
        let (database, socket) = (self.path("conf.db"), self.path("db.sock"));
        let (remote, local) = (format!("--remote=punix:{socket}"), format!("unix:{socket}"));
        self.daemon(namespace, "ovsdb-server", &[&database, &remote, "--unixctl=db.ctl"])?;
        self.wait_for("db.sock")?;
        self.daemon(namespace, "ovs-vswitchd", &[&local, "--unixctl=vs.ctl"])
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn daemon(&mut self, namespace: &Namespace, program: &str, words: &[&str]) -> Result<()> {
        let mut command = namespace.command(program);
        environment(&mut command, self.folder.path()).args(words).arg("--no-chdir");
        self.daemons.push(Running::start(command.current_dir(self.folder.path()))?);
        Ok(())
    }

    fn wait_for(&self, name: &str) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        while !self.folder.path().join(name).exists() {
            ensure!(Instant::now() < end, "no {name}");
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Adds a bridge with a user-space datapath, and these links of the namespace as ports.
    pub fn add_bridge(&self, name: &str, links: &[&str]) -> Result<()> {
        self.ask(&["add-br", name, "--", "set", "bridge", name, "datapath_type=netdev"])?;
        links.iter().try_for_each(|link| self.ask(&["add-port", name, link]).map(drop))
    }

    /// Runs `ovs-vsctl` with these words; returns its output.
    pub fn ask(&self, words: &[&str]) -> Result<String> {
        let mut command = Command::new("ovs-vsctl");
        environment(&mut command, self.folder.path()).arg("--timeout=60").args(words);
        let done = run(&mut command, PATIENCE)?;
        ensure!(done.status.success(), "ovs-vsctl {}: {}", words.join(" "), done.stderr);
        Ok(done.stdout.trim().to_owned())
    }

    /// Sets the environment of a command so that it finds this switch.
    pub fn serve<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        environment(command, self.folder.path())
    }
}

fn environment<'c>(command: &'c mut Command, folder: &Path) -> &'c mut Command {
    ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"]
        .iter()
        .fold(command, |command, key| command.env(key, folder))
}
