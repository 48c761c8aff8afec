//! The classes of threads, and what each may ask of the kernel.
//!
//! The lists were found by running every engine and attachment under strace(1), and by reading what the C library
//! does by itself: a thread that frees memory may trim its heap, one that panics writes a message and unwinds.

use crate::ioctl;
use crate::rules::{Allowed, any, flags_clear, one_of, other_than};

/// What a thread is for, and so what it may ask of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Makes a vCPU, and then becomes one of the next two: no guest has run yet.
    NewVcpu,
    /// Runs a guest: KVM_RUN, and what a register access of the guest leads to.
    Vcpu,
    /// Runs a guest whose register accesses may hand rings to vhost-net.
    VcpuVhostNet,
    /// Moves frames between ports.
    Vhost,
    /// Keeps time and writes captures.
    Clock,
    /// Serves register accesses of a router that is a process.
    Bus,
    /// Is the device of other programs' virtual machines: talks with them, and maps their memory.
    Backend,
    /// Speaks with a peer of vhost-user that is handed a NIC's rings, and passes its interrupts on.
    Peer,
    /// Builds, changes and takes down routers, and answers the supervisor. Every other class is a subset of it.
    Control,
}

impl Class {
    /// All of them.
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

    /// Its name in messages.
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

    /// The calls that are carried out, and those that are answered by an error (see [`refused`] and [`ABSENT`]).
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

/// Moving octets, sleeping, the heap, a thread's end, and a panic's message.
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
        // The C library makes as many heaps as there are CPUs.
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
    // Signals only to threads of this process: vCPUs out of their guest, abort(3).
    calls.push(one_of(libc::SYS_tgkill, 0, &[u64::from(std::process::id())]));
    calls
}

/// What all classes but control have beyond that.
fn thread_of_its_own() -> Vec<Allowed> {
    let (anonymous, exec) = (libc::MAP_ANONYMOUS, libc::PROT_EXEC);
    vec![
        // Memory of its own, and nobody's file.
        any(libc::SYS_mmap).and_masked(2, exec, 0).and_masked(3, anonymous, anonymous),
        one_of(libc::SYS_prctl, 0, &[libc::PR_GET_NAME as u64]),
        // Debug builds look whether a descriptor is open before they close it.
        one_of(libc::SYS_fcntl, 1, &[libc::F_GETFD as u64]),
        // How abort(3) and a crash that the standard library has looked at end: by the handler taken away.
        one_of(libc::SYS_rt_sigaction, 0, &ENDS),
        // What the C library and a panic's backtrace open by themselves.
        one_of(libc::SYS_openat, 2, &[(libc::O_RDONLY | libc::O_CLOEXEC) as u64]),
    ]
}

const ENDS: [u64; 3] = [libc::SIGABRT as u64, libc::SIGSEGV as u64, libc::SIGBUS as u64];

/// A vCPU that its own thread makes, the page that it shares with the kernel, and the filter that takes both away.
fn new_vcpu() -> Vec<Allowed> {
    let mut calls = vcpu(&ioctl::of_new_vcpu());
    let own = [libc::SYS_mmap, libc::SYS_prctl];
    calls.retain(|call| !own.iter().any(|own| call.is(*own)));
    calls.push(flags_clear(libc::SYS_mmap, 2, libc::PROT_EXEC));
    calls.push(one_of(libc::SYS_seccomp, 0, &[u64::from(libc::SECCOMP_SET_MODE_FILTER)]));
    calls.push(one_of(libc::SYS_prctl, 0, &[libc::PR_GET_NAME as u64, libc::PR_SET_NO_NEW_PRIVS as u64]));
    calls
}

/// Requests to KVM and what is behind NICs, timers of their interrupts, and wake-ups of AF_XDP.
fn vcpu(requests: &[u64]) -> Vec<Allowed> {
    let mut calls = thread_of_its_own();
    calls.push(one_of(libc::SYS_ioctl, 1, requests));
    calls.push(any(libc::SYS_timerfd_settime));
    calls.extend(wake_ups());
    calls
}

/// Frames, the pins of those that they come to, and timers of their interrupts.
fn vhost() -> Vec<Allowed> {
    let mut calls = thread_of_its_own();
    calls.extend(serving());
    // Doorbells that are watched by somebody else's descriptors.
    calls.push(any(libc::SYS_epoll_wait));
    calls
}

/// What an access to a NIC's registers may lead to as well as a frame.
fn serving() -> [Allowed; 4] {
    let [send, receive] = wake_ups();
    [one_of(libc::SYS_ioctl, 1, &ioctl::while_serving()), any(libc::SYS_timerfd_settime), send, receive]
}

/// Having the kernel look at the rings of an AF_XDP socket, and datagrams of a tunnel: calls that wait for nothing and name nobody.
/// They could say no more on any other socket than write(2) and read(2); sendmsg(2) and sendmmsg(2) could name anybody, where no
/// filter looks.
fn wake_ups() -> [Allowed; 2] {
    [libc::SYS_sendto, libc::SYS_recvfrom]
        .map(|call| one_of(call, 3, &[libc::MSG_DONTWAIT as u64]).and_null(ADDRESS))
}

