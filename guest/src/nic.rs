//! NIC of either model, as one vCPU uses it; the model is dispatched once per burst.

use bootinfo::{BootInfo, NicInfo, NicModel, Role};
use frame::offload::Offloads;
use ledger::RouterNic;
use router::Burst;

use crate::arena::Arena;
use crate::buffer::{FrameBuffer, Pool};
use crate::{e1000, virtio_net};

/// Device that is initialised but does not run yet.
pub(crate) enum Device {
    VirtioNet(virtio_net::Device),
    E1000(e1000::Device),
}

/// Number of vCPUs that move frames. With an e1000, which has one queue, only the first does; another one may serve its
/// interrupts.
pub(crate) fn movers(info: &BootInfo) -> usize {
    let nics = &info.nics[..info.nic_count as usize];
    let one = nics.iter().any(|nic| nic.model == NicModel::E1000 as u32);
    if one { 1 } else { info.vcpus as usize }
}

/// Configures all devices. A frame received by one NIC may leave by any, so received frames may only carry offload
/// metadata that all NICs of the router support; and a firmware that does not forward exchanges only frames without
/// pending offloads, unless configured otherwise.
pub(crate) fn negotiate(info: &BootInfo, devices: &mut [Device]) -> Option<()> {
    let wanted = info.nics.iter().take(devices.len()).all(|nic| nic.offload != 0);
    let passes_on = [Role::Router as u32, Role::Balancer as u32].contains(&info.role);
    let large = passes_on || info.traffic.segment_len != 0;
    let offloads = if wanted && large {
        devices.iter().fold(Offloads::ALL, |all, device| all & device.sendable()).consistent()
    } else {
        Offloads::NONE
    };
    devices.iter_mut().try_for_each(|device| device.negotiate(offloads))
}

impl Device {
    /// Resets the device in `info.slot`.
    pub(crate) fn open(info: &'static NicInfo, index: usize, boot: &BootInfo) -> Option<Self> {
        match NicModel::from_number(info.model)? {
            NicModel::VirtioNet => virtio_net::Device::open(info, boot, movers(boot)).map(Self::VirtioNet),
            NicModel::E1000 => e1000::Device::open(info, index, boot).map(Self::E1000),
        }
    }

    /// Offloads that frames sent by it may leave to the device.
    fn sendable(&self) -> Offloads {
        match self {
            Self::VirtioNet(device) => device.sendable(),
            Self::E1000(device) => device.sendable(),
        }
    }

    /// Configures it; received frames may carry this offload metadata.
    fn negotiate(&mut self, offloads: Offloads) -> Option<()> {
        match self {
            Self::VirtioNet(device) => device.negotiate(offloads),
            // It receives only frames without pending offloads.
            Self::E1000(_) => Some(()),
        }
    }

    /// Returns its Ethernet address.
    pub(crate) fn mac(&self) -> [u8; 6] {
        match self {
            Self::VirtioNet(device) => device.mac(),
            Self::E1000(device) => device.mac(),
        }
    }

    /// Creates the part of it that vCPU `vcpu` uses, in memory of that vCPU's arena.
    pub(crate) fn nic(&mut self, vcpu: usize, arena: &mut Arena) -> Option<Nic> {
        match self {
            Self::VirtioNet(device) => device.queue_pair(vcpu, arena).map(Nic::VirtioNet),
            Self::E1000(device) => device.nic(vcpu, arena),
        }
    }

    /// Starts the device.
    pub(crate) fn run(&self, arena: &mut Arena) -> Option<()> {
        match self {
            Self::VirtioNet(device) => device.run(arena),
            Self::E1000(device) => {
                device.run();
                Some(())
            }
        }
    }
}

/// One NIC as one vCPU uses it.
pub(crate) enum Nic {
    /// A queue pair of a virtio-net device.
    VirtioNet(virtio_net::QueuePair),
    /// An e1000 with a status block.
    Block(e1000::StatusBlockDriver),
    /// An e1000 driven in the manner of Linux's driver.
    Stock(e1000::InterruptDriver),
    /// The interrupts of an e1000 whose frames another vCPU moves, or no part of it.
    Aside(e1000::InterruptOnly),
}

impl Nic {
    /// Total number of entries in both directions.
    pub(crate) fn entries(&self) -> usize {
        match self {
            Self::VirtioNet(pair) => pair.entries(),
            Self::Block(nic) => nic.entries(),
            Self::Stock(nic) => nic.entries(),
            Self::Aside(_) => 0,
        }
    }

    /// Moves received frames into an empty burst, and posts free buffers once a whole lot of them is missing.
    #[inline(always)]
    pub(crate) fn receive(&mut self, burst: &mut Burst<FrameBuffer>, pool: &mut Pool, counters: &RouterNic) {
        match self {
            Self::VirtioNet(pair) => {
                pair.receive(burst, pool, counters);
                pair.refill(pool, counters);
            }
            Self::Block(nic) => {
                nic.receive(burst, pool, counters);
                nic.refill(pool, counters);
            }
            Self::Stock(nic) => nic.receive(burst, pool, counters),
            Self::Aside(_) => {}
        }
    }

