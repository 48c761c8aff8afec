//! What is wrong with a plan, by the part of it: a file gives that a line, `set` a name.

use crate::error::Errors;
use crate::plan::Plan;

/// One thing that is wrong with a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Index of the router that it is about; none: what the run tells (`[telemetry]`).
    pub router: Option<usize>,
    /// Index of its NIC; none: the router itself.
    pub nic: Option<usize>,
    /// The key in that table: `limit`, `pin.vcpu`.
    pub key: &'static str,
    /// What is wrong and what would be right.
    pub what: String,
}

impl Fault {
    /// About a router.
    pub fn new(router: usize, key: &'static str, what: impl Into<String>) -> Self {
        Self { router: Some(router), nic: None, key, what: what.into() }
    }

    /// About what the run tells.
    pub fn of_telemetry(key: &'static str, what: impl Into<String>) -> Self {
        Self { router: None, nic: None, key, what: what.into() }
    }

    /// About a NIC of a router.
    pub fn of_nic(router: usize, nic: usize, key: &'static str, what: impl Into<String>) -> Self {
        Self { nic: Some(nic), ..Self::new(router, key, what) }
    }
}

impl Plan {
    /// What was found to be wrong with the plan, by file, line and key.
    pub fn errors(&self, faults: impl IntoIterator<Item = Fault>) -> Errors {
        let mut errors = Errors::new(self.places.file());
        faults.into_iter().for_each(|fault| self.note(fault, &mut errors));
        errors.sorted()
    }

    /// Adds a fault to others.
    pub(crate) fn note(&self, fault: Fault, errors: &mut Errors) {
        let Fault { router, nic, key, what } = fault;
        let table = match (router, nic) {
            (None, _) => "telemetry",
            (Some(_), Some(_)) => "router.nic",
            (Some(_), None) => "router",
        };
        let line = self.places.line(router, nic, key);
        let name = router.and_then(|router| Some(self.routers.get(router)?.name.clone()));
        errors.push_of(name, line, &format!("{table}.{key}"), what);
    }
}
