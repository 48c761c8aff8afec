//! Overhead of a filter per system call: confined threads and one unconfined thread make the same calls in
//! turn. Prints ns per call, and what the filters of a class add to it in each pair; before that, the time
//! that entering them takes.
//!
//! `cargo bench -p ringroad-sandbox`

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use rustix::event::{EventfdFlags, eventfd};
use sandbox::{Class, confine};

const CALLS: u32 = 20_000;
const ROUNDS: usize = 41;

/// System call of a busy thread.
type Call = (&'static str, fn(i32));

/// The first four are answered from the kernel's per-filter cache; the last runs the filter, which checks its
/// argument.
const ALL: [Call; 5] = [
    ("write of a bell", |bell| {
        // SAFETY: the octets belong to a constant.
        unsafe { libc::write(bell, 1u64.to_ne_bytes().as_ptr().cast(), 8) };
    }),
    ("read of a bell", |bell| {
        let mut octets = [0u8; 8];
        // SAFETY: the octets belong to this call.
        unsafe { libc::read(bell, octets.as_mut_ptr().cast(), 8) };
    }),
    ("poll of a bell", |bell| {
        let mut fd = libc::pollfd { fd: bell, events: libc::POLLIN, revents: 0 };
        // SAFETY: one descriptor structure, which belongs to this call.
        unsafe { libc::poll(&raw mut fd, 1, 0) };
    }),
    ("futex without a waiter", |_| {
        let word = 0u32;
        // SAFETY: the word belongs to this call.
        unsafe {
            libc::syscall(libc::SYS_futex, &raw const word, libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1)
        };
    }),
    ("ioctl KVM_RUN", |bell| {
        // SAFETY: an event descriptor rejects the request, which has no argument.
        unsafe { libc::ioctl(bell, 0xae80, 0) };
    }),
];

/// Thread that makes calls on request and reports the time of one.
struct Caller {
    ask: Sender<usize>,
    told: Receiver<f64>,
}

impl Caller {
    /// Starts a thread confined to these classes, one after the other, as in the data plane, where the second
    /// filter adds to the first.
    fn start(classes: &'static [Class]) -> Self {
        let ((ask, asked), (tell, told)) = (channel(), channel());
        std::thread::spawn(move || {
            let bell: OwnedFd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("a bell");
            classes.iter().for_each(|class| confine(*class).expect("a kernel with seccomp filters"));
            while let Ok::<usize, _>(call) = asked.recv() {
                let make = ALL[call].1;
                let start = Instant::now();
                (0..CALLS).for_each(|_| make(bell.as_raw_fd()));
                let time = start.elapsed().as_nanos() as f64 / f64::from(CALLS);
                if tell.send(time).is_err() {
                    return;
                }
            }
        });
        Self { ask, told }
    }

    fn time(&self, call: usize) -> f64 {
        self.ask.send(call).expect("the thread lives");
        self.told.recv().expect("the thread lives")
    }
}

/// Time in µs that a new thread of class control takes to enter its class.
fn entering(class: Class) -> f64 {
    let enter = move || {
        if class != Class::Control {
            confine(Class::Control).expect("a kernel with seccomp filters");
        }
        let start = Instant::now();
        confine(class).expect("a kernel with seccomp filters");
        start.elapsed().as_nanos() as f64 / 1e3
    };
    std::thread::spawn(enter).join().expect("the thread ends well")
}

fn main() {
    for class in Class::ALL {
        let times: Vec<_> = (0..ROUNDS).map(|_| entering(class)).collect();
        println!("entering {}: {:.0} µs (n={ROUNDS})", class.name(), median(times));
    }
    let free = Caller::start(&[]);
    let confined: [(&str, Caller); 3] = [
        ("vhost", Caller::start(&[Class::Vhost])),
        ("control", Caller::start(&[Class::Control])),
        ("vcpu in control", Caller::start(&[Class::Control, Class::Vcpu])),
    ];
    for (call, (name, _)) in ALL.iter().enumerate() {
        for (class, caller) in &confined {
            if *class == "vhost" && name.starts_with("ioctl") {
                continue;
            }
            let pairs: Vec<_> = (0..ROUNDS).map(|_| (free.time(call), caller.time(call))).collect();
            let base = median(pairs.iter().map(|(free, _)| *free).collect());
            let added = median(pairs.iter().map(|(free, confined)| confined - free).collect());
            println!("{name}, {class}: {base:.0} ns without, {added:+.1} ns with a filter (n={ROUNDS})");
        }
    }
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}
