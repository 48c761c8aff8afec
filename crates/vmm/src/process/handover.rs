//! Hands a new process its memory and doorbells, and waits until it is confined.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::{io, slice};

use anyhow::{Context, Result, anyhow, bail};
use bootinfo::MAX_VCPUS;
use bootinfo::process::{ANYWHERE, BELLS_A_MESSAGE, Bell, NAME_LEN, Report, Start, Step};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv};

use super::{Child, Process, borrow};
use crate::doorbells;
use crate::machine::GroupMemory;

/// Maximum octets of a router's name before `/vcpu15`.
const SHORT_NAME: usize = NAME_LEN - 1 - "/vcpu15".len();

/// Hands everything over and waits for the answer.
pub(super) fn hand_over(process: &Process, child: &Child, cpus: &[u32]) -> Result<()> {
    let (machine, socket) = (process.machine(), &child.socket);
    let bells = machine.doorbells().take();
    let start = Start {
        magic: bootinfo::MAGIC,
        ram: machine.ram().len() as u64,
        fib: machine.fib().map_or(0, |fib| fib.len() as u64),
        group_neighbours: machine.group().map_or(0, |group| group.neighbours.len() as u64),
        vcpus: machine.vcpus() as u32,
        bells: bells.len() as u32,
        cpus: places(cpus),
        name: short(&child.name),
    };
    let mut descriptors = vec![machine.ram().file().context("RAM without a file")?.as_fd()];
    if let Some(fib) = machine.fib() {
        descriptors.push(fib.file().context("a route table without a file")?.as_fd());
    }
    if let Some(GroupMemory { neighbours, desk }) = machine.group() {
        let files =
            [neighbours.file(), desk.file()].map(|file| file.context("memory of a group without a file"));
        for file in files {
            descriptors.push(file?.as_fd());
        }
    }
    descriptors.push(borrow(&process.bell));
    send(socket, &[start], &descriptors)?;
    for lot in bells.chunks(BELLS_A_MESSAGE) {
        let events: Vec<_> = lot.iter().map(|bell| borrow(&bell.event)).collect();
        let lot: Vec<Bell> = lot.iter().map(wire_form).collect();
        send(socket, &lot, &events)?;
    }
    wait_until_confined(process, socket)
}

fn wire_form(bell: &doorbells::Bell) -> Bell {
    Bell { slot: bell.slot, queue: bell.queue }
}

fn places(cpus: &[u32]) -> [u32; MAX_VCPUS] {
    let mut places = [ANYWHERE; MAX_VCPUS];
    places.iter_mut().zip(cpus).for_each(|(place, cpu)| *place = *cpu);
    places
}

/// Returns the beginning of a name, cut at a character boundary.
fn short(name: &str) -> [u8; NAME_LEN] {
    let mut short = [0; NAME_LEN];
    let len = (0..=SHORT_NAME.min(name.len())).rev().find(|len| name.is_char_boundary(*len)).unwrap_or(0);
    short.iter_mut().zip(&name.as_bytes()[..len]).for_each(|(place, octet)| *place = *octet);
    short
}

/// Sends plain structures with descriptors.
fn send<T>(socket: &OwnedFd, data: &[T], descriptors: &[BorrowedFd<'_>]) -> Result<()> {
    // SAFETY: only `Start` and `Bell` are sent here, integers without padding between or behind them: all of
    // their octets may be read, for as long as `data` is borrowed.
    let octets = unsafe { slice::from_raw_parts(data.as_ptr().cast::<u8>(), size_of_val(data)) };
    match fd_passing::send(socket, octets, descriptors, SendFlags::empty()) {
        Ok(_) => Ok(()),
        // It has ended already: its earlier report gives the reason.
        Err(error) => receive(socket).and_then(judge).and(Err(error.into())),
    }
}

fn wait_until_confined(process: &Process, socket: &OwnedFd) -> Result<()> {
    while !has_answered(process, socket)? {
        if process.machine().stop_sign().load(Ordering::Acquire) {
            bail!("it was told to stop before its process was confined");
        }
    }
    judge(receive(socket)?)
}

/// Waits until the process has sent a report or ended, or the bell is rung; returns true in the first two
/// cases.
fn has_answered(process: &Process, socket: &OwnedFd) -> Result<bool> {
    let fds = [socket.as_fd(), borrow(&process.bell)];
    let mut fds = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    match poll(&mut fds, None) {
        Ok(_) if !fds[0].revents().is_empty() => return Ok(true),
        // Before the process is confined, only a request to stop rings the bell. If it was not rung the read
        // fails, harmlessly.
        Ok(_) => _ = process.bell.read(),
        Err(Errno::INTR) => {}
        Err(error) => return Err(error).context("cannot wait for the process"),
    }
    Ok(false)
}

/// Receives the report of the process.
fn receive(socket: &OwnedFd) -> Result<Report> {
    let mut said = [[0; 4]; 2];
    match recv(socket, said.as_flattened_mut(), RecvFlags::DONTWAIT | RecvFlags::TRUNC) {
        Ok((_, 0)) => bail!("the process ended before it was confined"),
        Ok((_, len)) if len == size_of::<Report>() => {
            let [step, error] = said.map(u32::from_ne_bytes);
            Ok(Report { step, error })
        }
        _ => bail!("the process answers with something that is no report"),
    }
}

/// Turns a report into an error, unless it reports success.
fn judge(report: Report) -> Result<()> {
    let step = Step::from_number(report.step).context("the process reports a step that there is none of")?;
    let what = match step {
        Step::Ready => return Ok(()),
        Step::Tie => "cannot be tied to its parent",
        Step::Descriptors => "cannot arrange its descriptors",
        Step::Limits => "cannot limit its resources",
        Step::Root => {
            "cannot leave the host's files behind: it needs a user namespace with rights \
             (sysctl kernel.apparmor_restrict_unprivileged_userns=0 where that exists) and no chroot"
        }
        Step::Privileges => "cannot give up its privileges",
        Step::Exec => "cannot start the firmware (is sysctl vm.memfd_noexec 2?)",
        Step::Orders => "does not understand its orders",
        Step::Memory => "cannot map its memory",
        Step::Cpu => "cannot run on the CPU that `pin` gives it: not there, or not allowed",
        Step::Thread => "cannot start a thread for a vCPU: raise ulimit -u or the cgroup's pids.max",
        Step::User => "cannot become a user without rights",
        Step::Filter => "cannot enter its system call filter: the kernel lacks seccomp",
    };
    match report.error {
        0 => Err(anyhow!("the process {what}")),
        error => Err(anyhow!("the process {what} ({})", io::Error::from_raw_os_error(error as i32))),
    }
}

#[cfg(test)]
mod tests;
