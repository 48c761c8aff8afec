//! vhost-net: the kernel serves a NIC's rings between the guest's memory and a TAP or macvtap, by a kernel
//! thread for each queue pair (`linux/vhost.h`, `drivers/vhost/net.c`).
//!
//! ```text
//! driver --doorbell--> event --> kernel thread vhost-N --> TAP        no exit to us, no thread of ours
//! driver <--irqfd----- event <-- kernel thread vhost-N <-- TAP
//! ```
//!
//! Memory, rings and eventfds are handed to the kernel when the driver is ready, and the rings are taken back
//! when it resets the device. The frames are counted by the driver and by the interface; this process does
//! not see them.

mod request;

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use anyhow::{Context, Result, bail, ensure};
use nic::virtio_net::features;
use nic_port::{ExportedQueue, Receiver, SetUp};

/// Path of the device.
const DEVICE: &str = "/dev/vhost-net";
/// Queues of one device: a pair.
const PAIR: u16 = 2;
/// Queue pairs that a driver uses until it enables more (virtio 1.2, section 5.1.6.5.5).
const ONE: usize = 1;
/// Features that every kernel's vhost-net has had since support for virtio 1.0 (Linux 4.0); they are offered
/// to drivers.
const NEEDED: u64 = features::MRG_RXBUF | features::INDIRECT_DESC | features::EVENT_IDX | features::VERSION_1;
/// Octets of the virtio-net header before each frame: with virtio 1, which both the drivers and the kernel
/// use towards an interface; and with this program's own ports, to which an interface may return.
const HEADER: i32 = 12;
const OWN_HEADER: i32 = 10;
/// Value for VHOST_NET_SET_BACKEND that means no backend.
const NOTHING: i32 = -1;

/// Opens a vhost-net device, which has no owner yet.
///
/// # Errors
/// The host has none, or denies access.
pub fn open() -> Result<OwnedFd> {
    match File::options().read(true).write(true).open(DEVICE) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bail!("there is no {DEVICE}: load the module vhost_net, or write vhost = \"shared\"")
        }
        opened => Ok(opened.with_context(|| format!("{DEVICE} cannot be opened"))?.into()),
    }
}

/// Server of one queue pair between a guest and an interface.
pub trait Device: Send + Sync {
    /// Starts serving the two queues of its pair between the guest and `queue` of an interface.
    ///
    /// # Errors
    /// The request that was refused.
    fn begin(&self, set_up: &Arc<SetUp>, pair: [&ExportedQueue; 2], queue: &OwnedFd) -> Result<()>;

    /// Takes the rings back: when this returns they are not accessed any more.
    fn end(&self);
}

/// A vhost-net device, which serves one queue pair by a kernel thread.
pub struct VhostNet {
    device: File,
    /// The set-up being served, whose memory must stay mapped meanwhile: the device is closed before that is
    /// released.
    serving: Mutex<Option<Arc<SetUp>>>,
}

impl VhostNet {
    /// Makes the calling process the owner of a freshly opened `/dev/vhost-net`: from now on it has a kernel
    /// thread, called `vhost-` and the ID of the calling thread.
    ///
    /// # Errors
    /// It has another owner already, or is not a vhost-net device.
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

    fn set_ring(&self, set_up: &SetUp, ring: &ExportedQueue, memory: u64) -> Result<()> {
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
    fn begin(&self, set_up: &Arc<SetUp>, pair: [&ExportedQueue; 2], queue: &OwnedFd) -> Result<()> {
        // Offloads are negotiated between driver and TAP.
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
            // Without an owner or a ring there is no backend to remove.
            let _ = request::set_backend(&self.device, number, NOTHING);
        }
        self.keep(None);
    }
}

/// Server of the queues of one NIC: a vhost-net device and a queue of the interface for each pair.
pub struct KernelVhost {
    pairs: Vec<(Arc<dyn Device>, OwnedFd)>,
    /// Held during calls that wait for the kernel's threads.
    state: Mutex<State>,
    /// The request that the kernel refused. Locked only to set or copy it, never during a call.
    fault: Mutex<Option<String>>,
}

#[derive(Default)]
struct State {
    /// The set-up being served.
    serving: Option<Arc<SetUp>>,
    /// Number of the interface's queues that are attached; all, until changed.
    attached: Option<usize>,
}

impl KernelVhost {
    /// virtio-net features that it can serve.
    pub const SERVABLE: u64 = NEEDED | request::OFFLOADS | features::MQ;

    /// Creates a server with as many devices as queues of the interface.
    ///
    /// # Errors
    /// Their numbers differ, or are zero.
    pub fn new(devices: Vec<Arc<dyn Device>>, queues: Vec<OwnedFd>) -> Result<Arc<Self>> {
        let (wanted, found) = (devices.len(), queues.len());
        ensure!(
            wanted == found && wanted > 0,
            "{wanted} devices of vhost-net for {found} queues of the interface"
        );
        let pairs = devices.into_iter().zip(queues).collect();
        Ok(Arc::new(Self { pairs, state: Mutex::default(), fault: Mutex::default() }))
    }

    /// Returns the reason why it does not serve the NIC, if the kernel has refused to. Never blocks: a fault
    /// that is being recorded at the moment is returned by the next call.
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

    /// Replaces the queues of a deleted interface by those of another one, and resumes serving. Blocks on the
    /// kernel's threads.
    ///
    /// # Errors
    /// Their numbers differ, or the kernel refuses them.
    pub fn replace<'q>(&self, queues: impl ExactSizeIterator<Item = BorrowedFd<'q>>) -> Result<()> {
        let (has, found) = (self.pairs.len(), queues.len());
        ensure!(has == found, "{found} queues of the interface for {has} devices of vhost-net");
        let mut state = self.state();
        for ((device, old), new) in self.pairs.iter().zip(queues) {
            device.end();
            request::take_over(old.as_fd(), new).context("no descriptors are left")?;
        }
        // All queues of a new interface are attached.
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

    /// Attaches this many queues of the interface, which spreads received frames over them. An interface with
    /// a single queue has it always attached.
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
            // Fails harmlessly if the interface was deleted.
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

/// Returns the error of an ioctl.
fn checked(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
