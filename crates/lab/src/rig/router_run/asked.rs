//! Queries of a running room: the control socket of the command, and the interfaces and threads that exist.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use api::Client;
use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};
use sched::account::Thread;
use uplink::Netns;

use super::links::sides;
use super::{FileRun, RouterRun, inside, text};
use crate::diagram::{Seen, interfaces};
use crate::metric::usage;

/// Timeout for a reply.
const ANSWER: Duration = Duration::from_secs(20);
/// Octets of a thread's name that the kernel keeps.
const COMM: usize = 15;

impl RouterRun {
    /// Connects to the control socket of the command.
    ///
    /// # Errors
    /// The routers are set up by hand, or the command does not answer.
    pub(crate) fn client(&self) -> Result<Client> {
        client_of(self.supervisor().context("routers that are set up by hand answer nothing")?)
    }

    /// Returns the name of the n-th router.
    pub(crate) fn router(&self, at: usize) -> String {
        text::name(&self.id, at)
    }

    /// Pins each thread of the routers to the CPU that `cpu` returns for it; those for which it returns none stay where they are.
    ///
    /// # Errors
    /// There is no such CPU.
    pub(crate) fn pin_threads(&self, cpu: impl Fn(&Thread) -> Option<usize>) -> Result<()> {
        for thread in self.threads()? {
            let Some(cpu) = cpu(&thread) else { continue };
            ensure!(cpu < CpuSet::MAX_CPU, "CPU {cpu} does not exist");
            let mut set = CpuSet::new();
            set.set(cpu);
            match sched_setaffinity(Pid::from_raw(thread.tid), &set) {
                // A thread that has ended needs no CPU.
                Ok(()) | Err(Errno::SRCH) => {}
                Err(error) => bail!("cannot put thread {} on CPU {cpu}: {error}", thread.name),
            }
        }
        Ok(())
    }

    /// Returns the interfaces and threads that exist. `called` maps the index of a router to its name in the result.
    ///
    /// # Errors
    /// There is no /proc.
    pub(crate) fn seen(&self, called: impl Fn(usize) -> String) -> Result<Seen> {
        let outside = of_namespace(&self.netns)?;
        let in_each = self.inside.iter().enumerate();
        let inside = in_each.map(|(at, netns)| anyhow::Ok((called(at), of_namespace(netns)?)));
        let inside = inside.collect::<Result<BTreeMap<_, _>>>()?;
        let pairs =
            (0..self.lanes.len()).flat_map(sides).map(|side| (format!("{side}0"), format!("{side}1")));
        let other_ends = pairs.filter(|(lower, _)| outside.contains(lower)).collect();
        let mut threads: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for thread in self.thread_names()? {
            let role = thread.split_once('/').and_then(|(_, role)| role.split('#').next());
            if let (Some(router), Some(role)) = (usage::router(&thread).map(&called), role) {
                let name = format!("{router}{}", usage::member(&thread));
                threads.entry(name).or_default().insert(role.to_owned());
            }
        }
        let ports =
            self.group.map_or(Ok(BTreeMap::new()), |group| group.ports(&self.netns, &self.folder.path))?;
        Ok(Seen { outside, inside, other_ends, threads, ports })
    }
}

impl FileRun {
    /// Returns the interfaces in the namespace of this program, and those in the namespace of a kernel or container router.
    ///
    /// # Errors
    /// There is no such router, or no /proc.
    pub(crate) fn seen(&self, router: &str) -> Result<Seen> {
        let inside = of_namespace(&inside::namespace(self.supervisor(), router)?)?;
        let inside = [(router.to_owned(), inside)].into();
        Ok(Seen { outside: of_namespace(&Netns::here()?)?, inside, ..Seen::default() })
    }
}

impl RouterRun {
    /// Returns the names of the routers' threads. The command tells those of machines in full, the kernel cuts them.
    fn thread_names(&self) -> Result<Vec<String>> {
        if self.by.is_kernel() {
            return Ok(self.threads()?.into_iter().map(|thread| thread.name).collect());
        }
        Ok(self.client()?.counters(None)?.cpu_ns.into_keys().collect())
    }

    /// Returns the roles of the routers' threads (`vcpu0`), by the names that the kernel knows them by, as the command tells them.
    ///
    /// # Errors
    /// The command does not answer.
    pub(crate) fn roles(&self) -> Result<BTreeMap<String, String>> {
        let known = |name: &str| name.chars().take(COMM).collect();
        let role =
            |thread: api::Thread| Some((known(&thread.name), thread.name.split_once('/')?.1.to_owned()));
        let status = self.client()?.status()?;
        Ok(status.routers.into_iter().flat_map(|router| router.threads).filter_map(role).collect())
    }
}

/// Connects to the control socket of the run with this process.
///
/// # Errors
/// It does not answer.
pub(super) fn client_of(supervisor: u32) -> Result<Client> {
    let runs = api::folder::base()?.join("runs");
    let sockets = api::folder::sockets(&runs).context("cannot read the folder of the runs")?;
    let mut clients = sockets.iter().filter_map(|(_, socket)| Client::connect(socket, ANSWER).ok());
    let is_ours = |client: &mut Client| client.status().is_ok_and(|status| status.pid == supervisor);
    clients.find_map(|mut client| is_ours(&mut client).then_some(client)).context("the run does not answer")
}

/// Returns the names of the interfaces in a namespace.
fn of_namespace(netns: &Netns) -> Result<BTreeSet<String>> {
    let table = netns.run(|| fs::read_to_string("/proc/thread-self/net/dev"))?;
    Ok(interfaces(&table.context("cannot read /proc/thread-self/net/dev")?))
}
