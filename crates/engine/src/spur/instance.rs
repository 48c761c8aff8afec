//! The spurs of an instance: opened and closed as the plan changes.

use anyhow::{Context, Result};
use attach::HandedOver;
use config::Plan;
use telemetry::Kind;
use uplink::Tap;

use super::{PAUSE, Spur};
use crate::instance::Instance;
use crate::supplies::HostServices;

/// Takes from the supplies the TAPs of those spurs of a plan that do not exist yet.
///
/// # Errors
/// A TAP is missing, or something else was supplied.
pub(crate) fn taps(
    plan: &Plan,
    there: &[Spur],
    supplies: &mut HostServices,
) -> Result<Vec<(config::Spur, Tap)>> {
    let new = plan.spurs.iter().filter(|spur| there.iter().all(|known| known.plan != **spur));
    let tap = |spur: &config::Spur| {
        let label = spur.label();
        let handed = supplies.opened.remove(&label);
        let handed = handed.with_context(|| format!("nobody has opened the TAP of NIC {label}"))?;
        Ok((spur.clone(), attach::tap(handed)?))
    };
    new.map(tap).collect()
}

impl Instance {
    /// Opens spurs one after the other, waiting for each. A spur that cannot be opened causes an event and is tried again later.
    ///
    /// # Errors
    /// One line: the first failure.
    pub(crate) fn open_spurs(&mut self, taps: Vec<(config::Spur, Tap)>) -> Result<()> {
        let mut outcome = Ok(());
        for (plan, tap) in taps {
            let (router, nic) = (plan.router.clone(), plan.nic.clone());
            if let Err(error) = self.open_spur(plan, tap) {
                self.context.tell(&router, Kind::Failed, format!("NIC {nic}: {error:#}; it is tried again"));
                outcome = outcome.and(Err(error.context(format!("router {router}, NIC {nic}"))));
            }
        }
        outcome
    }

    /// Opens the new spurs of a change that was carried out, and drops those that were closed for it. A spur that cannot be
    /// opened does not undo the change.
    pub(crate) fn follow_spurs(&mut self, taps: Vec<(config::Spur, Tap)>, closed: Vec<Spur>) {
        // The failure was reported as an event already.
        let _ = self.open_spurs(taps);
        if !closed.is_empty() {
            self.discard(closed);
        }
    }

    /// Replaces a deleted TAP and waits until that is done.
    ///
    /// # Errors
    /// There is no such NIC, or the new descriptor is not a matching TAP.
    pub(crate) fn replace_at_spur(&mut self, label: &str, by: HandedOver) -> Result<()> {
        let spur = self.spurs.iter().find(|spur| spur.is_of(label));
        let replacement = spur.with_context(|| format!("there is no NIC {label}"))?.replacement(by);
        let name = (format!("{label}-link"), format!("NIC {label}: its new link"));
        self.run_in_background((name.0, &name.1), replacement)??;
        // A thread that sleeps on the old TAP would never notice the new one.
        self.spurs.iter().filter(|spur| spur.is_of(label)).for_each(Spur::wake);
        Ok(())
    }

    fn open_spur(&mut self, plan: config::Spur, tap: Tap) -> Result<()> {
        let mut spur = Spur::new(plan, tap, &self.switches)?;
        let opener = spur.opener(&self.context);
        let name = (format!("{}/open", spur.plan.router), "the opening of its port");
        let opened = self.run_in_background(name, move || opener.open()).flatten();
        let outcome = match opened {
            Ok(open) => {
                spur.open = Some(open);
                Ok(())
            }
            Err(error) => {
                spur.due = Some(self.context.now + PAUSE);
                Err(error)
            }
        };
        self.spurs.push(spur);
        outcome
    }

    /// Closes the spurs that a plan no longer has, so that other routers can use the names of their ports.
    pub(crate) fn close_spurs(&mut self, plan: &Plan) -> Vec<Spur> {
        let is_gone = |spur: &mut Spur| !plan.spurs.contains(&spur.plan);
        let mut gone: Vec<Spur> = self.spurs.extract_if(.., is_gone).collect();
        if gone.is_empty() {
            return gone;
        }
        let now = self.context.now;
        gone.iter_mut().for_each(|spur| spur.close(now));
        let leaving: Vec<_> = gone.iter_mut().map(|spur| std::mem::take(&mut spur.leaving)).collect();
        self.discard(leaving);
        gone
    }

    /// Opens spurs again that were closed for a change that was then refused.
    pub(crate) fn reopen_spurs(&mut self, closed: Vec<Spur>) {
        let now = self.context.now;
        self.spurs.extend(closed.into_iter().map(|spur| Spur { due: Some(now), ..spur }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tap_that_was_not_opened_is_told_by_its_nic() {
        let spur =
            config::Spur { router: "edge".to_owned(), nic: "lan".to_owned(), switch: "lan".to_owned() };
        let plan = Plan { spurs: vec![spur], ..Plan::default() };
        let refused = taps(&plan, &[], &mut HostServices::default()).expect_err("nobody has opened it");
        assert_eq!(refused.to_string(), "nobody has opened the TAP of NIC edge.lan");
    }
}
