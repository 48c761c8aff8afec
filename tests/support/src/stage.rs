//! `ringroad run` of a file, with hosts at its TAPs: private namespaces, each with the kernel's stack.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use tempfile::TempDir;

use crate::running::{Finished, Running};
use crate::settled;
use crate::{Namespace, Ovs, Signal, Traces};

/// Timeout for a router to come up, generous for a busy host.
const START: Duration = Duration::from_secs(60);
/// Timeout for a run to end.
const END: Duration = Duration::from_secs(60);
/// Timeout for namespaces and their content to disappear.
const GONE: Duration = Duration::from_secs(60);

/// Environment variable with the folder of state that a run keeps for the next one.
const STATE: &str = "STATE_DIRECTORY";

/// Serialises the tests of one program that check for leftovers.
pub fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Running file in a namespace of its own.
#[derive(Debug)]
pub struct Stage {
    // The order of the fields is the drop order.
    run: Running,
    home: Namespace,
    folder: TempDir,
    before: Traces,
    _turn: MutexGuard<'static, ()>,
}

impl Stage {
    /// Starts `binary run --json` with a file of this text.
    pub fn start(binary: &str, text: &str) -> Result<Self> {
        Self::start_with(binary, text, &["--json"])
    }

    /// Starts `binary run` with a file of this text and these options.
    pub fn start_with(binary: &str, text: &str, options: &[&str]) -> Result<Self> {
        Self::start_after(binary, text, options, |_| Ok(())).map(|(stage, ())| stage)
    }

    /// Starts `binary run` after `prepare` was called on the namespace in which it will run.
    pub fn start_after<T>(
        binary: &str,
        text: &str,
        options: &[&str],
        prepare: impl FnOnce(&Namespace) -> Result<T>,
    ) -> Result<(Self, T)> {
        Self::start_as(|home| home.command(binary), text, options, prepare)
    }

    /// Starts `binary run` where it sees the host's control groups.
    pub fn start_with_groups(binary: &str, text: &str, options: &[&str]) -> Result<Self> {
        let command = |home: &Namespace| home.command_with_groups(binary);
        Self::start_as(command, text, options, |_| Ok(())).map(|(stage, ())| stage)
    }

    /// Starts `binary run` with the host's control groups and mounts visible, after a callback has set up the namespace in which
    /// it will run.
    pub fn start_with_groups_after<T>(
        binary: &str,
        text: &str,
        options: &[&str],
        prepare: impl FnOnce(&Namespace) -> Result<T>,
    ) -> Result<(Self, T)> {
        Self::start_as(|home| home.command_with_groups(binary), text, options, prepare)
    }

    /// Starts `binary run` where the host sees its network namespaces, but it sees no control groups, so that other tests may
    /// run at the same time.
    pub fn start_with_names_after<T>(
        binary: &str,
        text: &str,
        options: &[&str],
        prepare: impl FnOnce(&Namespace) -> Result<T>,
    ) -> Result<(Self, T)> {
        Self::start_as(|home| home.command_with_names(binary), text, options, prepare)
    }

    /// Starts `binary run` with this state folder, where it sees the host's control groups.
    pub fn start_with_state(binary: &str, text: &str, options: &[&str], state: &Path) -> Result<Self> {
        let command = |home: &Namespace| {
            let mut command = home.command_with_groups(binary);
            command.env(STATE, state);
            command
        };
        Self::start_as(command, text, options, |_| Ok(())).map(|(stage, ())| stage)
    }

    /// Starts `binary run` beside an Open vSwitch in the namespace in which it will run, with a bridge of this name.
    pub fn start_beside_ovs(binary: &str, text: &str, options: &[&str], bridge: &str) -> Result<(Self, Ovs)> {
        Self::start_beside(|home| home.command(binary), text, options, bridge)
    }

    /// Like [`Self::start_beside_ovs`], where the host sees its network namespaces.
    pub fn start_with_names_beside_ovs(
        binary: &str,
        text: &str,
        options: &[&str],
        bridge: &str,
    ) -> Result<(Self, Ovs)> {
        Self::start_beside(|home| home.command_with_names(binary), text, options, bridge)
    }

