//! Classes of threads, and the system calls allowed to each.
//!
//! The lists were found by running every engine and attachment under strace(1), and by reading what the C
//! library does on its own: a thread that frees memory may trim its heap, one that panics writes a message
//! and unwinds.

use crate::ioctl;
use crate::rules::{Allowed, any, flags_clear, one_of, other_than};

/// Purpose of a thread, which determines its allowed system calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Creates a vCPU and then enters one of the next two classes; no guest has run yet.
    NewVcpu,
    /// Runs a guest: KVM_RUN, and the effects of the guest's register accesses.
    Vcpu,
    /// Runs a guest whose register accesses may hand rings to vhost-net.
    VcpuVhostNet,
    /// Moves frames between ports.
    Vhost,
    /// Keeps time and writes captures.
    Clock,
    /// Serves register accesses of a router that runs as a process.
    Bus,
    /// vhost-user backend: is the device of other programs' virtual machines, talks to these programs, and
    /// maps their memory.
    Backend,
    /// vhost-user frontend: talks to a peer that is handed a NIC's rings, and forwards its interrupts.
    Peer,
    /// Builds, changes and removes routers, and answers the supervisor. Every other class is a subset of this
    /// one.
    Control,
}

impl Class {
    /// All classes.
    pub const ALL: [Self; 9] = [
        Self::NewVcpu,
        Self::Vcpu,
        Self::VcpuVhostNet,
        Self::Vhost,
        Self::Clock,
        Self::Bus,
        Self::Backend,
        Self::Peer,
        Self::Control,
    ];

    /// Name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NewVcpu => "vcpu-new",
            Self::Vcpu => "vcpu",
            Self::VcpuVhostNet => "vcpu-vhost-net",
            Self::Vhost => "vhost",
            Self::Clock => "clock",
            Self::Bus => "bus",
            Self::Backend => "backend",
            Self::Peer => "peer",
            Self::Control => "control",
        }
    }

    /// Calls that are executed; others may be answered by an error (see [`refused`] and [`ABSENT`]).
    pub(crate) fn allowed(self) -> Vec<Allowed> {
        let mut calls = every_thread();
        calls.extend(match self {
            Self::Control => control(),
            Self::NewVcpu => new_vcpu(),
            Self::Vcpu => vcpu(&ioctl::of_vcpu()),
            Self::VcpuVhostNet => vcpu(&ioctl::of_vcpu_with_vhost_net()),
            Self::Vhost => vhost(),
            Self::Clock => thread_of_its_own(),
            Self::Bus => bus(),
            Self::Backend => backend(),
            Self::Peer => peer(),
        });
        calls
    }
}

/// Calls of every thread: I/O on open descriptors, sleeping, the heap, the end of a thread, and a panic's
/// message.
fn every_thread() -> Vec<Allowed> {
    let mut calls: Vec<_> = [
        libc::SYS_read,
        libc::SYS_write,
        libc::SYS_readv,
        libc::SYS_writev,
        libc::SYS_poll,
        libc::SYS_ppoll,
        libc::SYS_futex,
        libc::SYS_close,
        libc::SYS_munmap,
        libc::SYS_mremap,
        libc::SYS_madvise,
        libc::SYS_brk,
        libc::SYS_sched_yield,
        // The C library limits its number of heaps by that of CPUs.
        libc::SYS_sched_getaffinity,
        libc::SYS_clock_gettime,
        libc::SYS_clock_nanosleep,
        libc::SYS_nanosleep,
        libc::SYS_restart_syscall,
        libc::SYS_getrandom,
        libc::SYS_getpid,
        libc::SYS_gettid,
        libc::SYS_rt_sigreturn,
        libc::SYS_rt_sigprocmask,
        libc::SYS_sigaltstack,
        libc::SYS_exit,
        libc::SYS_exit_group,
        libc::SYS_fstat,
    ]
    .into_iter()
    .chain(QUESTIONS_OF_PATHS)
    .map(any)
    .collect();
    calls.push(flags_clear(libc::SYS_mprotect, 2, libc::PROT_EXEC));
    // Signals only to threads of this process: to get vCPUs out of their guest, and for abort(3).
    calls.push(one_of(libc::SYS_tgkill, 0, &[u64::from(std::process::id())]));
    calls
}

