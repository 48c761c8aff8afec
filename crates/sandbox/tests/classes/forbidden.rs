//! Calls that no class, or only control, may make. Each is harmless if it is executed after all.

use libc::{c_long, syscall};
use sandbox::Class;

/// A system call with its arguments.
#[derive(Clone)]
pub(crate) struct Call {
    /// Name of the call as in messages, followed by what is requested.
    pub(crate) name: &'static str,
    number: c_long,
    arguments: [c_long; 6],
}

impl Call {
    /// Makes the call. Returns its result.
    pub(crate) fn make(&self) -> c_long {
        let [a, b, c, d, e, f] = self.arguments;
        // SAFETY: arguments are numbers, null, or strings that live as long as the program; mappings and
        // objects that an executed call creates are harmless.
        let made = unsafe { syscall(self.number, a, b, c, d, e, f) };
        if made == 0 && ["fork", "clone-process"].contains(&self.name) {
            // SAFETY: ends the child that should not exist.
            unsafe { libc::_exit(0) };
        }
        made
    }
}

/// Returns true if the call ends the process. Control may not create files either, but gets an error.
pub(crate) fn is_forbidden(class: Class, call: &Call) -> bool {
    match call.name {
        "openat-create" => class != Class::Control,
        "accept4" => ![Class::Control, Class::Peer, Class::Backend].contains(&class),
        "sendmsg" => ![Class::Control, Class::Peer].contains(&class),
        "mmap-file" => ![Class::Control, Class::NewVcpu, Class::Backend].contains(&class),
        "seccomp" | "ioctl-new-vcpu" => ![Class::Control, Class::NewVcpu].contains(&class),
        "ioctl-vhost-net" => ![Class::Control, Class::NewVcpu, Class::VcpuVhostNet].contains(&class),
        // Options other than the peer's credentials, and how much waits.
        "getsockopt" => class != Class::Control,
        "sendto" => ![Class::Control, Class::Peer, Class::Backend].contains(&class),
        // Without MSG_DONTWAIT.
        "recvfrom" => class != Class::Control,
        _ => true,
    }
}

/// Finds a call by name.
pub(crate) fn named(name: &str) -> Option<Call> {
    all().into_iter().find(|call| call.name == name)
}

/// All calls.
pub(crate) fn all() -> Vec<Call> {
    [files(), sockets_and_devices(), processes(), powers()].concat()
}

fn call(name: &'static str, number: c_long, arguments: &[c_long]) -> Call {
    let mut all = [0; 6];
    all.iter_mut().zip(arguments).for_each(|(place, argument)| *place = *argument);
    Call { name, number, arguments: all }
}

const HERE: c_long = libc::AT_FDCWD as c_long;
const CREATE: c_long = (libc::O_CREAT | libc::O_WRONLY | libc::O_CLOEXEC) as c_long;
const NONE: c_long = -1;
/// Address that is never accessed, since the descriptor is invalid.
const SOMEWHERE: c_long = 0x1_0000_0000;
const KVM_CREATE_VCPU: c_long = 0xae41;
const VHOST_SET_MEM_TABLE: c_long = 0x4008_af03;

fn files() -> Vec<Call> {
    static HOW: [u64; 3] = [0; 3];
    let made = c"made".as_ptr() as c_long;
    vec![
        call("openat-create", libc::SYS_openat, &[HERE, made, CREATE, 0o600]),
        call("openat2", libc::SYS_openat2, &[HERE, made, HOW.as_ptr() as c_long, 24]),
        call("open", libc::SYS_open, &[made, CREATE, 0o600]),
        call("unlink", libc::SYS_unlink, &[made]),
        call("rename", libc::SYS_rename, &[made, made]),
        call("mkdir", libc::SYS_mkdir, &[made, 0o700]),
        call("mount", libc::SYS_mount, &[made, made, made]),
        call("chroot", libc::SYS_chroot, &[made]),
        call("chmod", libc::SYS_chmod, &[made, 0o777]),
    ]
}

