//! Host side of a running process: its register accesses, its stop and its end.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Context;
use bootinfo::RegisterAccess;
use ledger::VcpuExits;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::pidfd::{self, End};
use super::{Child, Process, borrow};
use crate::bus::Bus;
use crate::futex;
use crate::vcpu::Stopped;

/// Time limit for a requested stop. The firmware's main loop checks within microseconds of its own time, but
/// a process with a small reservation or quota may have to wait for its next period.
const GRACE: Duration = Duration::from_secs(1);

impl Process {
    /// Serves the process until it ends. To be called on a thread of its own, so that a process with endless
    /// requests keeps only that thread busy.
    pub fn serve(&self) -> Stopped {
        let Some(child) = self.child.get() else {
            return Stopped::Fault("a process that was never started cannot be served".to_owned());
        };
        let mut deadline = None;
        loop {
            let asked = self.machine.stop_sign().load(Ordering::Acquire);
            if asked && Instant::now() >= *deadline.get_or_insert_with(|| Instant::now() + GRACE) {
                child.kill();
            }
            match self.wait(child, asked) {
                Ok(Event::Bell) => self.answer_all(),
                Ok(Event::Nothing) => {}
                Ok(Event::Ended) => {
                    let end = pidfd::wait(&child.pidfd);
                    // The stop may have been requested during the wait, and the process may have been quick.
                    let asked = self.machine.stop_sign().load(Ordering::Acquire);
                    return if asked { Stopped::Asked } else { Stopped::Fault(describe_end(end)) };
                }
                Err(error) => return Stopped::Fault(format!("{error:#}")),
            }
        }
    }

    /// Waits for the bell or the end; after a request to stop, for no longer than a part of the grace period.
    fn wait(&self, child: &Child, asked: bool) -> anyhow::Result<Event> {
        let fds = [child.pidfd.as_fd(), borrow(&self.bell)];
        let mut fds = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        let limit = if asked { Timespec::try_from(GRACE / 10).ok() } else { None };
        match poll(&mut fds, limit.as_ref()) {
            // Check the end first: endless ringing must not hide it.
            Ok(_) if !fds[0].revents().is_empty() => Ok(Event::Ended),
            // If it was not rung the read fails, and nothing is lost.
            Ok(1..) if self.bell.read().is_ok() => Ok(Event::Bell),
            Ok(_) | Err(Errno::INTR) => Ok(Event::Nothing),
            Err(error) => Err(error).context("cannot wait for the process"),
        }
    }

    fn answer_all(&self) {
        for (vcpu, exits) in self.machine.shared().vcpus.iter().zip(self.machine.exits()) {
            answer(&vcpu.access, self.machine.bus(), exits);
        }
    }
}

enum Event {
    Bell,
    Ended,
    Nothing,
}

/// Performs the access that a vCPU requests, if it does. Each field is read once: the process may change them
/// at any time, and harms only itself.
fn answer(access: &RegisterAccess, bus: &Bus, exits: &VcpuExits) {
    if access.turn.load(Ordering::Acquire) != RegisterAccess::ASKED {
        return;
    }
    let shape = access.shape.load(Ordering::Relaxed);
    let address = access.address.load(Ordering::Relaxed);
    let value = access.value.load(Ordering::Relaxed);
    access.value.store(carry_out((address, value, shape), bus, exits), Ordering::Relaxed);
    access.turn.store(RegisterAccess::DONE, Ordering::SeqCst);
    futex::wake(&access.turn);
}

/// Returns the resulting value of the access: what was read; for an invalid shape, all ones.
fn carry_out((address, value, shape): (u64, u64, u32), bus: &Bus, exits: &VcpuExits) -> u64 {
    let write = shape & RegisterAccess::WRITE != 0;
    let octets = (shape & !RegisterAccess::WRITE) as usize;
    let mut data = value.to_le_bytes();
    let Some(part) = data.get_mut(..octets).filter(|_| matches!(octets, 1 | 2 | 4 | 8)) else {
        exits.other.add(1);
        return u64::MAX;
    };
    if write {
        bus.write(address, part, exits);
        return value;
    }
    bus.read(address, part, exits);
    data.iter_mut().skip(octets).for_each(|octet| *octet = 0);
    u64::from_le_bytes(data)
}

/// Describes the end of a process that was not stopped.
fn describe_end(end: End) -> String {
    match end {
        End::Exit(code) => format!("the process left by itself with code {code}"),
        End::Signal(libc::SIGSYS) => {
            "the process was killed: it made a system call that is not for it".to_owned()
        }
        End::Signal(libc::SIGILL) => "the firmware stopped with SIGILL".to_owned(),
        End::Signal(libc::SIGSEGV) => {
            "the firmware touched memory that it does not have (SIGSEGV)".to_owned()
        }
        End::Signal(libc::SIGBUS) => {
            "the process found no memory where its RAM should be (SIGBUS)".to_owned()
        }
        End::Signal(libc::SIGKILL) => "the process was killed (SIGKILL)".to_owned(),
        End::Signal(signal) => format!("the process was ended by signal {signal}"),
        End::Unknown => "the process ended".to_owned(),
    }
}

#[cfg(test)]
mod tests;