    fn start_beside(
        command: impl FnOnce(&Namespace) -> Command,
        text: &str,
        options: &[&str],
        bridge: &str,
    ) -> Result<(Self, Ovs)> {
        let beside = OnceCell::new();
        let prepare = |home: &Namespace| {
            let ovs = Ovs::start(home)?;
            ovs.add_bridge(bridge, &[])?;
            beside.set(ovs).map_err(|_| anyhow!("it runs already"))
        };
        let command = |home: &Namespace| {
            let mut command = command(home);
            if let Some(ovs) = beside.get() {
                let _ = Ovs::serve(ovs, &mut command);
            }
            command
        };
        let (stage, ()) = Self::start_as(command, text, options, prepare)?;
        let ovs = beside.into_inner().context("no Open vSwitch")?;
        Ok((stage, ovs))
    }

    fn start_as<T>(
        command: impl FnOnce(&Namespace) -> Command,
        text: &str,
        options: &[&str],
        prepare: impl FnOnce(&Namespace) -> Result<T>,
    ) -> Result<(Self, T)> {
        let turn = alone();
        let before = Traces::now();
        let folder = tempfile::tempdir()?;
        let home = Namespace::add("rr-home")?;
        let prepared = prepare(&home)?;
        fs::write(folder.path().join("file.toml"), text)?;
        let mut command = command(&home);
        if command.get_envs().all(|(name, _)| name != STATE) {
            // The host's own runs must not remember anything that a test has learned.
            command.env(STATE, folder.path().join("state"));
        }
        command.current_dir(folder.path()).args(["run", "file.toml"]).args(options);
        let run = Running::start(&mut command)?;
        Ok((Self { run, home, folder, before, _turn: turn }, prepared))
    }

    /// The run.
    pub fn run(&mut self) -> &mut Running {
        &mut self.run
    }

    /// Namespace in which it runs.
    pub fn home(&self) -> &Namespace {
        &self.home
    }

    /// Path in the folder in which it runs.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Creates a namespace with one of the run's TAPs in it, with an address (`192.0.2.2/24`) and a default route.
    pub fn host(&mut self, tap: &str, address: &str, gateway: &str) -> Result<Namespace> {
        let host = Namespace::add_silent(tap)?;
        self.wait_for_link(tap)?;
        let told = self.join(tap, &host, address, gateway);
        if told.is_err() && self.run.ended()? {
            let said = self.run.wait(Duration::ZERO).map(|done| done.stderr);
            return told.with_context(|| format!("the run has ended: {said:?}")).map(|()| host);
        }
        told.map(|()| host)
    }

    /// Moves a TAP into a host's namespace and sets it up.
    fn join(&self, tap: &str, host: &Namespace, address: &str, gateway: &str) -> Result<()> {
        self.home.ip(&["link", "set", tap, "netns", host.name()])?;
        host.add_four(tap, address, gateway)
    }

