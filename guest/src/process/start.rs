//! Start-up: from an empty process to a firmware that is about to run.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use bootinfo::process::{ANYWHERE, NAME_LEN, Report, SOCKET, Start, Step};
use bootinfo::{Desk, MAGIC, MAX_VCPUS, map};

use super::calls::{self, Errno, Mapping};
use super::filter::FILTER;
use super::{BUS_BELL, Failed, PROCESS, messages, set_doorbell};
use crate::firmware;

/// Unmapped lowest page of each stack: a thread that overflows its stack crashes instead of writing into the next
/// one.
const GUARD: u64 = 4096;

/// Number of vCPU threads that are set up and wait for vCPU 0, or have failed.
static ARRIVED: AtomicU32 = AtomicU32::new(0);
/// Failure of one of them: step in the upper half, error number in the lower; 0: none.
static TROUBLE: AtomicU32 = AtomicU32::new(0);
/// Parameters of the threads: their CPUs and their name.
static PLACES: [AtomicU32; MAX_VCPUS] = [const { AtomicU32::new(ANYWHERE) }; MAX_VCPUS];
static NAME: [AtomicU32; NAME_LEN / 4] = [const { AtomicU32::new(0) }; NAME_LEN / 4];

/// Entry point of the process, on the stack provided by the kernel.
pub(crate) extern "C" fn begin() -> ! {
    let report = match settle() {
        Ok(()) => Report { step: Step::Ready as u32, error: 0 },
        Err(Failed(step, Errno(error))) => Report { step: step as u32, error },
    };
    let [a, b, c, d] = report.step.to_ne_bytes();
    let [e, f, g, h] = report.error.to_ne_bytes();
    // If the host no longer listens, it is about to kill this process anyway.
    let _ = calls::write(SOCKET, &[a, b, c, d, e, f, g, h]);
    if report.step != Step::Ready as u32 {
        calls::exit(1);
    }
    // SAFETY: `settle` mapped the stack of vCPU 0, which no other thread uses.
    unsafe { calls::continue_on(stack_top(0), firmware, 0) }
}

/// Maps all memory, starts the other vCPUs, and gives up all other system calls.
fn settle() -> Result<(), Failed> {
    let (start, descriptors) = messages::start()?;
    let vcpus = start.vcpus as usize;
    let sane = (1..=MAX_VCPUS).contains(&vcpus) && (map::POOL..=map::MAX_RAM).contains(&start.ram);
    if start.magic != MAGIC || !sane || start.group_neighbours > map::NEIGHBOURS_LEN {
        return Err(messages::NONSENSE);
    }
    let ram = descriptors.get(0)?;
    share(map::BOOT_INFO, start.ram - map::BOOT_INFO, true, (ram, map::BOOT_INFO))?;
    let mut next = 1;
    if start.fib > 0 {
        let fib = descriptors.get(next)?;
        share(map::FIB, start.fib, false, (fib, 0))?;
        next += 1;
    }
    if start.group_neighbours > 0 {
        let (neighbours, desk) = (descriptors.get(next)?, descriptors.get(next + 1)?);
        share(map::NEIGHBOURS, start.group_neighbours, false, (neighbours, 0))?;
        share(map::DESK, Desk::LEN as u64, true, (desk, 0))?;
        next += 2;
    }
    BUS_BELL.store(descriptors.get(next)?, Relaxed);
    let mut missing = start.bells as usize;
    while missing > 0 {
        missing = missing.saturating_sub(messages::bells(&mut |bell, descriptor| {
            set_doorbell(bell.slot, bell.queue, descriptor)
        })?);
    }
    PROCESS.store(true, Relaxed);
    start_vcpus(&start, vcpus)?;
    arrange(0)
}

/// Maps shared memory and closes its descriptor: the mapping stays, and no other can be made.
fn share(at: u64, len: u64, writable: bool, of: (i32, u64)) -> Result<(), Failed> {
    let mapped = calls::map(Mapping { at, len, writable, of: Some(of) });
    calls::close(of.0);
    mapped.map_err(|refused| Failed(Step::Memory, refused))
}

