//! Operations that the classes need, performed as they do: by the standard library where that makes the
//! system call.

use std::collections::HashMap;
use std::io::{IoSlice, Read, Write};
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::panic;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::{FileType, MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::net::{RecvFlags, SendFlags};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use sandbox::{Class, confine};
use signals::interrupt;

/// Output at the end of a trial.
pub(crate) const DONE: &str = "trial done";

/// Trials that pass in every class.
const EVERY: [&str; 8] = ["bells", "heap", "trim", "time", "panic", "refusals", "random", "interrupt"];
/// Further trials of class control.
const CONTROL: [&str; 4] = ["threads", "memory", "link", "signals"];

/// Trials of a thread that restricts itself further.
const SECOND: [&str; 1] = ["second"];

/// Trials of classes that talk to other programs.
const MEETING: [&str; 1] = ["peer"];

/// Trials of classes that serve NICs.
const SERVING: [&str; 3] = ["timer", "pins", "tunnel"];

/// Trials of classes that move frames.
const MOVING: [&str; 1] = ["queue"];

pub(crate) fn names(class: Class) -> Vec<&'static str> {
    let control = if class == Class::Control { &CONTROL[..] } else { &[] };
    let serving =
        if [Class::Clock, Class::Peer, Class::Backend].contains(&class) { &[] } else { &SERVING[..] };
    let second = if [Class::Control, Class::NewVcpu].contains(&class) { &SECOND[..] } else { &[] };
    let meets = [Class::Control, Class::Peer, Class::Backend].contains(&class);
    let meeting = if meets { &MEETING[..] } else { &[] };
    let moving = if [Class::Control, Class::Vhost].contains(&class) { &MOVING[..] } else { &[] };
    EVERY.iter().chain(control).chain(serving).chain(second).chain(meeting).chain(moving).copied().collect()
}

/// Number of panics in a trial, each with its message.
pub(crate) fn panics_of(name: &str) -> usize {
    match name {
        "panic" => 1,
        "threads" => Class::ALL.len(),
        _ => 0,
    }
}

/// Crashes that are no violations, with their signals.
pub(crate) const CRASHES: [(&str, i32); 4] = [
    ("abort", libc::SIGABRT),
    ("double-panic", libc::SIGABRT),
    ("overflow", libc::SIGABRT),
    ("bad-pointer", libc::SIGSEGV),
];

/// Interrupts another thread's blocking call.
fn interrupts(number: i32, waiter: thread::JoinHandle<rustix::io::Result<usize>>) {
    let pause = Timespec::try_from(Duration::from_millis(1)).unwrap();
    while !waiter.is_finished() {
        interrupt::interrupt(number);
        poll(&mut [], Some(&pause)).unwrap();
    }
    assert_eq!(waiter.join().unwrap(), Err(rustix::io::Errno::INTR));
}

/// Opens what the trial needs. The returned closure runs in a confined thread.
pub(crate) fn prepare(name: &str) -> Box<dyn FnOnce() + Send> {
    let act: Box<dyn FnOnce() + Send> = match name {
        "bells" => {
            let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
            Box::new(move || bells(&bell))
        }
        "timer" => {
            let timer =
                timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)
                    .unwrap();
            Box::new(move || set_timer(&timer))
        }
        "pins" => {
            let bell = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
            Box::new(move || pins(&bell))
        }
        "tunnel" => {
            let [near, far] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
            near.connect(far.local_addr().unwrap()).unwrap();
            far.connect(near.local_addr().unwrap()).unwrap();
            Box::new(move || tunnel(&near, &far))
        }
        "queue" => {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            Box::new(move || queue(&socket))
        }
        "heap" => Box::new(heap),
        "trim" => Box::new(trim),
        "time" => Box::new(time),
        "panic" => Box::new(panics),
        "second" => Box::new(second),
        "refusals" => Box::new(refusals),
        "interrupt" => {
            // As the data plane does before its first thread is confined.
            interrupt::signal().unwrap();
            let bell = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
            let (tell, told) = mpsc::channel();
            let waiter = thread::spawn(move || {
                tell.send(interrupt::this_thread()).unwrap();
                rustix::io::read(&bell, &mut [0; 8])
            });
            let number = told.recv().unwrap();
            Box::new(move || interrupts(number, waiter))
        }
        "random" => Box::new(|| assert!(HashMap::<u8, u8>::new().is_empty())),
        "threads" => Box::new(threads),
        "memory" => Box::new(memory),
        "link" => {
            let (ours, theirs) = UnixStream::pair().unwrap();
            Box::new(move || link(ours, theirs))
        }
        "peer" => {
            let (ours, _theirs) = UnixStream::pair().unwrap();
            let this = rustix::process::getpid();
            Box::new(move || assert_eq!(rustix::net::sockopt::socket_peercred(&ours).unwrap().pid, this))
        }
        "signals" => Box::new(signals),
        "abort" => Box::new(|| std::process::abort()),
        "double-panic" => Box::new(double_panic),
        "overflow" => Box::new(|| assert_ne!(overflow(1), 0)),
        "bad-pointer" => Box::new(bad_pointer),
        _ => panic!("no trial {name}"),
    };
    Box::new(move || {
        act();
        println!("{DONE}");
    })
}

