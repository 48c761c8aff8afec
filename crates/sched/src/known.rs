//! What is known before threads are placed.

use std::collections::BTreeMap;

use config::{Attach, Plan};

use crate::host::Host;
use crate::interrupts::{self, Irq};
use crate::topology::Topology;

/// What is known of a host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Known {
    /// Its CPUs.
    pub topology: Topology,
    /// What may be asked of it.
    pub host: Host,
    /// What was measured; empty where nothing was.
    pub load: Load,
    /// Interrupts of the interfaces that a plan names.
    pub interrupts: BTreeMap<String, Vec<Irq>>,
}

/// What was measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Load {
    /// What threads of ours take of a CPU, by their names: 0 to 1.
    pub threads: BTreeMap<String, f64>,
    /// What others take of each CPU: 0 to 1.
    pub cpus: BTreeMap<u32, f64>,
}

impl Known {
    /// What can be read on this host. Changes nothing.
    pub fn read(plan: &Plan) -> Self {
        let interfaces = plan.nics().filter_map(|(_, nic)| match &nic.attach {
            Attach::Macvtap { interface, .. } | Attach::Xdp(interface) => Some(interface.clone()),
            _ => None,
        });
        Self {
            topology: Topology::read(),
            host: Host::read(),
            load: Load::default(),
            interrupts: interfaces.map(|name| (name.clone(), interrupts::of_interface(&name))).collect(),
        }
    }
}
