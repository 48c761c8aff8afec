//! Queries of a running room: the control socket of the command, and the interfaces and threads that exist.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use api::{Answer, Client, Request};
use uplink::Netns;

use super::links::sides;
use super::{RouterRun, text};
use crate::diagram::{Seen, interfaces};
use crate::metric::usage;

/// Timeout for a reply.
const ANSWER: Duration = Duration::from_secs(20);

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
        text::name(&self.folder.id, at)
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
        for thread in self.threads()? {
            let role = thread.name.split_once('/').and_then(|(_, role)| role.split('#').next());
            if let (Some(router), Some(role)) = (usage::router(&thread.name).map(&called), role) {
                threads.entry(router).or_default().insert(role.to_owned());
            }
        }
        Ok(Seen { outside, inside, other_ends, threads })
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
    let is_ours = |client: &mut Client| match client.ask(&Request::Ps {}) {
        Ok(Answer::Ps(status)) => status.pid == supervisor,
        _ => false,
    };
    clients.find_map(|mut client| is_ours(&mut client).then_some(client)).context("the run does not answer")
}

/// Returns the names of the interfaces in a namespace.
fn of_namespace(netns: &Netns) -> Result<BTreeSet<String>> {
    let table = netns.run(|| fs::read_to_string("/proc/thread-self/net/dev"))?;
    Ok(interfaces(&table.context("cannot read /proc/thread-self/net/dev")?))
}