/// Calls of all classes but control, beyond those of every thread.
fn thread_of_its_own() -> Vec<Allowed> {
    let (anonymous, exec) = (libc::MAP_ANONYMOUS, libc::PROT_EXEC);
    vec![
        // Anonymous memory only, no files.
        any(libc::SYS_mmap).and_masked(2, exec, 0).and_masked(3, anonymous, anonymous),
        one_of(libc::SYS_prctl, 0, &[libc::PR_GET_NAME as u64]),
        // Debug builds check whether a descriptor is open before they close it.
        one_of(libc::SYS_fcntl, 1, &[libc::F_GETFD as u64]),
        // abort(3), and a crash that the standard library's handler has examined, reset the handler before
        // they end the process.
        one_of(libc::SYS_rt_sigaction, 0, &ENDS),
        // Files that the C library and a panic's backtrace open on their own.
        one_of(libc::SYS_openat, 2, &[(libc::O_RDONLY | libc::O_CLOEXEC) as u64]),
    ]
}

const ENDS: [u64; 3] = [libc::SIGABRT as u64, libc::SIGSEGV as u64, libc::SIGBUS as u64];

/// A thread that creates its own vCPU, maps the page shared with the kernel, and enters the filter that
/// forbids both.
fn new_vcpu() -> Vec<Allowed> {
    let mut calls = vcpu(&ioctl::of_new_vcpu());
    let own = [libc::SYS_mmap, libc::SYS_prctl];
    calls.retain(|call| !own.iter().any(|own| call.is(*own)));
    calls.push(flags_clear(libc::SYS_mmap, 2, libc::PROT_EXEC));
    calls.push(one_of(libc::SYS_seccomp, 0, &[u64::from(libc::SECCOMP_SET_MODE_FILTER)]));
    calls.push(one_of(libc::SYS_prctl, 0, &[libc::PR_GET_NAME as u64, libc::PR_SET_NO_NEW_PRIVS as u64]));
    calls
}

/// Requests to KVM and to the devices behind NICs, timers for their interrupts, and wake-ups of AF_XDP.
fn vcpu(requests: &[u64]) -> Vec<Allowed> {
    let mut calls = thread_of_its_own();
    calls.push(one_of(libc::SYS_ioctl, 1, requests));
    calls.push(any(libc::SYS_timerfd_settime));
    calls.extend(wake_ups());
    calls
}

/// Moving frames, raising interrupt pins of the receiving NICs, and timers for their interrupts.
fn vhost() -> Vec<Allowed> {
    let mut calls = thread_of_its_own();
    calls.extend(serving());
    // For doorbells watched by descriptors that belong to others.
    calls.push(any(libc::SYS_epoll_wait));
    calls.push(one_of(libc::SYS_getsockopt, 1, &[libc::SOL_SOCKET as u64]).and_masked(2, !0, MEMINFO));
    calls
}

/// `SO_MEMINFO` of `asm-generic/socket.h`: how many octets wait at a socket.
const MEMINFO: i32 = 55;

/// Possible effects of both a NIC's register access and a frame.
fn serving() -> [Allowed; 4] {
    let [send, receive] = wake_ups();
    [one_of(libc::SYS_ioctl, 1, &ioctl::while_serving()), any(libc::SYS_timerfd_settime), send, receive]
}

/// Making the kernel process the rings of an AF_XDP socket, and sending and receiving datagrams of a tunnel:
/// calls that never block and carry no address. On any other socket they can do no more than write(2) and
/// read(2); sendmsg(2) and sendmmsg(2) could carry any address, which filters cannot see.
fn wake_ups() -> [Allowed; 2] {
    [libc::SYS_sendto, libc::SYS_recvfrom]
        .map(|call| one_of(call, 3, &[libc::MSG_DONTWAIT as u64]).and_null(ADDRESS))
}

