//! A NIC of any kind, as one vCPU uses it: told apart once a burst.

use bootinfo::{BootInfo, NicInfo, NicModel, Role};
use frame::offload::Offloads;
use ledger::RouterNic;
use router::Burst;

use crate::arena::Arena;
use crate::buffer::{FrameBuffer, Pool};
use crate::{e1000, virtio_net};

/// A device that is set up but does not run yet.
pub(crate) enum Device {
    VirtioNet(virtio_net::Device),
    E1000(e1000::Device),
}

/// vCPUs that move frames. With an e1000, which has one queue, that is the first; another one may take its interrupts.
pub(crate) fn movers(info: &BootInfo) -> usize {
    let nics = &info.nics[..info.nic_count as usize];
    let one = nics.iter().any(|nic| nic.model == NicModel::E1000 as u32);
    if one { 1 } else { info.vcpus as usize }
}

/// Configures all devices. What comes by one may leave by any, so frames may leave to be done only what all NICs of the
/// router can see to; and who does not forward takes and sends no frame that is not ready, unless it is told to.
pub(crate) fn settle(info: &BootInfo, devices: &mut [Device]) -> Option<()> {
    let wanted = info.nics.iter().take(devices.len()).all(|nic| nic.offload != 0);
    let large = info.role == Role::Router as u32 || info.traffic.segment_len != 0;
    let offloads = if wanted && large {
        devices.iter().fold(Offloads::ALL, |all, device| all & device.sendable()).consistent()
    } else {
        Offloads::NONE
    };
    devices.iter_mut().try_for_each(|device| device.settle(offloads))
}

impl Device {
    /// Resets the device in `info.slot`.
    pub(crate) fn open(info: &'static NicInfo, index: usize, boot: &BootInfo) -> Option<Self> {
        match NicModel::from_number(info.model)? {
            NicModel::VirtioNet => virtio_net::Device::open(info, boot, movers(boot)).map(Self::VirtioNet),
            NicModel::E1000 => e1000::Device::open(info, index, boot).map(Self::E1000),
        }
    }

    /// What frames that leave by it may leave to be done.
    fn sendable(&self) -> Offloads {
        match self {
            Self::VirtioNet(device) => device.sendable(),
            Self::E1000(device) => device.sendable(),
        }
    }

    /// Configures it: frames that come may leave this to be done.
    fn settle(&mut self, offloads: Offloads) -> Option<()> {
        match self {
            Self::VirtioNet(device) => device.settle(offloads),
            // What it receives is whole.
            Self::E1000(_) => Some(()),
        }
    }

    /// Its Ethernet address.
    pub(crate) fn mac(&self) -> [u8; 6] {
        match self {
            Self::VirtioNet(device) => device.mac(),
            Self::E1000(device) => device.mac(),
        }
    }

    /// What vCPU `vcpu` has of it, in memory of that vCPU's arena.
    pub(crate) fn nic(&mut self, vcpu: usize, arena: &mut Arena) -> Option<Nic> {
        match self {
            Self::VirtioNet(device) => device.queue_pair(vcpu, arena).map(Nic::VirtioNet),
            Self::E1000(device) => device.nic(vcpu, arena),
        }
    }

    /// Lets the device run.
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
    Block(e1000::Block),
    /// An e1000 driven as Linux's driver does.
    Stock(e1000::Stock),
    /// The interrupts of an e1000 whose frames another vCPU moves; or nothing of it.
    Aside(e1000::Aside),
}

impl Nic {
    /// Entries of both directions together.
    pub(crate) fn entries(&self) -> usize {
        match self {
            Self::VirtioNet(pair) => pair.entries(),
            Self::Block(nic) => nic.entries(),
            Self::Stock(nic) => nic.entries(),
            Self::Aside(_) => 0,
        }
    }

    /// Takes received frames into an empty burst, and posts free buffers once a lot of them is missing.
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

    /// Posts receive buffers before the first frame can come, and asks for the first interrupt.
    pub(crate) fn fill(&mut self, pool: &mut Pool, counters: &RouterNic) {
        match self {
            Self::VirtioNet(pair) => pair.refill(pool, counters),
            Self::Block(nic) => nic.fill(pool, counters),
            Self::Stock(nic) => nic.fill(pool, counters),
            Self::Aside(_) => {}
        }
    }

