//! Joins a NIC model, the bus, interrupts, doorbells and the NIC's queues.

mod e1000;
mod virtio_net;

use std::sync::Arc;

use anyhow::Result;
use bootinfo::map;
use nic::moderation::Moderation;
use nic::pci::BarWindow;
use nic::virtio_net::NicConfig;
use nic_port::{NicQueues, Receiver};

use crate::machine::Machine;

pub use e1000::E1000Nic;

/// Octets of an Ethernet header and a VLAN tag: what a frame may have more than the MTU.
const FRAME_OVERHEAD: usize = 18;
/// First base address register in configuration space.
const CONFIG_BAR0: u16 = 0x10;

/// A NIC, by its model.
#[derive(Clone, Debug)]
pub enum Model {
    /// virtio-net.
    VirtioNet {
        /// The device.
        config: NicConfig,
        /// How its messages are moderated.
        moderation: Moderation,
        /// Whether its doorbells are accesses, in which its frames are sent: what VMMs did before vhost-net.
        in_access: bool,
    },
    /// The Intel 82540EM.
    E1000(E1000Nic),
}

/// Puts a NIC into a slot of the guest's bus; returns its queues, which start when the driver does. With
/// `several_senders` any number of threads may deliver to it at the same time.
///
/// # Errors
/// One line: the configuration is not one of such a device, or the host refuses descriptors or interrupts.
pub fn attach(
    machine: &Machine,
    slot: usize,
    model: &Model,
    several_senders: bool,
) -> Result<Arc<NicQueues>> {
    match model {
        Model::VirtioNet { config, moderation, in_access } => {
            virtio_net::attach(machine, slot, (config, *moderation), several_senders, *in_access)
        }
        Model::E1000(nic) => e1000::attach(machine, slot, nic, several_senders),
    }
}

/// Puts a virtio-net device into a slot of the guest's bus whose queues `receiver` hands to somebody else. Nobody here sees its
/// frames: what it returns only counts kicks that came by register access, and never runs.
///
/// # Errors
/// As [`attach`].
pub fn attach_handed(
    machine: &Machine,
    slot: usize,
    config: &NicConfig,
    receiver: Arc<dyn Receiver>,
) -> Result<Arc<NicQueues>> {
    virtio_net::attach_handed(machine, slot, config, receiver)
}

/// The slot of NIC `n`, with what ring 0 knows of it; slot 0 is where a host bridge would be.
pub(crate) const fn nic_slot(n: usize) -> usize {
    n + 1
}

/// Where the VMM puts the first BAR of a slot's device.
pub(crate) const fn bar_of(slot: usize) -> u64 {
    map::BARS + slot as u64 * map::BAR_SPACING
}

/// The BAR in which `len` octets at `address` lie, and where in it.
fn find(bars: &[BarWindow], address: u64, len: usize) -> Option<(u8, u64)> {
    let window = bars.iter().find(|window| {
        address
            .checked_sub(window.address)
            .and_then(|offset| offset.checked_add(len as u64))
            .is_some_and(|end| end <= window.len)
    })?;
    Some((window.index, address - window.address))
}

#[cfg(test)]
pub(crate) mod tests;