    /// Posts receive buffers before the first frame can arrive, and enables the first interrupt.
    pub(crate) fn fill(&mut self, pool: &mut Pool, counters: &RouterNic) {
        match self {
            Self::VirtioNet(pair) => pair.refill(pool, counters),
            Self::Block(nic) => nic.fill(pool, counters),
            Self::Stock(nic) => nic.fill(pool, counters),
            Self::Aside(_) => {}
        }
    }

    /// Sends a burst; the burst is empty afterwards. `own`: on the sender's own initiative, not in response to received
    /// frames.
    #[inline(always)]
    pub(crate) fn transmit(
        &mut self,
        burst: &mut Burst<FrameBuffer>,
        own: bool,
        pool: &mut Pool,
        counters: &RouterNic,
    ) {
        match self {
            Self::VirtioNet(pair) => pair.transmit(burst, pool, counters),
            Self::Block(nic) => nic.transmit(burst, pool, counters),
            Self::Stock(nic) => nic.transmit(burst, own, pool, counters),
            Self::Aside(_) => burst.drain(..).for_each(|frame| pool.give_frame(frame.into_token())),
        }
    }

    /// Offloads that sent frames may leave to the device.
    pub(crate) fn sendable(&self) -> Offloads {
        match self {
            Self::VirtioNet(pair) => pair.sendable(),
            Self::Block(_) | Self::Stock(_) => Offloads::CSUM | Offloads::TSO4,
            Self::Aside(_) => Offloads::NONE,
        }
    }

    /// Returns the number of frames that can be sent now. If that is low, an interrupt is requested, once armed, for
    /// when there is more room.
    pub(crate) fn room(&mut self, pool: &mut Pool) -> usize {
        match self {
            Self::VirtioNet(pair) => pair.room(pool),
            Self::Block(nic) => nic.room(pool),
            Self::Stock(nic) => nic.room(pool),
            Self::Aside(_) => 0,
        }
    }

    /// Records that a sender waits for sent frames, for their room or for their buffers: once armed, an interrupt is
    /// requested when some have been sent.
    pub(crate) fn await_sent(&mut self) {
        match self {
            Self::VirtioNet(pair) => pair.await_sent(),
            Self::Block(nic) => nic.await_sent(),
            Self::Stock(nic) => nic.await_sent(),
            Self::Aside(_) => {}
        }
    }

    /// Declares that no frames are to be received from this NIC.
    pub(crate) fn disable_receive(&mut self) {
        match self {
            Self::Block(nic) => nic.disable_receive(),
            Self::Stock(nic) => nic.disable_receive(),
            // It posts its buffers in any case.
            Self::VirtioNet(_) | Self::Aside(_) => {}
        }
    }

    /// Delays the unmasking after an interrupt until the vCPU has nothing left to do.
    pub(crate) fn poll_while_busy(&mut self) {
        match self {
            Self::Stock(nic) => nic.poll_while_busy(),
            // These do so anyway.
            Self::VirtioNet(_) | Self::Block(_) | Self::Aside(_) => {}
        }
    }

    /// Number of interrupts served by this vCPU.
    pub(crate) fn interrupts(&self) -> u64 {
        match self {
            Self::Stock(nic) => nic.interrupts(),
            _ => 0,
        }
    }

    /// Reclaims the buffers of sent frames.
    pub(crate) fn reclaim(&mut self, pool: &mut Pool) {
        match self {
            Self::VirtioNet(pair) => pair.reclaim(pool),
            Self::Block(nic) => nic.reclaim(pool),
            Self::Stock(nic) => nic.reclaim(pool),
            Self::Aside(_) => {}
        }
    }

    /// Returns true if this vCPU moves its frames while another vCPU serves its interrupts.
    pub(crate) fn is_aided(&self) -> bool {
        match self {
            Self::VirtioNet(_) | Self::Aside(_) => false,
            Self::Block(nic) => nic.is_aided(),
            Self::Stock(nic) => nic.is_aided(),
        }
    }

    /// Returns true if [`Nic::attend`] must be called before each pass because this NIC is driven by interrupts.
    pub(crate) fn needs_attendance(&self) -> bool {
        matches!(self, Self::Stock(_) | Self::Aside(_))
    }

    /// Serves a pending interrupt; returns true if there was one.
    pub(crate) fn attend(&mut self, pool: &mut Pool, counters: &RouterNic) -> bool {
        match self {
            Self::VirtioNet(_) | Self::Block(_) => false,
            Self::Stock(nic) => nic.attend(pool, counters),
            Self::Aside(nic) => nic.attend(counters),
        }
    }

    /// Requests an interrupt for the next received frame; returns true if one is already there.
    pub(crate) fn arm(&mut self, pool: &mut Pool, counters: &RouterNic) -> bool {
        match self {
            Self::VirtioNet(pair) => {
                counters.arms.add(1);
                pair.arm()
            }
            Self::Block(nic) => nic.arm(counters),
            Self::Stock(nic) => nic.arm(pool, counters),
            Self::Aside(nic) => nic.arm(),
        }
    }

    /// Suppresses interrupts: this vCPU polls.
    pub(crate) fn disarm(&mut self) {
        match self {
            Self::VirtioNet(pair) => pair.disarm(),
            Self::Block(nic) => nic.disarm(),
            Self::Stock(_) | Self::Aside(_) => {}
        }
    }
}