    /// Sends a burst and leaves it empty. `own`: on the sender's own account, not because frames have come.
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

    /// What frames that are sent may leave to be done.
    pub(crate) fn sendable(&self) -> Offloads {
        match self {
            Self::VirtioNet(pair) => pair.sendable(),
            Self::Block(_) | Self::Stock(_) => Offloads::CSUM | Offloads::TSO4,
            Self::Aside(_) => Offloads::NONE,
        }
    }

    /// How many frames can be sent now. If they are few, an interrupt is wanted, once armed, when they are more.
    pub(crate) fn room(&mut self, pool: &mut Pool) -> usize {
        match self {
            Self::VirtioNet(pair) => pair.room(pool),
            Self::Block(nic) => nic.room(pool),
            Self::Stock(nic) => nic.room(pool),
            Self::Aside(_) => 0,
        }
    }

    /// Somebody waits for what is sent, be it for its room or for its buffers: an interrupt is wanted, once armed, when
    /// something has been.
    pub(crate) fn await_sent(&mut self) {
        match self {
            Self::VirtioNet(pair) => pair.await_sent(),
            Self::Block(nic) => nic.await_sent(),
            Self::Stock(nic) => nic.await_sent(),
            Self::Aside(_) => {}
        }
    }

    /// Nobody takes frames from this NIC.
    pub(crate) fn do_not_listen(&mut self) {
        match self {
            Self::Block(nic) => nic.do_not_listen(),
            Self::Stock(nic) => nic.do_not_listen(),
            // Its buffers are posted whoever takes them.
            Self::VirtioNet(_) | Self::Aside(_) => {}
        }
    }

    /// Once an interrupt has come the next one is to come only when the vCPU has nothing more to do.
    pub(crate) fn poll_while_busy(&mut self) {
        match self {
            Self::Stock(nic) => nic.poll_while_busy(),
            // They do so anyway.
            Self::VirtioNet(_) | Self::Block(_) | Self::Aside(_) => {}
        }
    }

    /// Interrupts that were served here.
    pub(crate) fn interrupts(&self) -> u64 {
        match self {
            Self::Stock(nic) => nic.interrupts(),
            _ => 0,
        }
    }

    /// Takes back the buffers of sent frames.
    pub(crate) fn reclaim(&mut self, pool: &mut Pool) {
        match self {
            Self::VirtioNet(pair) => pair.reclaim(pool),
            Self::Block(nic) => nic.reclaim(pool),
            Self::Stock(nic) => nic.reclaim(pool),
            Self::Aside(_) => {}
        }
    }

    /// Whether its frames are moved here, and its interrupts are served by another vCPU.
    pub(crate) fn is_aided(&self) -> bool {
        match self {
            Self::VirtioNet(_) | Self::Aside(_) => false,
            Self::Block(nic) => nic.is_aided(),
            Self::Stock(nic) => nic.is_aided(),
        }
    }

    /// Whether [`Nic::attend`] is to be called before each pass: this NIC is driven by interrupts.
    pub(crate) fn needs_attendance(&self) -> bool {
        matches!(self, Self::Stock(_) | Self::Aside(_))
    }

    /// Serves an interrupt that has come; true if one had.
    pub(crate) fn attend(&mut self, pool: &mut Pool, counters: &RouterNic) -> bool {
        match self {
            Self::VirtioNet(_) | Self::Block(_) => false,
            Self::Stock(nic) => nic.attend(pool, counters),
            Self::Aside(nic) => nic.attend(counters),
        }
    }

    /// Asks for an interrupt when a frame comes in; true if one has.
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

    /// Asks for no interrupts: this vCPU polls.
    pub(crate) fn disarm(&mut self) {
        match self {
            Self::VirtioNet(pair) => pair.disarm(),
            Self::Block(nic) => nic.disarm(),
            Self::Stock(_) | Self::Aside(_) => {}
        }
    }
}