    /// Waits until a link is up, and the data plane counts: only then its creator is done with it, and it may be moved.
    fn wait_for_link(&mut self, name: &str) -> Result<()> {
        let end = Instant::now() + START;
        while !self.is_up(name)? {
            if self.run.ended()? || Instant::now() > end {
                let said = self.run.wait(Duration::ZERO).map(|done| done.stderr);
                bail!("no link {name}, or no answer: {said:?}");
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn is_up(&self, link: &str) -> Result<bool> {
        let is_there = self.home.links_up()?.iter().any(|up| up == link);
        Ok(is_there && settled::now(self.run.id()).is_some())
    }

    /// Connects to its control socket, once the run answers there.
    ///
    /// # Errors
    /// It does not within a minute.
    pub fn client(&self) -> Result<api::Client> {
        settled::answering(self.run.id())
    }

    /// Waits until the ledgers of its routers add up and do not change.
    ///
    /// # Panics
    /// Frames never rest, or the run does not answer.
    pub fn settle(&self) {
        assert!(self.run.settle(), "frames do not rest, or no answer");
    }

    /// Waits until the run's counters satisfy `wanted`.
    ///
    /// # Errors
    /// They do not within a minute, or the run does not answer.
    pub fn wait_for_counters(&self, wanted: impl Fn(&Counters) -> bool) -> Result<Counters> {
        settled::counters(self.run.id(), wanted)
    }

    /// Lets the last frames arrive and ends the run, which must end well; then its output can be read.
    pub fn stop(&mut self) -> Result<Finished> {
        let done = self.end()?;
        ensure!(done.stderr.is_empty(), "it said: {}", done.stderr);
        Ok(done)
    }

    /// Ends a run that has reported trouble meanwhile, like [`Stage::stop`].
    fn end(&mut self) -> Result<Finished> {
        // If frames never rest, the test has its reasons: control planes, for instance, send all the time.
        self.run.settle_if_possible();
        self.terminate()
    }

    fn terminate(&mut self) -> Result<Finished> {
        self.run.signal(Signal::TERM)?;
        let done = self.run.wait(END)?;
        ensure!(done.status.success(), "{}: {}", done.status, done.stderr);
        Ok(done)
    }

    /// Ends the run and the hosts, checks that nothing is left, and returns the counters.
    pub fn finish(mut self, hosts: Vec<Namespace>) -> Result<Counters> {
        let done = self.stop()?;
        self.leave(hosts)?;
        Counters::of(done.stdout.lines())
    }

    /// Ends a run that has reported trouble, and the hosts; checks that nothing is left.
    pub fn finish_troubled(mut self, hosts: Vec<Namespace>) -> Result<Finished> {
        let done = self.end()?;
        self.leave(hosts)?;
        Ok(done)
    }

    /// Ends a run in which frames never rest, without waiting for them, and the hosts; checks that nothing is left.
    pub fn finish_in_traffic(mut self, hosts: Vec<Namespace>) -> Result<Finished> {
        let done = self.terminate()?;
        self.leave(hosts)?;
        Ok(done)
    }

    fn leave(self, hosts: Vec<Namespace>) -> Result<()> {
        for namespace in hosts.iter().chain([&self.home]) {
            self.bare(namespace)?;
        }
        let Self { before, home, folder, .. } = self;
        drop((hosts, home, folder));
        let left = Traces::left(&before, GONE);
        ensure!(left.is_empty(), "left behind: {left:?}");
        Ok(())
    }

    fn bare(&self, namespace: &Namespace) -> Result<()> {
        let end = Instant::now() + GONE;
        loop {
            let links = namespace.links()?;
            if links == ["lo"] {
                return Ok(());
            }
            ensure!(Instant::now() < end, "left behind in {}: {links:?}", namespace.name());
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Returns true if a counter, or a router, is one of a member of a group: `core_0`, `core_0.wan.rx.frames`,
/// `core_0/vhost.frames`, `switch.core_wan.core_0.wan.out_frames`.
fn is_of_member(name: &str) -> bool {
    let mut parts = name.split(['.', '/']);
    let router = match parts.next() {
        Some("switch") => parts.nth(1),
        first => first,
    };
    router.is_some_and(|router| router.contains('_'))
}

/// Counters of a whole run, by name.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    sums: BTreeMap<String, u64>,
}

impl Counters {
    /// Adds up the lines of `--json`.
    pub fn of<'l>(lines: impl IntoIterator<Item = &'l str>) -> Result<Self> {
        let mut sums = BTreeMap::new();
        for line in lines {
            let object: serde_json::Value = serde_json::from_str(line).context("a line that is not JSON")?;
            let counters = object["counters"].as_object().context("a line without counters")?;
            for (name, value) in counters {
                *sums.entry(name.clone()).or_default() += value.as_u64().context("a counter")?;
            }
        }
        Ok(Self { sums })
    }

    /// Takes the counters of one answer.
    pub fn from_answer(answer: &api::Counters) -> Self {
        Self { sums: answer.counters.clone() }
    }

    /// Reads the counters of a run that answers at its control socket.
    pub(crate) fn running(client: &mut api::Client) -> Result<Self> {
        match client.ask(&api::Request::Counters { router: None })? {
            api::Answer::Counters(counters) => Ok(Self { sums: counters.counters }),
            other => bail!("no counters, but {other:?}"),
        }
    }

    /// Routers that have vCPUs, but for members of groups, which are never at rest.
    pub(crate) fn routers(&self) -> BTreeSet<&str> {
        let routers = self.sums.keys().filter_map(|name| Some(name.split_once(".vcpu")?.0));
        routers.filter(|router| !is_of_member(router)).collect()
    }

    /// Number of frames counted anywhere, but for members of groups, which probes pass all the time.
    pub(crate) fn frames(&self) -> u64 {
        let counts = |name: &str| {
            let last = name.rsplit('.').next().unwrap_or_default();
            last.ends_with("frames") || last.starts_with("drop_") || ["forwarded", "consumed"].contains(&last)
        };
        self.sum(|name| counts(name) && !is_of_member(name))
    }

    /// Value of one counter.
    pub fn get(&self, name: &str) -> u64 {
        self.sums.get(name).copied().unwrap_or(0)
    }

    /// Sum of all counters that satisfy `wanted`.
    pub fn sum(&self, wanted: impl Fn(&str) -> bool) -> u64 {
        self.sums.iter().filter(|(name, _)| wanted(name)).map(|(_, n)| n).sum()
    }

    /// Counters that satisfy `wanted` and are not 0, by name.
    pub fn named(&self, wanted: impl Fn(&str) -> bool) -> BTreeMap<&str, u64> {
        let found = self.sums.iter().filter(|(name, count)| **count > 0 && wanted(name));
        found.map(|(name, count)| (name.as_str(), *count)).collect()
    }

    /// Lists the discrepancies in a router's ledger; empty if it adds up.
    ///
    /// The frames put into the receive rings are those that the vCPUs took out of them; each of these was forwarded,
    /// consumed or dropped under a name; and frames that were forwarded or originated here were handed to a transmit
    /// ring.
    pub fn faults(&self, router: &str) -> Vec<String> {
        let vcpu = |name: &str| {
            name.strip_prefix(router).and_then(|rest| rest.strip_prefix(".vcpu")).map(|rest| {
                let parts: Vec<String> = rest.split('.').skip(1).map(str::to_owned).collect();
                parts
            })
        };
        let of_router = |wanted: &dyn Fn(&str) -> bool| {
            self.sum(|name| vcpu(name).is_some_and(|parts| parts.len() == 1 && wanted(&parts[0])))
        };
        let of_nics = |wanted: &str| {
            self.sum(|name| vcpu(name).is_some_and(|parts| parts.len() == 2 && parts[1] == wanted))
        };
        let host = |end: &str| {
            self.sum(|name| {
                let middle = name.strip_prefix(router).and_then(|rest| rest.strip_suffix(end));
                middle.is_some_and(|nic| nic.matches('.').count() == 1)
            })
        };
        let handled =
            of_router(&|name| ["forwarded", "consumed"].contains(&name) || name.starts_with("drop_"));
        let made = of_router(&|name| ["forwarded", "originated"].contains(&name));
        let sides = [
            ("host rx.frames", host(".rx.frames"), "vCPU rx_frames", of_nics("rx_frames")),
            ("vCPU rx_frames", of_nics("rx_frames"), "forwarded, consumed and dropped", handled),
            (
                "forwarded and originated",
                made,
                "tx_frames and drop_tx_full",
                of_nics("tx_frames") + of_nics("drop_tx_full"),
            ),
            (
                "vCPU tx_frames",
                of_nics("tx_frames"),
                "host tx.frames and tx.drop_not_running",
                host(".tx.frames") + host(".tx.drop_not_running"),
            ),
        ];
        let wrong = sides.iter().filter(|(_, left, _, right)| left != right);
        wrong.map(|(l, left, r, right)| format!("{router}: {left} {l}, but {right} {r}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_that_pass_members_of_groups_do_not_count() {
        let line = r#"{"counters": {
            "edge.wan.rx.frames": 1,
            "switch.lan.edge.wan.out_frames": 2,
            "core_0.wan.rx.frames": 4,
            "core_0/vhost.frames": 8,
            "switch.core_wan.core_0.wan.out_frames": 16,
            "switch.core_wan.core_lb0.wan_in.in_frames": 32
        }}"#;
        assert_eq!(Counters::of([line]).expect("counters").frames(), 3);
    }
}
