//! A NIC at which the virtual machine of another program is plugged in: its rings are served by our I/O threads.

use std::sync::Arc;

use anyhow::Result;
use config::{FlowHash, Nic, Router};
use ledger::NicDirection;
use nic_port::NicQueues;
use port::Source;
use sandbox::Confinement;
use uplink::Door;
use vhost_user::backend::{Backend, News, Offer};

use super::{Outside, Plugged, Plugging};

/// Octets of an Ethernet header and a VLAN tag: what a frame may have more than the MTU.
const FRAME_OVERHEAD: u32 = 18;

/// The port of a machine of another program.
pub struct GuestPort {
    machine: Backend,
    /// What machines were offered.
    offer: Offer,
}

impl GuestPort {
    /// Begins to meet machines of other programs at a door, which share as much memory as the file says.
    ///
    /// # Errors
    /// No descriptors or threads are left.
    pub(crate) fn new(router: &Router, nic: &Nic, door: Door, confinement: Confinement) -> Result<Arc<Self>> {
        Self::meet((router, nic), door, nic.memory_max, confinement)
    }

    /// Begins to meet the process of a router that is apart, which shares the router's memory and nothing else.
    ///
    /// # Errors
    /// No descriptors or threads are left.
    pub(crate) fn of_apart(
        router: &Router,
        nic: &Nic,
        door: Door,
        confinement: Confinement,
    ) -> Result<Arc<Self>> {
        Self::meet((router, nic), door, router.memory, confinement)
    }

    fn meet(
        (router, nic): (&Router, &Nic),
        door: Door,
        memory_max: u64,
        confinement: Confinement,
    ) -> Result<Arc<Self>> {
        let (name, offer) = (format!("{}/{}-peer", router.name, nic.name), offer(nic, memory_max));
        Ok(Arc::new(Self { machine: Backend::start(&name, door, offer, confinement)?, offer }))
    }

    /// Whether it offers machines what this NIC is to offer; one that was offered something else has to come again.
    pub(crate) fn fits(&self, nic: &Nic) -> bool {
        self.offer == offer(nic, nic.memory_max)
    }

    /// Whether a machine is plugged in.
    pub(crate) fn is_there(&self) -> bool {
        self.machine.is_up()
    }

    /// In one line.
    pub fn state(&self) -> String {
        self.machine.state()
    }

    /// What has happened since this was asked last, if something has; to be asked about ten times a second.
    pub(crate) fn look_after(&self) -> Option<News> {
        self.machine.look_after()
    }

    /// The machine's rings, for who serves them.
    pub(crate) fn queues(&self) -> &Arc<NicQueues> {
        self.machine.queues()
    }

    /// Frames that came from the machine, and frames that it was given.
    pub fn ledgers(&self) -> [NicDirection; 2] {
        [self.machine.queues().tx_ledger(), self.machine.queues().rx_ledger()]
    }
}

/// What the machine at a NIC is offered.
fn offer(nic: &Nic, memory_max: u64) -> Offer {
    let longest = (nic.mtu + FRAME_OVERHEAD) as usize;
    Offer { pairs: nic.queues as usize, longest, offload: nic.offload, memory_max }
}

impl Plugging<'_> {
    /// What the machine sends comes in, and what the router sends goes to the machine. Where each pair of queues has a
    /// thread, that serves the same pair of the machine's.
    pub(super) fn guest_port(&self, port: &Arc<GuestPort>) -> Plugged {
        let (queues, threads) = (port.machine.queues(), self.threads());
        queues.spread_by(self.hash());
        let sources: Vec<Box<dyn Source>> = if threads == 1 {
            vec![queues.source()]
        } else {
            (0..threads.min(queues.pairs())).map(|pair| queues.source_of(pair)).collect()
        };
        // A machine sends a flow by one queue, but where its answers come from is its own affair.
        let spread = self.nic.hash == FlowHash::Flow;
        let sink = |pair| if threads == 1 { queues.sink() } else { queues.sink_of(pair, threads) };
        (self.rx(sources, spread), self.tx(false, sink), Outside::Guest(port.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_router_s_process_shares_its_memory_and_another_machine_what_the_file_says() {
        let text = "[[router]]\nname = 'r'\nmemory = '64M'\nisolate = 'process'\n\
                    [[router.nic]]\nname = 'n'\nattach = 'vhost-user-backend:v.sock'\nmemory_max = '2G'\n";
        let plan = config::parse(text, "r.toml").expect("a good file");
        let (router, nic) = plan.nics().next().expect("a NIC");
        let folder = tempfile::tempdir().expect("a folder");
        let door = |name: &str| Door::listen(&folder.path().join(name)).expect("a socket");
        let machine = GuestPort::new(router, nic, door("machine"), Confinement::Off).expect("a port");
        assert_eq!(machine.offer.memory_max, 2 << 30);
        let process = GuestPort::of_apart(router, nic, door("process"), Confinement::Off).expect("a port");
        assert_eq!(process.offer.memory_max, 64 << 20);
        let other = Nic { memory_max: 4 << 30, ..nic.clone() };
        assert!(
            machine.fits(nic) && !machine.fits(&other),
            "a machine comes again to a port of another size"
        );
    }
}