fn bells(bell: &OwnedFd) {
    rustix::io::write(bell, &3u64.to_ne_bytes()).unwrap();
    for timeout in [None, Some(&Timespec { tv_sec: 1, tv_nsec: 1 })] {
        assert_eq!(poll(&mut [PollFd::new(bell, PollFlags::IN)], timeout).unwrap(), 1);
    }
    let mut octets = [0; 8];
    rustix::io::read(bell, &mut octets).unwrap();
    assert_eq!(u64::from_ne_bytes(octets), 3);
    let octets = 1u64.to_ne_bytes();
    assert_eq!(rustix::io::writev(bell, &[IoSlice::new(&octets)]).unwrap(), 8);
    assert_eq!(fd_passing::file_type(bell).unwrap(), FileType::Unknown);
}

fn set_timer(timer: &OwnedFd) {
    let soon = Timespec { tv_sec: 0, tv_nsec: 1000 };
    let never = Timespec { tv_sec: 0, tv_nsec: 0 };
    let once = Itimerspec { it_interval: never, it_value: soon };
    timerfd_settime(timer, TimerfdTimerFlags::empty(), &once).unwrap();
    assert_eq!(poll(&mut [PollFd::new(timer, PollFlags::IN)], None).unwrap(), 1);
}

/// Requests to a descriptor that is no virtual machine: they pass the filter, and the kernel refuses them.
fn pins(bell: &OwnedFd) {
    for request in [0x4008_ae61, 0x4010_ae67, 0x4010_ae68] {
        let mut argument = [0u64; 2];
        // SAFETY: an open descriptor, and an argument of the size that the request encodes.
        let answer = unsafe { libc::ioctl(bell.as_raw_fd(), request, argument.as_mut_ptr()) };
        let error = std::io::Error::last_os_error().raw_os_error();
        assert_eq!((answer, error), (-1, Some(libc::ENOTTY)), "{request:#x}");
    }
}

/// Datagrams to and from the connected peer of a socket.
fn tunnel(near: &UdpSocket, far: &UdpSocket) {
    use rustix::net::{RecvFlags, SendFlags, recv, send};
    assert_eq!(send(near, &[7; 60], SendFlags::DONTWAIT), Ok(60));
    assert_eq!(poll(&mut [PollFd::new(far, PollFlags::IN)], None).unwrap(), 1);
    let mut octets = [0; 100];
    assert_eq!(recv(far, &mut octets[..], RecvFlags::DONTWAIT).unwrap().0, 60);
}

/// Asks how much waits at a socket (SO_MEMINFO): nothing, and there is a limit.
fn queue(socket: &UdpSocket) {
    let (mut found, mut len) = ([0_u32; 2], 8);
    let (fd, value) = (socket.as_raw_fd(), (&raw mut found).cast());
    // SAFETY: the kernel writes at most `len` octets there, which are numbers, and the length before the call returns.
    let done = unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, 55, value, &raw mut len) };
    assert_eq!((done, found[0]), (0, 0));
    assert!(found[1] > 0);
}

fn heap() {
    let blocks: Vec<Vec<u8>> = (0..20).map(|power| vec![1; 1 << power]).collect();
    let mut grown = Vec::new();
    blocks.iter().for_each(|block| grown.extend_from_slice(block));
    grown.shrink_to_fit();
    assert_eq!(grown.len(), (1 << 20) - 1);
}

/// Frees small blocks at the end of the heap, so that the C library returns them; it reads a file of /proc to
/// find out whether it may.
fn trim() {
    for _ in 0..3 {
        let blocks: Vec<Vec<u8>> = (0..20_000).map(|_| vec![1; 1000]).collect();
        assert_eq!(blocks.len(), 20_000);
    }
}

