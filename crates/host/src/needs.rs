//! Requirements of a plan beyond what its values name, and whether this host meets them.

mod attachments;
mod machines;

use std::io::ErrorKind;

use config::{Errors, Fault, HostFacts, Listen, Plan, Spin};

use crate::{Finding, State, devices, references};

/// A finding for each requirement of a plan.
pub fn findings(plan: &Plan, facts: &HostFacts) -> Vec<Finding> {
    let mut findings = vec![devices::kvm_device()];
    findings.extend(machines::findings(plan, facts));
    findings.extend(attachments::findings(plan));
    findings.extend(plan.telemetry.prometheus.as_ref().map(telemetry));
    findings.push(devices::huge_pages(Some(plan.memory())));
    findings.push(crate::cpu::cpus(Some(threads_that_poll(plan))));
    findings
}

/// Finding: can the telemetry address be used?
fn telemetry(listen: &Listen) -> Finding {
    let (state, meaning) = match references::listen(listen) {
        Ok(()) => (State::Ok, "tells all counters to Prometheus, and to nobody on another host".to_owned()),
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            (State::Note, "somebody listens there: if it is not this run, choose another place".to_owned())
        }
        Err(error) => (State::No, format!("cannot listen there: {error}")),
    };
    Finding::new(state, "telemetry", listen.to_string(), meaning)
}

/// Errors of the telemetry address that hold whatever else is running.
pub fn telemetry_faults(plan: &Plan) -> Errors {
    let refused = plan.telemetry.prometheus.as_ref().and_then(|listen| references::listen(listen).err());
    let refused = refused.filter(|error| error.kind() != ErrorKind::AddrInUse);
    let fault = |error| Fault::of_telemetry("prometheus", format!("cannot listen there: {error}"));
    plan.errors(refused.map(fault))
}

/// Number of threads that never sleep.
fn threads_that_poll(plan: &Plan) -> usize {
    plan.routers
        .iter()
        .filter(|router| router.spin == Spin::Always)
        .map(|router| router.threads().len())
        .sum()
}
