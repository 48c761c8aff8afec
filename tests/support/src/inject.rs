//! Makes a thread of another process execute a system call that its program never makes, like an intruder who has
//! taken over the thread.
#![allow(unsafe_code)]

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::ptr::{null_mut, without_provenance_mut};

use anyhow::{Context, Result, bail, ensure};
use libc::{c_int, c_void, pid_t, user_regs_struct};

use crate::process::{parent_of, threads_of};

/// The instruction `syscall`.
const SYSCALL: [u8; 2] = [0x0f, 0x05];
/// Wait status of a stop at a system call, with `PTRACE_O_TRACESYSGOOD`.
const AT_SYSCALL: c_int = libc::SIGTRAP | 0x80;
/// Most signals that may reach the thread before it stops at the call.
const MOST_SIGNALS: usize = 64;

/// Result of the injected call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Injected {
    /// The kernel executed the call, or refused it with a negative error number; the thread continues as before.
    Returned(i64),
    /// The call sent a signal (SIGSYS of a seccomp filter that traps) to the thread, which now handles it.
    Signalled(c_int),
    /// The thread was killed by this signal, alone or with its process.
    Killed(c_int),
}

/// Stops the thread of this name in process `pid`, makes it execute one system call, and lets it continue.
///
/// The thread may be anywhere: computing, asleep in the kernel, or in a guest. An interrupted blocking call is
/// restarted afterwards. Addresses among `args` are the other process's.
///
/// # Errors
/// There is not exactly one thread of this name, or it cannot be traced (rights; it has ended).
pub fn inject_syscall(pid: u32, thread: &str, number: i64, args: [u64; 6]) -> Result<Injected> {
    let named: Vec<u32> =
        threads_of(pid)?.into_iter().filter(|(_, name)| is_named(name, thread)).map(|(id, _)| id).collect();
    let [id] = named[..] else { bail!("{} threads named {thread} in process {pid}", named.len()) };
    let site = syscall_site(pid)?;
    let traced = Traced::stop(id.cast_signed())?;
    let before = traced.registers()?;
    let [rdi, rsi, rdx, r10, r8, r9] = args;
    // There is no interrupted call to be restarted: -1.
    let (rax, orig_rax) = (number.cast_unsigned(), u64::MAX);
    traced.set_registers(&user_regs_struct {
        rip: site,
        rax,
        orig_rax,
        rdi,
        rsi,
        rdx,
        r10,
        r8,
        r9,
        ..before
    })?;
    traced.call(&before)
}

/// The kernel keeps only 15 octets of a name.
fn is_named(name: &str, wanted: &str) -> bool {
    name == wanted.get(..15).unwrap_or(wanted)
}

/// Address of a `syscall` instruction in the process.
fn syscall_site(pid: u32) -> Result<u64> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let memory = File::open(format!("/proc/{pid}/mem"))?;
    // The vDSO is small and always contains one; a process without a vDSO has one in its program.
    let (first, rest): (Vec<_>, Vec<_>) = maps.lines().partition(|line| line.ends_with("[vdso]"));
    let code = first.into_iter().chain(rest).filter(|line| !line.ends_with("[vsyscall]"));
    for (from, to) in code.filter_map(executable) {
        let mut octets = vec![0; usize::try_from(to - from)?];
        if memory.read_exact_at(&mut octets, from).is_ok()
            && let Some(at) = octets.windows(2).position(|pair| pair == SYSCALL)
        {
            return Ok(from + at as u64);
        }
    }
    bail!("no system call instruction in process {pid}")
}

fn executable(line: &str) -> Option<(u64, u64)> {
    let mut words = line.split_whitespace();
    let (from, to) = words.next()?.split_once('-')?;
    let allowed = words.next()?.contains('x');
    allowed.then_some(())?;
    Some((u64::from_str_radix(from, 16).ok()?, u64::from_str_radix(to, 16).ok()?))
}

/// Thread that is stopped by us; it continues when this is dropped.
struct Traced {
    thread: pid_t,
}

impl Traced {
    fn stop(thread: pid_t) -> Result<Self> {
        let options = libc::PTRACE_O_TRACESYSGOOD as usize;
        ask(libc::PTRACE_SEIZE, thread, null_mut(), options).context("cannot trace the thread")?;
        let traced = Self { thread };
        ask(libc::PTRACE_INTERRUPT, thread, null_mut(), 0).context("cannot stop the thread")?;
        let status = traced.wait()?;
        ensure!(libc::WIFSTOPPED(status), "the thread has ended: {status:#x}");
        Ok(traced)
    }