fn time() {
    let start = Instant::now();
    thread::sleep(Duration::from_millis(2));
    thread::yield_now();
    let (keep, never) = mpsc::channel::<()>();
    assert!(never.recv_timeout(Duration::from_millis(2)).is_err());
    drop(keep);
    assert!(start.elapsed() >= Duration::from_millis(4));
    let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    assert!(cpu.tv_sec >= 0);
}

/// With a backtrace, which looks for files and finds none.
fn panics() {
    assert!(panic::catch_unwind(|| panic!("on purpose")).is_err());
}

fn refusals() {
    let denied = |error: std::io::Error| error.kind() == std::io::ErrorKind::PermissionDenied;
    assert!(std::fs::File::open("/proc/self/maps").is_err_and(denied));
    assert!(std::env::current_dir().is_err_and(denied));
    assert!(std::fs::read_link("/proc/self/exe").is_err_and(denied));
    assert!(std::fs::metadata("/").is_err_and(denied));
}

/// Enters the class of a running vCPU.
fn second() {
    confine(Class::Vcpu).unwrap();
    heap();
    refusals();
}

/// Threads started by control and then confined, like all threads of routers.
fn threads() {
    let start = |class| {
        let body = move || {
            confine(class).unwrap();
            heap();
            panics();
        };
        thread::Builder::new().name("edge/vcpu0".to_owned()).spawn(body).unwrap()
    };
    for class in Class::ALL {
        start(class).join().unwrap();
    }
}

fn memory() {
    const LEN: usize = 4 << 20;
    let file = memfd_create("ringroad-edge", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&file, LEN as u64).unwrap();
    assert_eq!(std::fs::File::from(file.try_clone().unwrap()).metadata().unwrap().len(), LEN as u64);
    // SAFETY: new memory, accessed only through its address and unmapped before that is dropped.
    unsafe {
        let place = std::ptr::null_mut();
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let at = mmap(place, LEN, protection, MapFlags::SHARED | MapFlags::NORESERVE, &file, 0).unwrap();
        at.cast::<u8>().write_volatile(7);
        munmap(at, LEN).unwrap();
    }
    let bell = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
    // A KVM request: it passes the filter, and an event descriptor rejects it.
    const KVM_RUN: u64 = 0xae80;
    // SAFETY: a request without an argument.
    assert_eq!(unsafe { libc::ioctl(bell.as_raw_fd(), KVM_RUN, 0) }, -1);
}

fn link(mut ours: UnixStream, mut theirs: UnixStream) {
    fd_passing::send(&ours, b"start", &[&ours], SendFlags::empty()).unwrap();
    let came = fd_passing::receive(&theirs, &mut [0; 5], 1, RecvFlags::empty()).unwrap();
    assert_eq!(came.descriptors.len(), 1);
    theirs.write_all(b"done").unwrap();
    let mut octets = [0; 4];
    ours.read_exact(&mut octets).unwrap();
    assert_eq!(&octets, b"done");
}

/// Interrupts a thread's system call by a signal, as vCPUs are got out of their guest.
fn signals() {
    extern "C" fn nothing(_: i32) {}
    let number = libc::SIGRTMIN();
    // SAFETY: the handler does nothing.
    assert_ne!(unsafe { libc::signal(number, nothing as *const () as usize) }, libc::SIG_ERR);
    let (tell, told) = mpsc::channel();
    let sleeper = thread::spawn(move || {
        // SAFETY: the call has no arguments.
        tell.send(unsafe { libc::pthread_self() }).unwrap();
        thread::sleep(Duration::from_millis(20));
    });
    let thread = told.recv().unwrap();
    // SAFETY: the thread has not been joined yet.
    assert_eq!(unsafe { libc::pthread_kill(thread, number) }, 0);
    sleeper.join().unwrap();
}

/// A panic during the unwinding of another one.
fn double_panic() {
    struct Second;
    impl Drop for Second {
        fn drop(&mut self) {
            panic!("in the middle of another");
        }
    }
    let _second = Second;
    panic!("on purpose");
}

/// Recurses until the stack overflows.
#[expect(unconditional_recursion)]
fn overflow(depth: u64) -> u64 {
    let room = std::hint::black_box([depth; 64]);
    overflow(depth + 1) + room[7]
}

fn bad_pointer() {
    // A kernel address, where no mapping of ours can be.
    let nowhere = std::ptr::without_provenance_mut::<u8>(0xffff_8000_0000_0000);
    // SAFETY: none; the process is meant to crash here.
    unsafe { nowhere.write_volatile(1) };
}
