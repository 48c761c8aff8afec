//! vhost-net: the kernel serves a NIC's rings, by a thread of its own for each pair of queues, between the guest's memory
//! and a TAP or macvtap (`linux/vhost.h`, `drivers/vhost/net.c`).
//!
//! ```text
//! driver --doorbell--> event --> kernel thread vhost-N --> TAP        no exit to us, no thread of ours
//! driver <--irqfd----- event <-- kernel thread vhost-N <-- TAP
//! ```
//!
//! We hand over memory, rings and events when the driver is ready, and take the rings back when it resets the device. What
//! the kernel moves is counted by the driver and by the interface; here nobody sees a frame.

mod request;

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use anyhow::{Context, Result, bail, ensure};
use nic::virtio_net::features;
use nic_port::{HandedQueue, Receiver, SetUp};

/// Where devices are.
const DEVICE: &str = "/dev/vhost-net";
/// Queues of a device: one pair.
const PAIR: u16 = 2;
/// Pairs that a driver uses until it asks for more (virtio 1.2, section 5.1.6.5.5).
const ONE: usize = 1;
/// What every kernel's vhost-net has had since virtio 1.0 came (4.0), and is offered to drivers.
const NEEDED: u64 = features::MRG_RXBUF | features::INDIRECT_DESC | features::EVENT_IDX | features::VERSION_1;
/// Octets of the header before each frame as drivers of virtio 1 have it, and so the kernel between them and an interface; and
/// as this program's own ports have it, to which an interface may go back.
const HEADER: i32 = 12;
const OWN_HEADER: i32 = 10;
/// A backend that is none.
const NOTHING: i32 = -1;

/// Opens a device of vhost-net, which nobody owns yet.
///
/// # Errors
/// The host has none, or keeps it.
pub fn open() -> Result<OwnedFd> {
    match File::options().read(true).write(true).open(DEVICE) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bail!("there is no {DEVICE}: load the module vhost_net, or write vhost = \"shared\"")
        }
        opened => Ok(opened.with_context(|| format!("{DEVICE} cannot be opened"))?.into()),
    }
}

/// Who serves one pair of queues between a guest and an interface.
pub trait Device: Send + Sync {
    /// Lets it serve the two queues of its pair between the guest and `queue` of an interface.
    ///
    /// # Errors
    /// What is refused.
    fn begin(&self, set_up: &Arc<SetUp>, pair: [&HandedQueue; 2], queue: &OwnedFd) -> Result<()>;

    /// Takes the rings back: when this returns nobody touches them any more.
    fn end(&self);
}

/// A device of vhost-net, which serves one pair of queues by a thread of the kernel.
pub struct VhostNet {
    device: File,
    /// What it serves, whose memory must stay until it does so no more: it is closed before that goes.
    serving: Mutex<Option<Arc<SetUp>>>,
}

impl VhostNet {
    /// Makes the calling process the owner of a freshly opened `/dev/vhost-net`: from now on the kernel has a thread for it,
    /// called `vhost-` and the number of the calling thread.
    ///
    /// # Errors
    /// It is somebody else's already, or no such device.
    pub fn own(device: OwnedFd) -> Result<Self> {
        let device = File::from(device);
        request::own(&device).context("vhost-net cannot be owned (VHOST_SET_OWNER)")?;
        let features =
            request::features(&device).context("vhost-net has no features (VHOST_GET_FEATURES)")?;
        ensure!(
            features & NEEDED == NEEDED,
            "this kernel's vhost-net is too old: it has the features {features:#x}"
        );
        Ok(Self { device, serving: Mutex::default() })
    }

    fn keep(&self, set_up: Option<Arc<SetUp>>) {
        *self.serving.lock().unwrap_or_else(PoisonError::into_inner) = set_up;
    }

    fn set_ring(&self, set_up: &SetUp, ring: &HandedQueue, memory: u64) -> Result<()> {
        let (number, device) = (ring.index % PAIR, &self.device);
        request::set_size(device, number, u32::from(ring.layout.size)).context("VHOST_SET_VRING_NUM")?;
        request::set_base(device, number, set_up.served(ring)).context("VHOST_SET_VRING_BASE")?;
        request::set_addresses(device, number, &ring.layout, memory).context("VHOST_SET_VRING_ADDR")?;
        let kick = ring.kick().context("a queue without a doorbell")?;
        request::set_kick(device, number, kick.as_raw_fd()).context("VHOST_SET_VRING_KICK")?;
        let call = ring.call().context("interrupts of vhost-net need KVM")?;
        request::set_call(device, number, call.as_raw_fd()).context("VHOST_SET_VRING_CALL")
    }
}

impl Device for VhostNet {
    fn begin(&self, set_up: &Arc<SetUp>, pair: [&HandedQueue; 2], queue: &OwnedFd) -> Result<()> {
        // Offloads are between driver and TAP.
        let picked = set_up.features & NEEDED;
        request::set_features(&self.device, picked).context("VHOST_SET_FEATURES")?;
        let (address, len) = set_up.mapping().context("memory in several pieces")?;
        // SAFETY: the guest's memory is mapped as long as `set_up` is there, which is kept until the rings are taken back.
        unsafe { request::set_memory(&self.device, address, len) }.context("VHOST_SET_MEM_TABLE")?;
        self.keep(Some(set_up.clone()));
        for ring in pair {
            self.set_ring(set_up, ring, address).with_context(|| format!("queue {}", ring.index))?;
        }
        for ring in pair {
            request::set_backend(&self.device, ring.index % PAIR, queue.as_raw_fd())
                .context("the interface cannot be joined (VHOST_NET_SET_BACKEND)")?;
        }
        Ok(())
    }