/// Which argument of sendto(2) and recvfrom(2) is the address of the other side.
const ADDRESS: u8 = 4;

/// The accesses of the process that it serves, and its end.
fn bus() -> Vec<Allowed> {
    let mut calls = thread_of_its_own();
    calls.extend(serving());
    calls.extend(processes());
    calls
}

/// Messages with descriptors on sockets that are there or that somebody connects to; there is no socket(2), connect(2) or
/// bind(2).
fn peer() -> Vec<Allowed> {
    let mut calls = thread_of_its_own();
    calls.retain(|call| !call.is(libc::SYS_fcntl));
    calls.push(one_of(libc::SYS_fcntl, 1, &[libc::F_GETFD as u64, libc::F_DUPFD_CLOEXEC as u64]));
    calls.extend(messages().map(any));
    // Asking for a connection.
    calls.push(any(libc::SYS_sendto).and_null(ADDRESS));
    // Reading events that a peer shares, without waiting for one.
    calls.push(any(libc::SYS_preadv2));
    calls.push(who_is_there());
    calls
}

/// Asking who is at the other end of a connection.
fn who_is_there() -> Allowed {
    one_of(libc::SYS_getsockopt, 1, &[libc::SOL_SOCKET as u64]).and_masked(2, !0, libc::SO_PEERCRED)
}

/// Of connections.
fn messages() -> [i64; 4] {
    [libc::SYS_sendmsg, libc::SYS_recvmsg, libc::SYS_accept4, libc::SYS_shutdown]
}

/// Ending processes of routers, by descriptors that the supervisor handed over, and hearing of their end.
fn processes() -> [Allowed; 2] {
    [
        one_of(libc::SYS_pidfd_send_signal, 1, &[libc::SIGKILL as u64]),
        one_of(libc::SYS_waitid, 0, &[libc::P_PIDFD as u64]),
    ]
}

/// Peers that come to a socket of ours, what they say, the memory and the bells that they send, and the handler of a memory
/// that is taken away.
fn backend() -> Vec<Allowed> {
    let mut calls = thread_of_its_own();
    let own = [libc::SYS_mmap, libc::SYS_rt_sigaction, libc::SYS_fcntl];
    calls.retain(|call| !own.iter().any(|own| call.is(*own)));
    calls.extend([libc::SYS_accept4, libc::SYS_recvmsg, libc::SYS_epoll_ctl].map(any));
    calls.extend([
        who_is_there(),
        // Answers have octets and no descriptors.
        any(libc::SYS_sendto).and_null(ADDRESS),
        flags_clear(libc::SYS_mmap, 2, libc::PROT_EXEC),
        one_of(libc::SYS_rt_sigaction, 0, &ENDS),
        one_of(libc::SYS_fcntl, 1, &BACKEND_FCNTL),
    ]);
    calls
}

/// Copies of bells; whether a file is memory.
const BACKEND_FCNTL: [u64; 3] =
    [libc::F_GETFD as u64, libc::F_DUPFD_CLOEXEC as u64, libc::F_GET_SEALS as u64];

/// Namespaces, and what a thread shares with its maker's tracer: nothing of it may be asked of clone(2).
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

/// What it takes to make and remove virtual machines, memory, doorbells and threads, and to talk on the link.
fn control() -> Vec<Allowed> {
    let mut calls: Vec<_> = [
        // What the kernel counts for a socket.
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
        // Threads that begin.
        libc::SYS_clone3,
        libc::SYS_set_robust_list,
        libc::SYS_rseq,
        libc::SYS_openat,
        // Events that peers share, read without waiting for one.
        libc::SYS_preadv2,
        // A device in the place of a deleted one takes its descriptor's number.
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
    // To nobody but the other end of a connection. There is no socket(2).
    calls.extend([libc::SYS_sendto, libc::SYS_recvfrom].map(|call| any(call).and_null(ADDRESS)));
    calls.extend(processes());
    calls
}

/// A thread's name, and what goes before a filter.
const PRCTL: [u64; 3] =
    [libc::PR_SET_NAME as u64, libc::PR_GET_NAME as u64, libc::PR_SET_NO_NEW_PRIVS as u64];

/// Copies and flags of descriptors, seals of shared memory. No flags of an open file are changed: others may have it too.
const FCNTL: [u64; 6] = [
    libc::F_GETFD as u64,
    libc::F_SETFD as u64,
    libc::F_GETFL as u64,
    libc::F_DUPFD_CLOEXEC as u64,
    libc::F_ADD_SEALS as u64,
    libc::F_GET_SEALS as u64,
];

/// What asks for a path, or for what a descriptor is.
const QUESTIONS_OF_PATHS: [i64; 6] = [
    libc::SYS_getcwd,
    libc::SYS_readlink,
    libc::SYS_readlinkat,
    libc::SYS_access,
    libc::SYS_statx,
    libc::SYS_newfstatat,
];

/// Calls that are answered by EACCES: everything that takes a path. What a descriptor is may be asked.
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

/// The call that is answered by ENOSYS.
pub(crate) const ABSENT: i64 = libc::SYS_clone3;

#[cfg(test)]
mod tests {
    use super::*;

    /// The filter of a thread stands on that of the thread that has started it, and what one of them refuses is refused.
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