/// Index of the address argument of sendto(2) and recvfrom(2).
const ADDRESS: u8 = 4;

/// Register accesses of the served process, and its end.
fn bus() -> Vec<Allowed> {
    let mut calls = thread_of_its_own();
    calls.extend(serving());
    calls.extend(processes());
    calls
}

/// Messages with descriptors on sockets that exist or that others connect to; no socket(2), connect(2) or
/// bind(2).
fn peer() -> Vec<Allowed> {
    let mut calls = thread_of_its_own();
    calls.retain(|call| !call.is(libc::SYS_fcntl));
    calls.push(one_of(libc::SYS_fcntl, 1, &[libc::F_GETFD as u64, libc::F_DUPFD_CLOEXEC as u64]));
    calls.extend(messages().map(any));
    // Requests for a connection.
    calls.push(any(libc::SYS_sendto).and_null(ADDRESS));
    // Reads events of a descriptor that a peer shares, without blocking.
    calls.push(any(libc::SYS_preadv2));
    calls.push(who_is_there());
    calls
}

/// Reading the credentials of a connection's peer.
fn who_is_there() -> Allowed {
    one_of(libc::SYS_getsockopt, 1, &[libc::SOL_SOCKET as u64]).and_masked(2, !0, libc::SO_PEERCRED)
}

/// Calls on connections.
fn messages() -> [i64; 4] {
    [libc::SYS_sendmsg, libc::SYS_recvmsg, libc::SYS_accept4, libc::SYS_shutdown]
}

/// Killing processes of routers by descriptors that the supervisor has handed over, and waiting for their
/// end.
fn processes() -> [Allowed; 2] {
    [
        one_of(libc::SYS_pidfd_send_signal, 1, &[libc::SIGKILL as u64]),
        one_of(libc::SYS_waitid, 0, &[libc::P_PIDFD as u64]),
    ]
}

/// Peers that connect to our socket, their messages, the memory and event descriptors that they send, and the
/// handler for revoked memory.
fn backend() -> Vec<Allowed> {
    let mut calls = thread_of_its_own();
    let own = [libc::SYS_mmap, libc::SYS_rt_sigaction, libc::SYS_fcntl];
    calls.retain(|call| !own.iter().any(|own| call.is(*own)));
    calls.extend([libc::SYS_accept4, libc::SYS_recvmsg, libc::SYS_epoll_ctl].map(any));
    calls.extend([
        who_is_there(),
        // Replies consist of octets, without descriptors.
        any(libc::SYS_sendto).and_null(ADDRESS),
        flags_clear(libc::SYS_mmap, 2, libc::PROT_EXEC),
        one_of(libc::SYS_rt_sigaction, 0, &ENDS),
        one_of(libc::SYS_fcntl, 1, &BACKEND_FCNTL),
    ]);
    calls
}

/// Duplicating event descriptors; checking whether a file is sealed memory.
const BACKEND_FCNTL: [u64; 3] =
    [libc::F_GETFD as u64, libc::F_DUPFD_CLOEXEC as u64, libc::F_GET_SEALS as u64];

/// clone(2) flags for namespaces and tracing, which a thread must not use.
const CLONE_BEYOND_A_THREAD: i32 = libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_VFORK
    | libc::CLONE_PTRACE
    | libc::CLONE_UNTRACED;

