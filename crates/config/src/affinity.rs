//! CPUs that a router's threads may run on: `pin` and `affinity`.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::cpus::CpuSet;
use crate::fault::Fault;
use crate::plan::{Pin, Plan, Router};
use crate::read::{remember, valued_or};
use crate::section::Section;

/// CPUs that the threads of a class may run on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Allowed {
    /// Not specified: threads are placed automatically.
    #[default]
    Auto,
    /// The kernel chooses among all CPUs.
    Free,
    /// The kernel chooses within this set.
    Within(CpuSet),
}

impl fmt::Display for Allowed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => out.write_str("auto"),
            Self::Free => out.write_str("free"),
            Self::Within(cpus) => cpus.fmt(out),
        }
    }
}

/// Sets of CPUs within which the kernel places threads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Affinity {
    /// CPUs of the vCPU threads.
    pub vcpu: Allowed,
    /// CPUs of the vhost threads.
    pub vhost: Allowed,
}

/// Parses `pin`.
pub(crate) fn pin(section: &Section<'_>, index: usize, plan: &mut Plan) -> Pin {
    let Some(pin) = section.table("pin", "{ vcpu = \"1\", vhost = \"0\" }") else { return Pin::default() };
    pin.expect_keys(&["vcpu", "vhost"], &[]);
    remember(plan, (index, None), "pin.vcpu", pin.line_of("vcpu"));
    remember(plan, (index, None), "pin.vhost", pin.line_of("vhost"));
    let of_class = |key| valued_or(&pin, key, ("\"0-1\"", "any"), cpus);
    Pin { vcpu: of_class("vcpu"), vhost: of_class("vhost") }
}

/// Parses `affinity`.
pub(crate) fn read(section: &Section<'_>, index: usize, plan: &mut Plan) -> Affinity {
    let example = "{ vcpu = \"0-1\", vhost = \"free\" }";
    let Some(table) = section.table("affinity", example) else { return Affinity::default() };
    table.expect_keys(&["vcpu", "vhost"], &[]);
    remember(plan, (index, None), "affinity.vcpu", table.line_of("vcpu"));
    remember(plan, (index, None), "affinity.vhost", table.line_of("vhost"));
    let allowed = |key| valued_or(&table, key, ("\"0-1\"", "auto"), allowed).unwrap_or_default();
    Affinity { vcpu: allowed("vcpu"), vhost: allowed("vhost") }
}

/// Refuses a class of threads that is both pinned and given a set of CPUs.
pub(crate) fn verify(index: usize, router: &Router, faults: &mut Vec<Fault>) {
    let classes = [
        ("affinity.vcpu", "pin.vcpu", &router.affinity.vcpu, &router.pin.vcpu),
        ("affinity.vhost", "pin.vhost", &router.affinity.vhost, &router.pin.vhost),
    ];
    for (key, other, allowed, pinned) in classes {
        if let (Some(pinned), Allowed::Free | Allowed::Within(_)) = (pinned, allowed) {
            let what = format!("{other} = \"{pinned}\" says it already; remove one of the two");
            faults.push(Fault::new(index, key, what));
        }
    }
}

/// Parses a set of CPUs.
pub(crate) fn cpus(text: &str) -> Result<CpuSet, String> {
    text.parse::<CpuSet>()
        .map_err(|_| format!("{text:?} is not a list of CPUs; write e.g. \"1\" or \"0-1,3\""))
}

/// Parses a value of `affinity`.
pub(crate) fn allowed(text: &str) -> Result<Allowed, String> {
    if text == "free" {
        return Ok(Allowed::Free);
    }
    let set = text.parse().map(Allowed::Within);
    set.map_err(|_| format!("{text:?} is not a list of CPUs; write e.g. \"1\" or \"0-1,3\", or \"free\""))
}
