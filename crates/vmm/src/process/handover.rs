//! Gives a new process its memory and bells, and waits until it is confined.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::Ordering;

use anyhow::{Context, Result, anyhow, bail, ensure};
use bootinfo::MAX_VCPUS;
use bootinfo::process::{ANYWHERE, BELLS_A_MESSAGE, Bell, NAME_LEN, Report, Start, Step};

use super::{Child, Process};
use crate::doorbells;

/// Octets of a router's name before `/vcpu15`.
const SHORT_NAME: usize = NAME_LEN - 1 - "/vcpu15".len();

/// Hands over and waits for the answer.
pub(super) fn hand_over(process: &Process, child: &Child, cpus: &[u32]) -> Result<()> {
    let (machine, socket) = (process.machine(), &child.socket);
    let bells = machine.doorbells().take();
    let start = Start {
        magic: bootinfo::MAGIC,
        ram: machine.ram().len() as u64,
        fib: machine.fib().map_or(0, |fib| fib.len() as u64),
        vcpus: machine.vcpus() as u32,
        bells: bells.len() as u32,
        cpus: places(cpus),
        name: short(&child.name),
    };
    let mut descriptors = vec![machine.ram().file().context("RAM without a file")?.as_raw_fd()];
    if let Some(fib) = machine.fib() {
        descriptors.push(fib.file().context("a route table without a file")?.as_raw_fd());
    }
    descriptors.push(process.bell.as_raw_fd());
    send(socket, &[start], &descriptors)?;
    for lot in bells.chunks(BELLS_A_MESSAGE) {
        let events: Vec<RawFd> = lot.iter().map(AsRawFd::as_raw_fd).collect();
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

/// The beginning of a name; a letter that does not fit as a whole is left out.
fn short(name: &str) -> [u8; NAME_LEN] {
    let mut short = [0; NAME_LEN];
    let len = (0..=SHORT_NAME.min(name.len())).rev().find(|len| name.is_char_boundary(*len)).unwrap_or(0);
    short.iter_mut().zip(&name.as_bytes()[..len]).for_each(|(place, octet)| *place = *octet);
    short
}

/// Sends plain structures with descriptors.
fn send<T>(socket: &OwnedFd, data: &[T], descriptors: &[RawFd]) -> Result<()> {
    // Room for the header and for more descriptors than any message has; `u64` for its alignment.
    let mut control = [0u64; 32];
    let mut octets = libc::iovec { iov_base: data.as_ptr().cast_mut().cast(), iov_len: size_of_val(data) };
    let payload = size_of_val(descriptors) as u32;
    // SAFETY: computes a length.
    let space = unsafe { libc::CMSG_SPACE(payload) } as usize;
    ensure!(space <= size_of_val(&control), "{} descriptors do not fit a message", descriptors.len());
    // SAFETY: `msghdr` is plain data, for which all zeros are valid.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut octets;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = space;
    // SAFETY: the control buffer is large enough for one header and the descriptors (checked above), so the first
    // header is there and its data has room for them.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(payload) as usize;
        let place = libc::CMSG_DATA(header).cast::<RawFd>();
        std::ptr::copy_nonoverlapping(descriptors.as_ptr(), place, descriptors.len());
    }
    // SAFETY: every pointer in `message` is valid for its length.
    if unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) } < 0 {
        let error = io::Error::last_os_error();
        // It has gone already: what it said before is the reason.
        return receive(socket).and_then(judge).and(Err(error.into()));
    }
    Ok(())
}

fn wait_until_confined(process: &Process, socket: &OwnedFd) -> Result<()> {
    while !has_answered(process, socket)? {
        if process.machine().stop_sign().load(Ordering::Acquire) {
            bail!("it was told to stop before its process was confined");
        }
    }
    judge(receive(socket)?)
}

/// Waits until the process has said something or is gone, or somebody rings; whether it was the former.
fn has_answered(process: &Process, socket: &OwnedFd) -> Result<bool> {
    let entry = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let mut fds = [entry(socket.as_raw_fd()), entry(process.bell.as_raw_fd())];
    // SAFETY: two entries with open descriptors.
    let ready = unsafe { libc::poll(fds.as_mut_ptr(), 2, -1) };
    let error = io::Error::last_os_error();
    if ready < 0 && error.kind() != io::ErrorKind::Interrupted {
        return Err(error).context("cannot wait for the process");
    }
    let has_answered = ready > 0 && fds[0].revents != 0;
    if ready > 0 && !has_answered {
        // Nobody but who stops it rings before it is confined. Not rung: the read says so.
        let _ = process.bell.read();
    }
    Ok(has_answered)
}

/// What the process has said.
fn receive(socket: &OwnedFd) -> Result<Report> {
    let mut report = Report::default();
    let len = size_of::<Report>();
    // SAFETY: room for a report, which is two integers of any value.
    let got = unsafe {
        libc::recv(socket.as_raw_fd(), (&raw mut report).cast(), len, libc::MSG_DONTWAIT | libc::MSG_TRUNC)
    };
    match got {
        0 => bail!("the process ended before it was confined"),
        _ if got == len as isize => Ok(report),
        _ => bail!("the process answers with something that is no report"),
    }
}

/// A report as an error, if it is one.
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