/// Calls to create and remove virtual machines, memory, doorbells and threads, and to communicate on the
/// link.
fn control() -> Vec<Allowed> {
    let mut calls: Vec<_> = [
        // Statistics of a socket.
        libc::SYS_getsockopt,
        // Shared memory and doorbells.
        libc::SYS_memfd_create,
        libc::SYS_ftruncate,
        libc::SYS_fallocate,
        libc::SYS_lseek,
        libc::SYS_eventfd2,
        libc::SYS_epoll_create1,
        libc::SYS_epoll_ctl,
        libc::SYS_epoll_wait,
        // Timers of interrupts.
        libc::SYS_timerfd_create,
        libc::SYS_timerfd_settime,
        // Starting threads.
        libc::SYS_clone3,
        libc::SYS_set_robust_list,
        libc::SYS_rseq,
        libc::SYS_openat,
        // Events of descriptors that peers share, read without blocking.
        libc::SYS_preadv2,
        // A device that replaces a deleted one takes over its descriptor's number.
        libc::SYS_dup3,
    ]
    .into_iter()
    .chain(messages())
    .map(any)
    .collect();
    let thread = libc::CLONE_THREAD;
    calls.extend([
        one_of(libc::SYS_ioctl, 1, &ioctl::set_up()),
        flags_clear(libc::SYS_mmap, 2, libc::PROT_EXEC),
        any(libc::SYS_clone).and_masked(0, thread | CLONE_BEYOND_A_THREAD, thread),
        other_than(libc::SYS_rt_sigaction, 0, libc::SIGSYS as u64),
        one_of(libc::SYS_seccomp, 0, &[u64::from(libc::SECCOMP_SET_MODE_FILTER)]),
        one_of(libc::SYS_prctl, 0, &PRCTL),
        one_of(libc::SYS_fcntl, 1, &FCNTL),
    ]);
    // Only to the peer of a connection. There is no socket(2).
    calls.extend([libc::SYS_sendto, libc::SYS_recvfrom].map(|call| any(call).and_null(ADDRESS)));
    calls.extend(processes());
    calls
}

/// Names of threads, and the step before entering a filter.
const PRCTL: [u64; 3] =
    [libc::PR_SET_NAME as u64, libc::PR_GET_NAME as u64, libc::PR_SET_NO_NEW_PRIVS as u64];

/// Duplicates and flags of descriptors, seals of shared memory. Flags of an open file description stay, since
/// other processes may share it.
const FCNTL: [u64; 6] = [
    libc::F_GETFD as u64,
    libc::F_SETFD as u64,
    libc::F_GETFL as u64,
    libc::F_DUPFD_CLOEXEC as u64,
    libc::F_ADD_SEALS as u64,
    libc::F_GET_SEALS as u64,
];

/// Calls that query a path, or the kind of a descriptor.
const QUESTIONS_OF_PATHS: [i64; 6] = [
    libc::SYS_getcwd,
    libc::SYS_readlink,
    libc::SYS_readlinkat,
    libc::SYS_access,
    libc::SYS_statx,
    libc::SYS_newfstatat,
];

/// Calls answered by EACCES: all that take a path. Querying an open descriptor is allowed.
pub(crate) fn refused() -> Vec<Allowed> {
    let descriptor = libc::AT_EMPTY_PATH;
    let mut calls: Vec<_> = QUESTIONS_OF_PATHS
        .into_iter()
        .filter(|call| ![libc::SYS_statx, libc::SYS_newfstatat].contains(call))
        .chain([libc::SYS_openat])
        .map(any)
        .collect();
    calls.push(flags_clear(libc::SYS_statx, 2, descriptor));
    calls.push(flags_clear(libc::SYS_newfstatat, 3, descriptor));
    calls
}

/// Call answered by ENOSYS.
pub(crate) const ABSENT: i64 = libc::SYS_clone3;

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread's filter adds to that of the thread that has started it; whatever either of them refuses is
    /// refused.
    #[test]
    fn no_class_has_a_call_that_control_has_not() {
        let control: Vec<i64> = calls(Class::Control).collect();
        for class in Class::ALL {
            for call in calls(class) {
                assert!(control.contains(&call), "{}: call {call}", class.name());
            }
        }
    }

    fn calls(class: Class) -> impl Iterator<Item = i64> {
        let allowed = class.allowed().into_iter();
        allowed.filter_map(|allowed| allowed.rules().ok()).map(|(call, _)| call)
    }
}
