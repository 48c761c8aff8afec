//! Members and balancers of the group of a room: how each is, and requests about them.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use api::{Answer, Client, Request, RouterStatus, State};

use super::RouterRun;

/// Timeout for members to serve: a killed one that has failed several times waits seconds for its restart.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pause between two questions.
const LOOK: Duration = Duration::from_millis(2);
/// What is between the name of a group and the number of a member, and that of a balancer that is a virtual machine.
const MEMBER: &str = "_";
const BALANCER: &str = "_lb";

impl RouterRun {
    /// Returns the status of each member of the group, by number.
    ///
    /// # Errors
    /// The command does not answer.
    pub(crate) fn members(&self, client: &mut Client) -> Result<Vec<RouterStatus>> {
        self.numbered(client, MEMBER)
    }

    /// Returns the status of each router that is called like the group, this, and a number.
    fn numbered(&self, client: &mut Client, part: &str) -> Result<Vec<RouterStatus>> {
        let group = self.router(0);
        Ok(of_group(client.status()?.routers, (&group, part)))
    }

    /// Waits until the group has exactly this many members and all of them serve; returns their status.
    ///
    /// # Errors
    /// They do not.
    pub(crate) fn wait_for_members(&self, client: &mut Client, wanted: u32) -> Result<Vec<RouterStatus>> {
        self.wait_for_members_and_spares(client, (wanted, 0))
    }

    /// Waits until the group has exactly this many members that serve, and beside them this many spare ones, which are parked; returns
    /// the status of all of them.
    ///
    /// # Errors
    /// It does not have them.
    pub(crate) fn wait_for_members_and_spares(
        &self,
        client: &mut Client,
        wanted: (u32, u32),
    ) -> Result<Vec<RouterStatus>> {
        let end = Instant::now() + PATIENCE;
        loop {
            let members = self.members(client)?;
            if consist_of(&members, wanted) {
                return Ok(members);
            }
            if Instant::now() >= end {
                let (serving, parked) = wanted;
                bail!("{serving} members that serve and {parked} that are parked are wanted: {members:?}");
            }
            thread::sleep(LOOK);
        }
    }

    /// Waits until the group has exactly this many balancers that are virtual machines, and each of them carries links; returns their
    /// status.
    ///
    /// # Errors
    /// It does not have them.
    pub(crate) fn wait_for_balancers(&self, client: &mut Client, wanted: u32) -> Result<Vec<RouterStatus>> {
        let end = Instant::now() + PATIENCE;
        loop {
            let balancers = self.numbered(client, BALANCER)?;
            if balancers.len() == wanted as usize && balancers.iter().all(carries) {
                return Ok(balancers);
            }
            if Instant::now() >= end {
                bail!("{wanted} balancers that carry links are wanted: {balancers:?}");
            }
            thread::sleep(LOOK);
        }
    }
}

/// Returns true if so many of these members serve, so many are parked, and there are no others.
fn consist_of(members: &[RouterStatus], (serving, parked): (u32, u32)) -> bool {
    let count = |is_so: fn(&RouterStatus) -> bool| members.iter().filter(|member| is_so(member)).count();
    let all = (serving + parked) as usize;
    (members.len(), count(serves), count(is_parked)) == (all, serving as usize, parked as usize)
}

/// Sends a request that changes something.
///
/// # Errors
/// The command refuses it.
pub(crate) fn change(client: &mut Client, request: &Request) -> Result<()> {
    match client.ask(request).with_context(|| format!("{request:?}"))? {
        Answer::Done { .. } => Ok(()),
        other => bail!("{request:?} was answered by {other:?}"),
    }
}

/// Returns the members of a group among routers, or its balancers: `core_0`, `core_1`; `core_lb0`.
fn of_group(routers: Vec<RouterStatus>, (group, part): (&str, &str)) -> Vec<RouterStatus> {
    let number = |router: &RouterStatus| {
        let number = router.name.strip_prefix(group)?.strip_prefix(part)?;
        number.parse::<u32>().ok()
    };
    let mut members: Vec<(u32, RouterStatus)> =
        routers.into_iter().filter_map(|router| Some((number(&router)?, router))).collect();
    members.sort_by_key(|(number, _)| *number);
    members.into_iter().map(|(_, router)| router).collect()
}

/// Returns true if a member forwards its part. One that is plugged into a bridge has none to tell of.
fn serves(member: &RouterStatus) -> bool {
    let is_served = |told: &str| told.starts_with("serving");
    member.state == State::Running && member.member.as_deref().is_none_or(is_served)
}

/// Returns true if a balancer moves the frames of a link.
fn carries(balancer: &RouterStatus) -> bool {
    let told = balancer.member.as_deref().unwrap_or_default();
    let carried = told.strip_prefix("serving, ");
    balancer.state == State::Running && carried.is_some_and(|carried| !carried.starts_with("0 "))
}

/// Returns true if a member is up and sleeps.
fn is_parked(member: &RouterStatus) -> bool {
    let told = member.member.as_deref().unwrap_or_default();
    member.state == State::Running && told.starts_with("parked")
}

#[cfg(test)]
mod tests;