    fn end(&self) {
        for number in 0..PAIR {
            // Without an owner or a ring there is nothing to take back.
            let _ = request::set_backend(&self.device, number, NOTHING);
        }
        self.keep(None);
    }
}

/// What serves the queues of one NIC: a device of vhost-net and a queue of the interface for each pair.
pub struct KernelVhost {
    pairs: Vec<(Arc<dyn Device>, OwnedFd)>,
    /// Held over calls that wait for the kernel's threads.
    state: Mutex<State>,
    /// What the kernel refused. Held to put it there or to copy it, and over no call.
    fault: Mutex<Option<String>>,
}

#[derive(Default)]
struct State {
    /// What is being served.
    serving: Option<Arc<SetUp>>,
    /// How many queues of the interface take frames; all, until somebody changes that.
    attached: Option<usize>,
}

impl KernelVhost {
    /// Features of virtio-net that it can serve.
    pub const SERVABLE: u64 = NEEDED | request::OFFLOADS | features::MQ;

    /// Of as many devices as queues of the interface.
    ///
    /// # Errors
    /// There are more of one than of the other, or none.
    pub fn new(devices: Vec<Arc<dyn Device>>, queues: Vec<OwnedFd>) -> Result<Arc<Self>> {
        let (wanted, found) = (devices.len(), queues.len());
        ensure!(
            wanted == found && wanted > 0,
            "{wanted} devices of vhost-net for {found} queues of the interface"
        );
        let pairs = devices.into_iter().zip(queues).collect();
        Ok(Arc::new(Self { pairs, state: Mutex::default(), fault: Mutex::default() }))
    }

    /// Why it does not serve the NIC, if the kernel has refused to. It waits for nobody: what is being written down at the moment
    /// is told the next time.
    pub fn fault(&self) -> Option<String> {
        match self.fault.try_lock() {
            Ok(fault) => fault.clone(),
            Err(TryLockError::Poisoned(fault)) => fault.into_inner().clone(),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn set_fault(&self, fault: Option<String>) {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts the queues of another interface in the place of those of one that was deleted; what was served is served on. It waits
    /// for the kernel's threads.
    ///
    /// # Errors
    /// There are not as many, or the kernel refuses them.
    pub fn replace<'q>(&self, queues: impl ExactSizeIterator<Item = BorrowedFd<'q>>) -> Result<()> {
        let (has, found) = (self.pairs.len(), queues.len());
        ensure!(has == found, "{found} queues of the interface for {has} devices of vhost-net");
        let mut state = self.state();
        for ((device, old), new) in self.pairs.iter().zip(queues) {
            device.end();
            request::take_over(old.as_fd(), new).context("no descriptors are left")?;
        }
        // All queues of a new interface take frames.
        let attached = state.attached.take();
        if let Some(set_up) = &state.serving {
            self.serve(set_up)?;
            self.attach(&mut state, attached.unwrap_or(ONE));
        }
        Ok(())
    }

    fn serve(&self, set_up: &Arc<SetUp>) -> Result<()> {
        let takes = request::tap_offloads(set_up.features);
        for (number, (device, queue)) in (0u16..).zip(&self.pairs) {
            let ring = |index: u16| set_up.queues.iter().find(|ring| ring.index == index);
            // A driver need not use all pairs.
            let (Some(rx), Some(tx)) = (ring(PAIR * number), ring(PAIR * number + 1)) else { continue };
            request::set_offloads(queue.as_fd(), takes)
                .context("the interface takes no offloads (TUNSETOFFLOAD)")?;
            request::set_header(queue.as_fd(), HEADER)
                .context("the interface takes no header of virtio 1 (TUNSETVNETHDRSZ)")?;
            device.begin(set_up, [rx, tx], queue)?;
        }
        Ok(())
    }

    /// Lets so many queues of the interface take frames, which it spreads over them. One that has a single queue has no
    /// choice.
    fn attach(&self, state: &mut State, pairs: usize) {
        if self.pairs.len() == 1 {
            return;
        }
        let attached = state.attached.unwrap_or(self.pairs.len());
        for (number, (_, queue)) in self.pairs.iter().enumerate() {
            let (is, should) = (number < attached, number < pairs);
            if is != should
                && let Err(error) = request::attach(queue.as_fd(), should)
            {
                self.set_fault(Some(format!("vhost-net: a queue cannot be switched (TUNSETQUEUE): {error}")));
            }
        }
        state.attached = Some(pairs.min(self.pairs.len()));
    }
}

impl Receiver for KernelVhost {
    fn begin(&self, set_up: SetUp) {
        let (set_up, mut state) = (Arc::new(set_up), self.state());
        self.set_fault(self.serve(&set_up).err().map(|error| format!("vhost-net: {error:#}")));
        state.serving = Some(set_up);
        self.attach(&mut state, ONE);
    }

    fn use_pairs(&self, pairs: usize) {
        self.attach(&mut self.state(), pairs);
    }

    fn end(&self) {
        let mut state = self.state();
        for (device, queue) in &self.pairs {
            device.end();
            // An interface that was deleted needs none.
            let _ = request::set_header(queue.as_fd(), OWN_HEADER);
        }
        state.serving = None;
    }
}

impl Drop for KernelVhost {
    fn drop(&mut self) {
        self.end();
    }
}

/// What an ioctl said.
fn checked(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
