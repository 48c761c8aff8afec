//! Room in which routers have control planes: the command runs a file of the experiment's own, and the stations are sockets at its
//! TAPs, which stay in the room.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use api::{Adjacency, Answer, Client, ControlAnswer, ControlQuestion, Request};
use rustix::process::{Pid, Signal, kill_process};
use uplink::{Links, Netns};

use super::asked::client_of;
use super::folder::Folder;
use super::{LOOK, Run, program, start};

/// Running routers with control planes.
pub(crate) struct ControlledRun {
    client: Client,
    // Dropped before the namespace and the folder that it uses.
    run: Run,
    netns: Netns,
    _links: Links,
    folder: Folder,
}

impl ControlledRun {
    /// Starts the command. `text` gets a folder for files of FRR and a short name, unique on this host, and returns the file.
    ///
    /// # Errors
    /// FRR is not installed, or the routers do not come up.
    pub(crate) fn open(text: impl FnOnce(&Path, &str) -> Result<String>) -> Result<Self> {
        let program = program()?;
        let (netns, folder) = (Netns::new()?, Folder::new()?);
        let links = netns.settle(false)?;
        let text = text(&folder.path, &folder.id)?;
        let run = start(&program, &netns, &text, (&folder.path, &folder.path.join("state")))?;
        let client = client_of(run.process.0.id())?;
        Ok(Self { client, run, netns, _links: links, folder })
    }

    /// The short name that the text of its file was made with.
    pub(crate) fn id(&self) -> &str {
        &self.folder.id
    }

    /// The namespace of the stations.
    pub(crate) const fn netns(&self) -> &Netns {
        &self.netns
    }

    /// The namespace of a router's control plane.
    ///
    /// # Errors
    /// The run does not answer.
    pub(crate) fn control(&mut self, router: &str) -> Result<Netns> {
        match self.ask(router, ControlQuestion::Place {})? {
            ControlAnswer::Place(place) => Ok(Netns::open(&place.network)?),
            other => bail!("no place, but {other:?}"),
        }
    }

    /// Neighbours of a router's protocols; empty while FRR does not run yet.
    pub(crate) fn adjacencies(&mut self, router: &str) -> Vec<Adjacency> {
        match self.ask(router, ControlQuestion::Adjacencies { protocol: None }) {
            Ok(ControlAnswer::Adjacencies { adjacencies }) => adjacencies,
            _ => Vec::new(),
        }
    }

    /// Number of the last change of a router's table.
    ///
    /// # Errors
    /// The run does not answer.
    pub(crate) fn epoch(&mut self, router: &str) -> Result<u32> {
        match self.ask(router, ControlQuestion::Route { to: [192, 0, 2, 255].into() })? {
            ControlAnswer::Routes { epoch, .. } => Ok(epoch),
            other => bail!("no epoch, but {other:?}"),
        }
    }

    /// Counters of all routers.
    ///
    /// # Errors
    /// The run does not answer.
    pub(crate) fn counters(&mut self) -> Result<BTreeMap<String, u64>> {
        Ok(self.client.counters(None)?.counters)
    }

    /// Ethernet address of a router's NIC.
    ///
    /// # Errors
    /// There is no such NIC.
    pub(crate) fn mac(&mut self, router: &str, nic: &str) -> Result<[u8; 6]> {
        let Answer::Show(shown) = self.client.ask(&Request::Show { router: router.to_owned() })? else {
            bail!("{router} is not shown")
        };
        let found = shown.nics.iter().find(|found| found.name == nic).context("there is no such NIC")?;
        let mac: config::Mac = found.mac.parse().with_context(|| found.mac.clone())?;
        Ok(mac.0)
    }

    /// Waits until something holds.
    ///
    /// # Errors
    /// It does not within `patience`, or cannot be found out.
    pub(crate) fn wait(
        &mut self,
        what: &str,
        patience: Duration,
        mut holds: impl FnMut(&mut Self) -> Result<bool>,
    ) -> Result<()> {
        let end = Instant::now() + patience;
        while !holds(self)? {
            ensure!(Instant::now() < end, "{what}: not within {patience:?}");
            thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Ends it.
    ///
    /// # Errors
    /// It does not end.
    pub(crate) fn close(self) -> Result<()> {
        self.run.end()
    }

    fn ask(&mut self, router: &str, question: ControlQuestion) -> Result<ControlAnswer> {
        match self.client.ask(&Request::Control { router: router.to_owned(), question })? {
            Answer::Control(answer) => Ok(answer),
            other => bail!("no answer of a control plane, but {other:?}"),
        }
    }
}

/// Stops a daemon of a router where it is, so that another program can take its place.
///
/// # Errors
/// It does not run.
pub(crate) fn freeze(daemon: &str, router: &str) -> Result<()> {
    let is_it = |id: &i32| {
        let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        let mut words = line.split(|octet| *octet == 0).filter_map(|word| str::from_utf8(word).ok());
        let is_daemon = words.next().is_some_and(|program| program.ends_with(&format!("/{daemon}")));
        is_daemon && (words.next(), words.next()) == (Some("-N"), Some(router))
    };
    let all = fs::read_dir("/proc").context("cannot read /proc")?.filter_map(std::result::Result::ok);
    let mut ids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let id = ids.find(is_it).and_then(Pid::from_raw).with_context(|| format!("{daemon} does not run"))?;
    kill_process(id, Signal::STOP).with_context(|| format!("cannot stop {daemon}"))
}
