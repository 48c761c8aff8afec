//! Calls that no class may make, or only control. Each is harmless where it is carried out after all.

use libc::{c_long, syscall};
use sandbox::Class;

/// A trial's name is the call's, and what it asks for.
pub(crate) const NAMES: [&str; 40] = [
    "socket",
    "socketpair",
    "connect",
    "bind",
    "accept4",
    "execve",
    "execveat",
    "openat-create",
    "openat2",
    "open",
    "unlink",
    "mkdir",
    "mount",
    "unshare",
    "setns",
    "chroot",
    "ptrace",
    "process_vm_writev",
    "process_vm_readv",
    "kill",
    "tgkill-other",
    "bpf",
    "perf_event_open",
    "io_uring_setup",
    "userfaultfd",
    "mprotect-exec",
    "mmap-exec",
    "setuid",
    "capset",
    "clone-process",
    "clone-namespace",
    "fork",
    "ioctl-sti",
    "ioctl-tun",
    "prctl-dumpable",
    "rt_sigaction-sys",
    "pidfd_open",
    "pidfd_getfd",
    "init_module",
    "settimeofday",
];

/// Whether the class may not: control may create files no more than others, but is told so by an error.
pub(crate) fn is_forbidden(class: Class, name: &str) -> bool {
    class != Class::Control || name != "openat-create"
}

/// What makes the call, and returns what the kernel did.
pub(crate) fn call(name: &str) -> Option<fn() -> c_long> {
    files(name).or_else(|| processes(name)).or_else(|| kernel(name))
}

fn files(name: &str) -> Option<fn() -> c_long> {
    // SAFETY: the strings outlive the calls, and null is no place to write to.
    Some(match name {
        "openat-create" => {
            || unsafe { syscall(libc::SYS_openat, libc::AT_FDCWD, c"made".as_ptr(), CREATE, 0o600) }
        }
        "openat2" => {
            || unsafe { syscall(libc::SYS_openat2, libc::AT_FDCWD, c"made".as_ptr(), [0u64; 3].as_ptr(), 24) }
        }
        "open" => || unsafe { syscall(libc::SYS_open, c"made".as_ptr(), CREATE, 0o600) },
        "unlink" => || unsafe { syscall(libc::SYS_unlink, c"made".as_ptr()) },
        "mkdir" => || unsafe { syscall(libc::SYS_mkdir, c"made".as_ptr(), 0o700) },
        "mount" => {
            || unsafe { syscall(libc::SYS_mount, c"a".as_ptr(), c"made".as_ptr(), c"none".as_ptr(), 0, 0) }
        }
        "chroot" => || unsafe { syscall(libc::SYS_chroot, c"made".as_ptr()) },
        "socket" => || unsafe { syscall(libc::SYS_socket, libc::AF_INET, libc::SOCK_DGRAM, 0) },
        "socketpair" => || unsafe { syscall(libc::SYS_socketpair, libc::AF_UNIX, libc::SOCK_STREAM, 0, 0) },
        "connect" => || unsafe { syscall(libc::SYS_connect, -1, 0, 0) },
        "bind" => || unsafe { syscall(libc::SYS_bind, -1, 0, 0) },
        "accept4" => || unsafe { syscall(libc::SYS_accept4, -1, 0, 0, 0) },
        "ioctl-sti" => || unsafe { syscall(libc::SYS_ioctl, 0, libc::TIOCSTI, c"x".as_ptr()) },
        "ioctl-tun" => || unsafe { syscall(libc::SYS_ioctl, -1, libc::TUNSETIFF, 0) },
        _ => return None,
    })
}

const CREATE: i32 = libc::O_CREAT | libc::O_WRONLY | libc::O_CLOEXEC;

fn processes(name: &str) -> Option<fn() -> c_long> {
    // SAFETY: strings outlive the calls; what is made would end by itself; null is no place to write to.
    Some(match name {
        "execve" => || unsafe { syscall(libc::SYS_execve, c"/bin/true".as_ptr(), 0, 0) },
        "execveat" => || unsafe { syscall(libc::SYS_execveat, -1, c"/bin/true".as_ptr(), 0, 0, 0) },
        "ptrace" => || unsafe { syscall(libc::SYS_ptrace, libc::PTRACE_TRACEME, 0, 0, 0) },
        "process_vm_writev" => || unsafe { syscall(libc::SYS_process_vm_writev, 1, 0, 0, 0, 0, 0) },
        "process_vm_readv" => || unsafe { syscall(libc::SYS_process_vm_readv, 1, 0, 0, 0, 0, 0) },
        "kill" => || unsafe { syscall(libc::SYS_kill, std::process::id(), 0) },
        "tgkill-other" => || unsafe { syscall(libc::SYS_tgkill, 1, 1, 0) },
        "pidfd_open" => || unsafe { syscall(libc::SYS_pidfd_open, std::process::id(), 0) },
        "pidfd_getfd" => || unsafe { syscall(libc::SYS_pidfd_getfd, -1, 0, 0) },
        "unshare" => || unsafe { syscall(libc::SYS_unshare, 0) },
        "setns" => || unsafe { syscall(libc::SYS_setns, -1, 0) },
        "setuid" => || unsafe { syscall(libc::SYS_setuid, -1) },
        "capset" => || unsafe { syscall(libc::SYS_capset, 0, 0) },
        "fork" => || unsafe { child(syscall(libc::SYS_fork)) },
        "clone-process" => || unsafe { child(syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0)) },
        // As of a thread, and a network namespace with it; without a stack the kernel refuses it where nobody else does.
        "clone-namespace" => {
            || unsafe { syscall(libc::SYS_clone, libc::CLONE_THREAD | libc::CLONE_NEWNET, 0, 0, 0, 0) }
        }
        "prctl-dumpable" => || unsafe { syscall(libc::SYS_prctl, libc::PR_SET_DUMPABLE, 1, 0, 0, 0) },
        "rt_sigaction-sys" => || unsafe { syscall(libc::SYS_rt_sigaction, libc::SIGSYS, 0, 0, 8) },
        _ => return None,
    })
}

/// Ends the process that should not be there.
fn child(pid: c_long) -> c_long {
    if pid == 0 {
        // SAFETY: ends the process.
        unsafe { libc::_exit(0) };
    }
    pid
}

fn kernel(name: &str) -> Option<fn() -> c_long> {
    // SAFETY: bad arguments, or memory of the trial's own.
    Some(match name {
        "bpf" => || unsafe { syscall(libc::SYS_bpf, -1, 0, 0) },
        "perf_event_open" => || unsafe { syscall(libc::SYS_perf_event_open, 0, 0, 0, 0, 0) },
        "io_uring_setup" => || unsafe { syscall(libc::SYS_io_uring_setup, 1, 0) },
        "userfaultfd" => || unsafe { syscall(libc::SYS_userfaultfd, -1) },
        "init_module" => || unsafe { syscall(libc::SYS_init_module, 0, 0, 0) },
        "settimeofday" => || unsafe { syscall(libc::SYS_settimeofday, 0, 0) },
        "mprotect-exec" => || unsafe { syscall(libc::SYS_mprotect, page(libc::PROT_READ), 4096, EXECUTABLE) },
        "mmap-exec" => || page(EXECUTABLE),
        _ => return None,
    })
}

const EXECUTABLE: i32 = libc::PROT_READ | libc::PROT_EXEC;

/// A new page of memory.
fn page(protection: i32) -> c_long {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: new memory, wherever the kernel likes.
    unsafe { syscall(libc::SYS_mmap, 0, 4096, protection, flags, -1, 0) }
}