fn sockets_and_devices() -> Vec<Call> {
    let udp = [libc::AF_INET, libc::SOCK_DGRAM].map(c_long::from);
    let unix = [libc::AF_UNIX, libc::SOCK_STREAM].map(c_long::from);
    vec![
        call("socket", libc::SYS_socket, &udp),
        call("socketpair", libc::SYS_socketpair, &unix),
        call("connect", libc::SYS_connect, &[NONE]),
        call("bind", libc::SYS_bind, &[NONE]),
        call("sendto", libc::SYS_sendto, &[NONE, 0, 0, 0]),
        call(
            "sendto-address",
            libc::SYS_sendto,
            &[NONE, 0, 0, c_long::from(libc::MSG_DONTWAIT), SOMEWHERE, 16],
        ),
        call("sendmsg", libc::SYS_sendmsg, &[NONE, 0, 0]),
        call("sendmmsg", libc::SYS_sendmmsg, &[NONE, 0, 0]),
        call("recvmmsg", libc::SYS_recvmmsg, &[NONE, 0, 0]),
        call("recvfrom", libc::SYS_recvfrom, &[NONE, 0, 0, 0]),
        call(
            "recvfrom-address",
            libc::SYS_recvfrom,
            &[NONE, 0, 0, c_long::from(libc::MSG_DONTWAIT), SOMEWHERE],
        ),
        call("accept4", libc::SYS_accept4, &[NONE]),
        call("getsockopt", libc::SYS_getsockopt, &[NONE, 1, c_long::from(libc::SO_RCVBUF)]),
        call("ioctl-sti", libc::SYS_ioctl, &[0, libc::TIOCSTI as c_long, c"x".as_ptr() as c_long]),
        call("ioctl-tun", libc::SYS_ioctl, &[NONE, libc::TUNSETIFF as c_long]),
        call("ioctl-wait", libc::SYS_ioctl, &[NONE, libc::FIONBIO as c_long]),
        call("ioctl-new-vcpu", libc::SYS_ioctl, &[NONE, KVM_CREATE_VCPU]),
        call("ioctl-vhost-net", libc::SYS_ioctl, &[NONE, VHOST_SET_MEM_TABLE]),
        // Would switch blocking mode for other processes that share the file.
        call("fcntl-wait", libc::SYS_fcntl, &[NONE, c_long::from(libc::F_SETFL), c_long::from(libc::O_RDWR)]),
        call(
            "fcntl-nonblock",
            libc::SYS_fcntl,
            &[NONE, c_long::from(libc::F_SETFL), c_long::from(libc::O_RDWR | libc::O_NONBLOCK)],
        ),
    ]
}

fn processes() -> Vec<Call> {
    let program = c"/bin/true".as_ptr() as c_long;
    let itself = c_long::from(std::process::id());
    // As for a thread, but with a new network namespace.
    let namespace = c_long::from(libc::CLONE_THREAD | libc::CLONE_NEWNET);
    vec![
        call("execve", libc::SYS_execve, &[program]),
        call("execveat", libc::SYS_execveat, &[NONE, program]),
        call("fork", libc::SYS_fork, &[]),
        call("clone-process", libc::SYS_clone, &[c_long::from(libc::SIGCHLD)]),
        call("clone-namespace", libc::SYS_clone, &[namespace]),
        call("ptrace", libc::SYS_ptrace, &[c_long::from(libc::PTRACE_TRACEME)]),
        call("process_vm_writev", libc::SYS_process_vm_writev, &[1]),
        call("process_vm_readv", libc::SYS_process_vm_readv, &[1]),
        call("kill", libc::SYS_kill, &[itself, 0]),
        call("tgkill-other", libc::SYS_tgkill, &[1, 1, 0]),
        call("pidfd_send_signal-stop", libc::SYS_pidfd_send_signal, &[NONE, c_long::from(libc::SIGSTOP)]),
        call("waitid-any", libc::SYS_waitid, &[c_long::from(libc::P_ALL)]),
        call("pidfd_open", libc::SYS_pidfd_open, &[itself, 0]),
        call("pidfd_getfd", libc::SYS_pidfd_getfd, &[NONE]),
    ]
}

fn powers() -> Vec<Call> {
    const PAGE: c_long = 4096;
    let executable = c_long::from(libc::PROT_READ | libc::PROT_EXEC);
    let readable = c_long::from(libc::PROT_READ);
    let anonymous = c_long::from(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    vec![
        call("mmap-exec", libc::SYS_mmap, &[0, PAGE, executable, anonymous, NONE]),
        // On unmapped memory: only the request matters.
        call("mprotect-exec", libc::SYS_mprotect, &[0, PAGE, executable]),
        call("mmap-file", libc::SYS_mmap, &[0, PAGE, readable, c_long::from(libc::MAP_SHARED), NONE]),
        call("seccomp", libc::SYS_seccomp, &[c_long::from(libc::SECCOMP_SET_MODE_FILTER), 0, 0]),
        call("pkey_mprotect", libc::SYS_pkey_mprotect, &[0, PAGE, executable]),
        call("unshare", libc::SYS_unshare, &[]),
        call("setns", libc::SYS_setns, &[NONE]),
        call("setuid", libc::SYS_setuid, &[NONE]),
        call("capset", libc::SYS_capset, &[]),
        call("prctl-dumpable", libc::SYS_prctl, &[c_long::from(libc::PR_SET_DUMPABLE), 1]),
        call("rt_sigaction-sys", libc::SYS_rt_sigaction, &[c_long::from(libc::SIGSYS), 0, 0, 8]),
        call("bpf", libc::SYS_bpf, &[NONE]),
        call("perf_event_open", libc::SYS_perf_event_open, &[]),
        call("io_uring_setup", libc::SYS_io_uring_setup, &[1]),
        call("userfaultfd", libc::SYS_userfaultfd, &[NONE]),
        call("init_module", libc::SYS_init_module, &[]),
        call("sched_setaffinity", libc::SYS_sched_setaffinity, &[NONE]),
        call("sched_setscheduler", libc::SYS_sched_setscheduler, &[NONE]),
        call("sched_setattr", libc::SYS_sched_setattr, &[NONE]),
        call("settimeofday", libc::SYS_settimeofday, &[]),
    ]
}