    /// Waits until it stops or ends; returns the status of waitpid(2).
    fn wait(&self) -> Result<c_int> {
        loop {
            let mut status = 0;
            // SAFETY: the structure consists of plain numbers, for which 0 is a value.
            let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
            let what = libc::WEXITED | libc::WSTOPPED | libc::WNOWAIT | libc::__WALL;
            // SAFETY: `info` is a place for the answer, and outlives the call.
            let looked =
                unsafe { libc::waitid(libc::P_PID, self.thread.unsigned_abs(), &raw mut info, what) };
            if looked == 0
                && [libc::CLD_KILLED, libc::CLD_DUMPED].contains(&info.si_code)
                && self.is_our_child()
            {
                // The process that started it will wait for it.
                // SAFETY: waitid(2) has filled the part of a child that ended.
                return Ok(unsafe { info.si_status() });
            }
            // SAFETY: `status` is a place for the answer, and outlives the call.
            let waited = unsafe { libc::waitpid(self.thread, &raw mut status, libc::__WALL) };
            match io::Error::last_os_error() {
                _ if waited == self.thread => return Ok(status),
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => return Err(error).context("cannot wait for the thread"),
            }
        }
    }

    fn is_our_child(&self) -> bool {
        parent_of(self.thread.unsigned_abs()) == Some(std::process::id())
    }

    fn registers(&self) -> Result<user_regs_struct> {
        // SAFETY: the structure consists of plain numbers, for which 0 is a value.
        let mut registers: user_regs_struct = unsafe { std::mem::zeroed() };
        let place = (&raw mut registers).addr();
        // The kernel writes through an exposed address.
        let _ = (&raw mut registers).expose_provenance();
        ask(libc::PTRACE_GETREGS, self.thread, null_mut(), place).context("cannot read registers")?;
        Ok(registers)
    }

    fn set_registers(&self, registers: &user_regs_struct) -> Result<()> {
        let place = std::ptr::from_ref(registers).expose_provenance();
        ask(libc::PTRACE_SETREGS, self.thread, null_mut(), place).context("cannot write registers")
    }

    /// Lets it run into the call and out of it.
    fn call(&self, before: &user_regs_struct) -> Result<Injected> {
        let (mut signal, mut entered) = (0, false);
        for _ in 0..MOST_SIGNALS {
            ask(libc::PTRACE_SYSCALL, self.thread, null_mut(), signal as usize)?;
            let status = self.wait()?;
            signal = 0;
            match libc::WSTOPSIG(status) {
                _ if libc::WIFSIGNALED(status) => return Ok(Injected::Killed(libc::WTERMSIG(status))),
                _ if libc::WIFEXITED(status) => bail!("the thread ended by itself: {status:#x}"),
                AT_SYSCALL if !entered => entered = true,
                AT_SYSCALL => return self.returned(before),
                // A stop of the tracing itself has its event number above the signal.
                stopped if status >> 16 == 0 => signal = stopped,
                _ => {}
            }
        }
        bail!("{MOST_SIGNALS} signals before the call was made")
    }

    fn returned(&self, before: &user_regs_struct) -> Result<Injected> {
        if self.has_pending(libc::SIGSYS)? {
            // The handler sees the thread at the point of the call.
            return Ok(Injected::Signalled(libc::SIGSYS));
        }
        let result = self.registers()?.rax.cast_signed();
        self.set_registers(&made_again(*before))?;
        Ok(Injected::Returned(result))
    }

    fn has_pending(&self, signal: c_int) -> Result<bool> {
        let text = fs::read_to_string(format!("/proc/{}/status", self.thread))?;
        let mask = text.lines().find_map(|line| line.strip_prefix("SigPnd:")).context("no SigPnd")?;
        Ok(u64::from_str_radix(mask.trim(), 16)? >> (signal - 1) & 1 == 1)
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        // It may have been killed meanwhile.
        let _ = ask(libc::PTRACE_DETACH, self.thread, null_mut(), 0);
    }
}

/// Restores a call that the stop has interrupted and that the kernel would have restarted by itself.
fn made_again(registers: user_regs_struct) -> user_regs_struct {
    // ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND, ERESTART_RESTARTBLOCK: never visible to programs.
    let restarts = [-512, -513, -514, -516].contains(&registers.rax.cast_signed());
    if registers.orig_rax.cast_signed() < 0 || !restarts {
        return registers;
    }
    user_regs_struct { rip: registers.rip - 2, rax: registers.orig_rax, orig_rax: u64::MAX, ..registers }
}

fn ask(request: libc::c_uint, thread: pid_t, address: *mut c_void, data: usize) -> Result<()> {
    // SAFETY: the only request that writes to this process is PTRACE_GETREGS, and its caller passes the address of
    // a whole register structure that is not used otherwise meanwhile.
    let done = unsafe { libc::ptrace(request, thread, address, without_provenance_mut::<c_void>(data)) };
    if done == -1 { Err(io::Error::last_os_error().into()) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
