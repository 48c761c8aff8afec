//! State shared by all ends of an interface, and its supervision.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ledger::Counter;
use rustix::io::Errno;
use rustix::net::sockopt::{socket_error, xdp_statistics};

use super::XdpKernelCounters;
use super::sink::Sender;
use super::umem::Umem;

/// State of an interface.
#[derive(Debug)]
pub(super) struct Device {
    name: String,
    gone: AtomicBool,
    down: AtomicBool,
    reported: AtomicBool,
}

/// One queue of an interface.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) socket: OwnedFd,
    pub(super) umem: Umem,
    pub(super) device: Arc<Device>,
    pub(super) sender: Mutex<Sender>,
    /// True while frames wait that the kernel has not taken.
    pub(super) busy: AtomicBool,
}

impl Device {
    pub(super) fn named(name: &str) -> Arc<Self> {
        let [gone, down, reported] = [const { AtomicBool::new(false) }; 3];
        Arc::new(Self { name: name.to_owned(), gone, down, reported })
    }

    /// Creates the state of a deleted interface, which was reported already.
    pub(super) fn deleted(name: &str) -> Arc<Self> {
        let device = Self::named(name);
        device.gone.store(true, Relaxed);
        device.reported.store(true, Relaxed);
        device
    }

    /// Handles an error of the kernel when sending.
    pub(super) fn refused(&self, error: &io::Error) {
        match error.raw_os_error() {
            // The socket is not bound to an interface any more.
            Some(libc::ENXIO | libc::ENODEV | libc::EBADF) => self.gone.store(true, Relaxed),
            _ => self.down.store(true, Relaxed),
        }
    }

    pub(super) fn is_gone(&self) -> bool {
        self.gone.load(Relaxed)
    }

    pub(super) fn is_down(&self) -> bool {
        self.down.load(Relaxed)
    }

    /// Resets the down state; the next call shows whether the interface still is down.
    pub(super) fn try_again(&self) {
        self.down.store(false, Relaxed);
    }

    /// Returns the message about the deletion of the interface, once.
    fn take_trouble(&self) -> Option<String> {
        let first = self.is_gone() && !self.reported.swap(true, Relaxed);
        first.then(|| {
            format!(
                "the interface `{}` was deleted; frames for it are lost until it is there again",
                self.name
            )
        })
    }
}

impl Queue {
    /// Has the kernel send frames that it had not taken; called by the thread that polls the queue.
    #[inline]
    pub(super) fn attend(&self) {
        if self.is_busy()
            && let Ok(mut sender) = self.sender.try_lock()
        {
            sender.send(self, None);
        }
    }

    /// Returns true if frames wait that an interface which is up has not taken.
    #[inline]
    pub(super) fn is_busy(&self) -> bool {
        self.busy.load(Relaxed) && !self.device.is_down() && !self.device.is_gone()
    }
}

/// Supervises an open interface.
#[derive(Debug)]
pub struct XdpHealth {
    /// Serialises looks.
    watched: Mutex<Watched>,
    counters: Arc<XdpKernelCounters>,
}

/// The supervised objects.
#[derive(Debug)]
struct Watched {
    device: Arc<Device>,
    queues: Vec<Arc<Queue>>,
    /// Totals of the queues that were served before.
    before: [u64; COUNTED],
}

/// Number of the kernel's counters.
const COUNTED: usize = 5;

impl XdpHealth {
    pub(super) fn new(device: Arc<Device>, queues: Vec<Arc<Queue>>) -> Self {
        let watched = Mutex::new(Watched { device, queues, before: [0; COUNTED] });
        Self { watched, counters: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the kernel's counters, as of the last look.
    pub fn counters(&self) -> Arc<XdpKernelCounters> {
        Arc::clone(&self.counters)
    }

    fn numbers(&self) -> [&Counter; COUNTED] {
        let counters = &*self.counters;
        [
            &counters.drop_other,
            &counters.drop_ring_full,
            &counters.fill_ring_empty,
            &counters.rx_invalid,
            &counters.tx_invalid,
        ]
    }

    /// Supervises these from now on.
    pub(super) fn watch(&self, device: Arc<Device>, queues: Vec<Arc<Queue>>) {
        let watched = Watched { device, queues, before: self.numbers().map(Counter::get) };
        let before = std::mem::replace(&mut *self.lock(), watched);
        // After the lock is released: the kernel may take long to close the last reference to a socket.
        drop(before);
    }

    /// Reads the kernel's counters, and checks whether the interface still exists.
    pub fn look(&self) {
        let watched = self.lock();
        if watched.device.is_gone() {
            return;
        }
        let mut sum = watched.before;
        for queue in &watched.queues {
            let fd = queue.socket.as_fd();
            // The kernel sets this error on a socket whose interface is deleted.
            if socket_error(fd) == Ok(Err(Errno::NETDOWN)) {
                watched.device.refused(&Errno::NXIO.into());
            }
            let Ok(counted) = xdp_statistics(fd) else { return };
            let of_queue = [
                counted.rx_dropped,
                counted.rx_ring_full.unwrap_or_default(),
                counted.rx_fill_ring_empty_descs.unwrap_or_default(),
                counted.rx_invalid_descs,
                counted.tx_invalid_descs,
            ];
            sum.iter_mut().zip(of_queue).for_each(|(sum, n)| *sum += n);
        }
        let numbers = self.numbers();
        numbers.iter().zip(sum).for_each(|(counter, now)| counter.add(now.saturating_sub(counter.get())));
    }

    /// Returns the message about a permanent failure, once.
    pub fn take_trouble(&self) -> Option<String> {
        self.lock().device.take_trouble()
    }
}