fn stack_top(vcpu: usize) -> u64 {
    map::STACK_TOP - map::STACK * vcpu as u64
}

fn start_vcpus(start: &Start, vcpus: usize) -> Result<(), Failed> {
    for (place, cpu) in PLACES.iter().zip(start.cpus) {
        place.store(cpu, Relaxed);
    }
    for (word, octets) in NAME.iter().zip(start.name.as_chunks::<4>().0) {
        word.store(u32::from_ne_bytes(*octets), Relaxed);
    }
    for vcpu in 0..vcpus {
        let at = stack_top(vcpu) - map::STACK + GUARD;
        calls::map(Mapping { at, len: map::STACK - GUARD, writable: true, of: None })
            .map_err(|refused| Failed(Step::Memory, refused))?;
    }
    for vcpu in 1..vcpus {
        // SAFETY: the stack was just mapped for this thread alone, and its end is a multiple of 16.
        unsafe { calls::start_thread(stack_top(vcpu), thread, vcpu as u64) }
            .map_err(|refused| Failed(Step::Thread, refused))?;
    }
    loop {
        let arrived = ARRIVED.load(Acquire);
        if arrived as usize == vcpus - 1 {
            break;
        }
        calls::wait(&ARRIVED, arrived);
    }
    match TROUBLE.load(Relaxed) {
        0 => Ok(()),
        packed => {
            let step = Step::from_number(packed >> 16).unwrap_or(Step::Thread);
            Err(Failed(step, Errno(packed & 0xffff)))
        }
    }
}

/// Entry point of vCPUs other than 0.
extern "C" fn thread(vcpu: u64) -> ! {
    let arranged = arrange_but_filter(vcpu as usize);
    if let Err(Failed(step, Errno(error))) = arranged {
        TROUBLE.store((step as u32) << 16 | error & 0xffff, Relaxed);
    }
    // vCPU 0 is notified before the filter is installed. It continues with its own filter and with building the
    // states; this thread runs no firmware before its filter is installed.
    ARRIVED.fetch_add(1, Release);
    calls::wake(&ARRIVED);
    if arranged.is_err() {
        // vCPU 0 reports the reason and ends the process.
        calls::exit_thread();
    }
    if calls::confine(&FILTER).is_err() {
        calls::exit(1);
    }
    firmware(vcpu)
}

/// Names, pins and confines the calling thread.
fn arrange(vcpu: usize) -> Result<(), Failed> {
    arrange_but_filter(vcpu)?;
    calls::confine(&FILTER).map_err(|refused| Failed(Step::Filter, refused))
}

fn arrange_but_filter(vcpu: usize) -> Result<(), Failed> {
    calls::set_name(&name(vcpu));
    match PLACES.get(vcpu).map_or(ANYWHERE, |place| place.load(Relaxed)) {
        ANYWHERE => Ok(()),
        cpu => calls::place(cpu).map_err(|refused| Failed(Step::Cpu, refused)),
    }
}

/// Name of a vCPU's thread, such as `edge/vcpu0`.
fn name(vcpu: usize) -> [u8; NAME_LEN] {
    let mut name = [0; NAME_LEN];
    for (octets, word) in name.as_chunks_mut::<4>().0.iter_mut().zip(&NAME) {
        *octets = word.load(Relaxed).to_ne_bytes();
    }
    let end = name.iter().position(|octet| *octet == 0).unwrap_or(0);
    let tens = (vcpu >= 10).then_some(b'0' + (vcpu / 10) as u8);
    let suffix = b"/vcpu".iter().copied().chain(tens).chain([b'0' + (vcpu % 10) as u8]);
    // The last octet stays zero.
    name[end..NAME_LEN - 1].iter_mut().zip(suffix).for_each(|(place, octet)| *place = octet);
    name
}
