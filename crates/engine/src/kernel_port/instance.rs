//! Kernel ports of an instance: opened and closed as the plan changes.

use anyhow::{Context, Result};
use attach::HandedOver;
use config::Plan;
use telemetry::Kind;
use uplink::Tap;

use super::{KernelPort, PAUSE};
use crate::instance::Instance;
use crate::supplies::HostServices;

/// Takes from the supplies the TAPs of those kernel ports of a plan that do not exist yet.
///
/// # Errors
/// A TAP is missing, or something else was supplied.
pub(crate) fn taps(
    plan: &Plan,
    there: &[KernelPort],
    supplies: &mut HostServices,
) -> Result<Vec<(config::KernelPort, Tap)>> {
    let new =
        plan.kernel_ports.iter().filter(|kernel_port| there.iter().all(|known| known.plan != **kernel_port));
    let tap = |kernel_port: &config::KernelPort| {
        let label = kernel_port.label();
        let handed = supplies.opened.remove(&label);
        let handed = handed.with_context(|| format!("nobody has opened the TAP of NIC {label}"))?;
        Ok((kernel_port.clone(), attach::tap(handed)?))
    };
    new.map(tap).collect()
}

impl Instance {
    /// Opens kernel ports one after the other, waiting for each. If a port cannot be opened, this causes an event, and it is tried
    /// again later.
    ///
    /// # Errors
    /// One line: the first failure.
    pub(crate) fn open_kernel_ports(&mut self, taps: Vec<(config::KernelPort, Tap)>) -> Result<()> {
        let mut outcome = Ok(());
        for (plan, tap) in taps {
            let (router, nic) = (plan.router.clone(), plan.nic.clone());
            if let Err(error) = self.open_kernel_port(plan, tap) {
                self.context.record_event(
                    &router,
                    Kind::Failed,
                    format!("NIC {nic}: {error:#}; it is tried again"),
                );
                outcome = outcome.and(Err(error.context(format!("router {router}, NIC {nic}"))));
            }
        }
        outcome
    }

    /// Opens the new kernel ports of a change that was carried out, and drops those that were closed for it. A port that cannot
    /// be opened does not undo the change.
    pub(crate) fn follow_kernel_ports(
        &mut self,
        taps: Vec<(config::KernelPort, Tap)>,
        closed: Vec<KernelPort>,
    ) {
        // The failure was reported as an event already.
        let _ = self.open_kernel_ports(taps);
        if !closed.is_empty() {
            self.discard(closed);
        }
    }

    /// Replaces a deleted TAP and waits until that is done.
    ///
    /// # Errors
    /// There is no such NIC, or the new descriptor is not a matching TAP.
    pub(crate) fn replace_at_kernel_port(&mut self, label: &str, by: HandedOver) -> Result<()> {
        let kernel_port = self.kernel_ports.iter().find(|kernel_port| kernel_port.is_of(label));
        let replacement = kernel_port.with_context(|| format!("there is no NIC {label}"))?.replacement(by);
        let name = (format!("{label}-link"), format!("NIC {label}: its new link"));
        self.run_in_background((name.0, &name.1), replacement)??;
        // A thread that sleeps on the old TAP would never notice the new one.
        self.kernel_ports.iter().filter(|kernel_port| kernel_port.is_of(label)).for_each(KernelPort::wake);
        Ok(())
    }

    fn open_kernel_port(&mut self, plan: config::KernelPort, tap: Tap) -> Result<()> {
        let mut kernel_port = KernelPort::new(plan, tap, &self.switches)?;
        let opener = kernel_port.opener(&self.context);
        let name = (format!("{}/open", kernel_port.plan.router), "the opening of its port");
        let opened = self.run_in_background(name, move || opener.open()).flatten();
        let outcome = match opened {
            Ok(open) => {
                kernel_port.open = Some(open);
                Ok(())
            }
            Err(error) => {
                kernel_port.due = Some(self.context.now + PAUSE);
                Err(error)
            }
        };
        self.kernel_ports.push(kernel_port);
        outcome
    }

    /// Closes the kernel ports that a plan no longer has, so that other routers can use their names.
    pub(crate) fn close_kernel_ports(&mut self, plan: &Plan) -> Vec<KernelPort> {
        let is_gone = |kernel_port: &mut KernelPort| !plan.kernel_ports.contains(&kernel_port.plan);
        let mut gone: Vec<KernelPort> = self.kernel_ports.extract_if(.., is_gone).collect();
        if gone.is_empty() {
            return gone;
        }
        let now = self.context.now;
        gone.iter_mut().for_each(|kernel_port| kernel_port.close(now));
        let leaving: Vec<_> =
            gone.iter_mut().map(|kernel_port| std::mem::take(&mut kernel_port.leaving)).collect();
        self.discard(leaving);
        gone
    }

    /// Opens kernel ports again that were closed for a change that was then refused.
    pub(crate) fn reopen_kernel_ports(&mut self, closed: Vec<KernelPort>) {
        let now = self.context.now;
        self.kernel_ports
            .extend(closed.into_iter().map(|kernel_port| KernelPort { due: Some(now), ..kernel_port }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tap_that_was_not_opened_is_told_by_its_nic() {
        let kernel_port =
            config::KernelPort { router: "edge".to_owned(), nic: "lan".to_owned(), switch: "lan".to_owned() };
        let plan = Plan { kernel_ports: vec![kernel_port], ..Plan::default() };
        let refused = taps(&plan, &[], &mut HostServices::default()).expect_err("nobody has opened it");
        assert_eq!(refused.to_string(), "nobody has opened the TAP of NIC edge.lan");
    }
}
