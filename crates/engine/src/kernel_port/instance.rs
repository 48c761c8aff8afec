//! Kernel ports of an instance: opened and closed as the plan changes.

use anyhow::{Context, Result};
use attach::HandedOver;
use config::Plan;
use telemetry::Kind;

use super::{Behind, KernelPort, PAUSE};
use crate::instance::Instance;
use crate::supplies::HostServices;

/// Takes from the supplies what is behind those kernel ports of a plan that do not exist yet.
///
/// # Errors
/// It is missing, or something else was supplied.
pub(crate) fn behind(
    plan: &Plan,
    there: &[KernelPort],
    supplies: &mut HostServices,
) -> Result<Vec<(config::KernelPort, Behind)>> {
    let new =
        plan.kernel_ports.iter().filter(|kernel_port| there.iter().all(|known| known.plan != **kernel_port));
    let found = |kernel_port: &config::KernelPort| {
        let (label, path) = (kernel_port.label(), kernel_port.path);
        let handed = supplies.opened.remove(&label);
        let handed =
            handed.with_context(|| format!("nobody has opened the {} of NIC {label}", path.name()))?;
        Ok((kernel_port.clone(), Behind::adopt(path, handed)?))
    };
    new.map(found).collect()
}

impl Instance {
    /// Opens kernel ports one after the other, waiting for each. If a port cannot be opened, this causes an event, and it is tried
    /// again later.
    ///
    /// # Errors
    /// One line: the first failure.
    pub(crate) fn open_kernel_ports(&mut self, ports: Vec<(config::KernelPort, Behind)>) -> Result<()> {
        let mut outcome = Ok(());
        for (plan, behind) in ports {
            let (router, nic) = (plan.router.clone(), plan.nic.clone());
            if let Err(error) = self.open_kernel_port(plan, behind) {
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
        ports: Vec<(config::KernelPort, Behind)>,
        closed: Vec<KernelPort>,
    ) {
        // The failure was reported as an event already.
        let _ = self.open_kernel_ports(ports);
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

    fn open_kernel_port(&mut self, plan: config::KernelPort, behind: Behind) -> Result<()> {
        let mut kernel_port = KernelPort::new(plan, behind, &self.switches)?;
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
    use config::KernelPath;

    use super::*;

    #[test]
    fn what_was_not_opened_is_told_by_its_nic() {
        let refused = |path| {
            let (router, nic, switch) = ("edge".to_owned(), "lan".to_owned(), "lan".to_owned());
            let kernel_port = config::KernelPort { router, nic, switch, path, of_group: false };
            let plan = Plan { kernel_ports: vec![kernel_port], ..Plan::default() };
            let found = behind(&plan, &[], &mut HostServices::default());
            found.err().map(|error| error.to_string())
        };
        let due = |what: &str| Some(format!("nobody has opened the {what} of NIC edge.lan"));
        assert_eq!(refused(KernelPath::Tap), due("TAP"));
        assert_eq!(refused(KernelPath::Tunnel(0)), due("tunnel"));
    }
}
