//! Connects a NIC model to the bus, interrupts, doorbells and the NIC's queues.

mod e1000;
mod virtio_net;

use std::sync::Arc;

use anyhow::Result;
use nic::moderation::Moderation;
use nic::pci::BarWindow;
use nic::virtio_net::NicConfig;
use nic_port::{NicQueues, Receiver};

use crate::machine::Machine;

pub(crate) use bootinfo::map::{bar_of, nic_slot};
pub use e1000::E1000Nic;

/// Octets of an Ethernet header and two VLAN tags, by which a frame may exceed the MTU.
const FRAME_OVERHEAD: usize = 22;
/// First base address register in configuration space.
const CONFIG_BAR0: u16 = 0x10;

/// Model of a NIC.
#[derive(Clone, Debug)]
pub enum Model {
    /// virtio-net.
    VirtioNet {
        /// Configuration of the device.
        config: NicConfig,
        /// Interrupt moderation of its MSI-X messages.
        moderation: Moderation,
        /// True if its doorbells are register accesses within which its frames are sent, as in VMMs before
        /// vhost-net.
        in_access: bool,
    },
    /// The Intel 82540EM.
    E1000(E1000Nic),
}

/// Attaches a NIC to a slot of the guest's bus; returns its queues, which start when the driver starts the
/// device. With `several_senders` any number of threads may deliver to it concurrently.
///
/// # Errors
/// One line: the configuration is invalid for such a device, or the host refuses descriptors or interrupts.
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

/// Attaches a virtio-net device whose queues `receiver` hands to a backend elsewhere. This process does not
/// see its frames: the returned queues only count kicks that arrive by register access, and never run.
///
/// # Errors
/// See [`attach`].
pub fn attach_handed(
    machine: &Machine,
    slot: usize,
    config: &NicConfig,
    receiver: Arc<dyn Receiver>,
) -> Result<Arc<NicQueues>> {
    virtio_net::attach_handed(machine, slot, config, receiver)
}

/// Returns the BAR that contains `len` octets at `address`, and the offset in it.
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
