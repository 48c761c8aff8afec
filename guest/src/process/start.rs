//! From an empty process to a firmware that is about to run.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use bootinfo::process::{ANYWHERE, NAME_LEN, Report, SOCKET, Start, Step};
use bootinfo::{MAGIC, MAX_VCPUS, map};

use super::calls::{self, Mapping, Refused};
use super::filter::FILTER;
use super::{BUS_BELL, Failed, PROCESS, orders, set_doorbell};
use crate::firmware;

/// The lowest page of each stack is not there: who runs over it dies instead of writing into the next one.
const GUARD: u64 = 4096;

/// vCPU threads that are confined and wait for vCPU 0, or failed.
static ARRIVED: AtomicU32 = AtomicU32::new(0);
/// What one of them could not do: step in the upper half, error number in the lower; 0: nothing.
static TROUBLE: AtomicU32 = AtomicU32::new(0);
/// For the threads: what they are to be called and where they are to run.
static PLACES: [AtomicU32; MAX_VCPUS] = [const { AtomicU32::new(ANYWHERE) }; MAX_VCPUS];
static NAME: [AtomicU32; NAME_LEN / 4] = [const { AtomicU32::new(0) }; NAME_LEN / 4];

/// Where a process begins, on the stack that the kernel gave it.
pub(crate) extern "C" fn begin() -> ! {
    let report = match settle() {
        Ok(()) => Report { step: Step::Ready as u32, error: 0 },
        Err(Failed(step, Refused(error))) => Report { step: step as u32, error },
    };
    let [a, b, c, d] = report.step.to_ne_bytes();
    let [e, f, g, h] = report.error.to_ne_bytes();
    // Nobody there to hear it: then we are dead in a moment.
    let _ = calls::write(SOCKET, &[a, b, c, d, e, f, g, h]);
    if report.step != Step::Ready as u32 {
        calls::exit(1);
    }
    // SAFETY: the stack of vCPU 0 was mapped by `settle`, and nobody else uses it.
    unsafe { calls::continue_on(stack_top(0), firmware, 0) }
}

/// Maps everything, starts the other vCPUs and gives up the rest of the kernel.
fn settle() -> Result<(), Failed> {
    let (start, descriptors) = orders::start()?;
    let vcpus = start.vcpus as usize;
    let sane = (1..=MAX_VCPUS).contains(&vcpus) && (map::POOL..=map::MAX_RAM).contains(&start.ram);
    if start.magic != MAGIC || !sane {
        return Err(orders::NONSENSE);
    }
    let ram = descriptors.get(0)?;
    share(map::BOOT_INFO, start.ram - map::BOOT_INFO, true, (ram, map::BOOT_INFO))?;
    let mut next = 1;
    if start.fib > 0 {
        let fib = descriptors.get(next)?;
        share(map::FIB, start.fib, false, (fib, 0))?;
        next += 1;
    }
    BUS_BELL.store(descriptors.get(next)?, Relaxed);
    let mut missing = start.bells as usize;
    while missing > 0 {
        missing = missing.saturating_sub(orders::bells(&mut |bell, descriptor| {
            set_doorbell(bell.slot, bell.queue, descriptor)
        })?);
    }
    PROCESS.store(true, Relaxed);
    start_vcpus(&start, vcpus)?;
    arrange(0)
}

/// Maps shared memory and closes its descriptor: the mapping stays, and nobody can make another.
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
            Err(Failed(step, Refused(packed & 0xffff)))
        }
    }
}

/// Where vCPUs other than 0 begin.
extern "C" fn thread(vcpu: u64) -> ! {
    let arranged = arrange_but_filter(vcpu as usize);
    if let Err(Failed(step, Refused(error))) = arranged {
        TROUBLE.store((step as u32) << 16 | error & 0xffff, Relaxed);
    }
    // Waking is not allowed any more once the filter is there, so vCPU 0 is told before. It goes on to a filter of
    // its own and to building; this thread runs no firmware before it has its filter.
    ARRIVED.fetch_add(1, Release);
    calls::wake(&ARRIVED);
    if arranged.is_err() {
        // vCPU 0 says why and ends the process.
        calls::exit_thread();
    }
    if calls::confine(&FILTER).is_err() {
        calls::exit(1);
    }
    firmware(vcpu)
}

/// Names, places and confines the calling thread.
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

/// What a vCPU's thread is called: `edge/vcpu0`.
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
