//! Faults of a plan, located by its parts: for a file they are reported by line, for `set` by name.

use crate::error::Errors;
use crate::plan::Plan;

/// A fault of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Index of the router concerned; `None`: `[telemetry]`.
    pub router: Option<usize>,
    /// Index of its NIC; `None`: the router itself.
    pub nic: Option<usize>,
    /// Key in that table: `limit`, `pin.vcpu`.
    pub key: &'static str,
    /// What is wrong, and how to correct it.
    pub what: String,
}

impl Fault {
    /// Fault of a router.
    pub fn new(router: usize, key: &'static str, what: impl Into<String>) -> Self {
        Self { router: Some(router), nic: None, key, what: what.into() }
    }

    /// Fault of `[telemetry]`.
    pub fn of_telemetry(key: &'static str, what: impl Into<String>) -> Self {
        Self { router: None, nic: None, key, what: what.into() }
    }

    /// Fault of a NIC of a router.
    pub fn of_nic(router: usize, nic: usize, key: &'static str, what: impl Into<String>) -> Self {
        Self { nic: Some(nic), ..Self::new(router, key, what) }
    }
}

impl Plan {
    /// Converts faults of the plan into errors with file, line and key.
    pub fn errors(&self, faults: impl IntoIterator<Item = Fault>) -> Errors {
        let mut errors = Errors::new(self.places.file());
        faults.into_iter().for_each(|fault| self.note(fault, &mut errors));
        errors.sorted()
    }

    /// Adds a fault to a list of errors.
    pub(crate) fn note(&self, fault: Fault, errors: &mut Errors) {
        let Fault { router, nic, key, what } = fault;
        let found = router.and_then(|router| self.routers.get(router)).map(crate::group::table_of);
        let table = match (router, nic, found.map_or("router", |(table, _)| table)) {
            (None, ..) => "telemetry".to_owned(),
            (Some(_), Some(_), table) => format!("{table}.nic"),
            (Some(_), None, table) => table.to_owned(),
        };
        let line = self.places.line(router, nic, key);
        let name = found.map(|(_, name)| name.to_owned());
        errors.push_of(name, line, &format!("{table}.{key}"), what);
    }
}
