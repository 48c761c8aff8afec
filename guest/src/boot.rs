//! Boot: from the boot information to a vCPU that is ready to serve.

use core::sync::atomic::{AtomicPtr, Ordering};

use arrayvec::ArrayVec;
use bootinfo::{BootFailure, BootInfo, Desk, MAGIC, MAX_NICS, MAX_TABLES, MAX_VCPUS, Role, Shared, map};
use router::{Bucket, Neighbours, neighbours};

use crate::arena::Arena;
use crate::buffer::{HEADROOM, JUMBO, Pool, STRIDE};
use crate::halt::Mailbox;
use crate::nic::{self, Device};
use crate::platform::Firmware;
use crate::process;

/// Each vCPU's state, built by vCPU 0.
static STATES: [AtomicPtr<Vcpu>; MAX_VCPUS] = [const { AtomicPtr::new(core::ptr::null_mut()) }; MAX_VCPUS];

/// Ring entries assumed for a router with smaller rings, so that a burst always finds buffers.
const MIN_ENTRIES: usize = 256;
/// Buffers per ring entry. All rings may be full at once; doubling the number would let both sides run ahead of each
/// other.
const BUFFERS_AN_ENTRY: usize = 1;

/// State of one vCPU.
pub(crate) struct Vcpu {
    pub(crate) index: usize,
    pub(crate) info: &'static BootInfo,
    /// True if it moves frames; otherwise it serves the interrupts of NICs whose frames another vCPU moves.
    pub(crate) moves: bool,
    pub(crate) firmware: Firmware,
    pub(crate) mailbox: Mailbox,
    /// The NICs' Ethernet addresses.
    pub(crate) macs: ArrayVec<[u8; 6], MAX_NICS>,
    /// Arena for the role's own state.
    pub(crate) arena: Arena,
    /// Neighbour tables, one for each route table, shared by all vCPUs.
    pub(crate) neighbours: &'static [Neighbours<'static>],
}

/// Words that one vCPU of a member of a group shares with the host, beside those in RAM.
#[derive(Clone, Copy)]
pub(crate) struct OwnDesk {
    pub(crate) desk: &'static Desk,
    pub(crate) vcpu: usize,
}

/// Returns the desk of a vCPU; `None`: this router is no member of a group.
fn desk(info: &BootInfo, vcpu: usize) -> Option<OwnDesk> {
    // SAFETY: the VMM maps a desk there for the guest's whole life (`BootInfo::group_neighbours`); it consists of atomics only.
    let desk = (info.group_neighbours > 0).then(|| unsafe { &*(map::DESK as *const Desk) })?;
    Some(OwnDesk { desk, vcpu })
}

/// Returns the words shared with the host.
pub(crate) fn shared() -> &'static Shared {
    // SAFETY: the VMM maps this RAM for the guest's whole life; `Shared` consists of atomics only.
    unsafe { &*(map::SHARED as *const Shared) }
}

/// Returns the host's boot information, if it has the format that this firmware knows.
fn info() -> Result<&'static BootInfo, BootFailure> {
    // SAFETY: the VMM wrote a `BootInfo` here before the first vCPU ran and never changes it.
    let info = unsafe { &*(map::BOOT_INFO as *const BootInfo) };
    let fits = (1..=MAX_VCPUS as u32).contains(&info.vcpus) && info.nic_count as usize <= MAX_NICS;
    let is_for_us = info.magic == MAGIC && fits && info.is_jumbo() == JUMBO;
    if is_for_us { Ok(info) } else { Err(BootFailure::BootInfo) }
}

/// Returns this vCPU's state; vCPU 0 first builds the states of all vCPUs. In a process the others sleep meanwhile; in a
/// virtual machine the host runs them only afterwards, unless it is another VMM.
pub(crate) fn vcpu(index: usize) -> Result<&'static mut Vcpu, BootFailure> {
    if index == 0 {
        build(info()?)?;
    }
    let mailbox = Mailbox::new(&shared().mailbox[index].0);
    loop {
        let seen = mailbox.seen();
        let state = STATES[index].load(Ordering::Acquire);
        // SAFETY: not null: vCPU 0 stored it for this vCPU alone, which takes it only once.
        if let Some(state) = unsafe { state.as_mut() } {
            return Ok(state);
        }
        if shared().vcpus[0].state.0.load(Ordering::Acquire) > 1 {
            // vCPU 0 gave up: no state will be stored.
            return Err(BootFailure::Nic);
        }
        if process::is_running() {
            mailbox.sleep(seen);
        } else {
            core::hint::spin_loop();
        }
    }
}

fn build(info: &'static BootInfo) -> Result<(), BootFailure> {
    let vcpus = info.vcpus as usize;
    let mut devices = ArrayVec::<Device, MAX_NICS>::new();
    for (index, nic) in info.nics[..info.nic_count as usize].iter().enumerate() {
        devices.push(Device::open(nic, index, info).ok_or(BootFailure::Nic)?);
    }
    nic::negotiate(info, &mut devices).ok_or(BootFailure::Nic)?;
    let mut states = ArrayVec::<&'static mut Vcpu, MAX_VCPUS>::new();
    let mut arena = Arena::part(info.ram, 0, vcpus);
    let mut first = Some(arena.split_off(map::start_up(devices.len() as u64)));
    let neighbours =
        first.as_mut().and_then(|arena| neighbour_tables(info, arena)).ok_or(BootFailure::Memory)?;
    for index in 0..vcpus {
        let own = first.take().unwrap_or_else(|| Arena::part(info.ram, index, vcpus));
        states.push(vcpu_state(info, (index, neighbours), &mut devices, own)?);
    }
    for device in &devices {
        device.run(&mut arena).ok_or(BootFailure::Nic)?;
    }
    for state in states {
        let mailbox = &shared().mailbox[state.index].0;
        STATES[state.index].store(state, Ordering::Release);
        if process::is_running() {
            mailbox.fetch_add(1, Ordering::Release);
            process::wake(mailbox);
        }
    }
    Ok(())
}

/// Returns the neighbour table of the group that this router is a member of.
fn group_neighbours(info: &BootInfo) -> Option<Neighbours<'static>> {
    let len = info.group_neighbours as usize;
    let count = neighbours::shared_buckets(len);
    let first = map::NEIGHBOURS as usize + size_of::<neighbours::Header>();
    // SAFETY: `len` octets are mapped there for the guest's whole life, read-only, and only the host changes them. Header and
    // buckets lie inside them, aligned, and consist of atomics only; a bucket is never written here.
    let (header, buckets) = unsafe {
        let header = &*(map::NEIGHBOURS as *const neighbours::Header);
        (header, core::slice::from_raw_parts(first as *const Bucket, count))
    };
    (count > 0).then(|| Neighbours::read_only(header, buckets))
}

/// Creates the neighbour tables, of the size that the host wants, or finds that of the group.
fn neighbour_tables(info: &BootInfo, arena: &mut Arena) -> Option<&'static [Neighbours<'static>]> {
    if info.group_neighbours > 0 {
        let table = arena.keep(group_neighbours(info)?)?;
        return Some(core::slice::from_ref(table));
    }
    let routes = matches!(Role::from_number(info.role), Some(Role::Router | Role::Hostile));
    let wanted = if routes { info.neighbour_table as usize } else { neighbours::LEAST };
    let wanted = wanted.clamp(neighbours::LEAST, neighbours::MOST);
    let tables = arena.keep(ArrayVec::<Neighbours<'static>, MAX_TABLES>::new_const())?;
    for _ in 0..info.tables.clamp(1, MAX_TABLES as u32) {
        // SAFETY: a bucket consists of atomics, for which every bit pattern is valid; zeros are an empty one.
        let buckets = unsafe { arena.zeroed_slice::<Bucket>(neighbours::buckets(wanted)) }?;
        tables.push(Neighbours::new(buckets));
    }
    Some(tables.as_slice())
}

fn vcpu_state(
    info: &'static BootInfo,
    (index, neighbours): (usize, &'static [Neighbours<'static>]),
    devices: &mut [Device],
    mut arena: Arena,
) -> Result<&'static mut Vcpu, BootFailure> {
    // Built in its place, NIC by NIC: all of it is too large for a stack.
    let place = arena.place::<Vcpu>().ok_or(BootFailure::Memory)?;
    let (words, moves) = (shared(), index < nic::movers(info));
    let vcpu = place.write(Vcpu {
        index,
        info,
        moves,
        firmware: Firmware::new(&words.vcpus[index], desk(info, index), info.tsc_khz),
        mailbox: Mailbox::new(&words.mailbox[index].0),
        macs: ArrayVec::new_const(),
        arena,
        neighbours,
    });
    for device in devices {
        let nic = device.nic(index, &mut vcpu.arena).ok_or(BootFailure::Memory)?;
        vcpu.firmware.add(nic);
        vcpu.macs.push(device.mac());
    }
    let entries = vcpu.firmware.entries().max(MIN_ENTRIES);
    let buffers = if moves { entries * BUFFERS_AN_ENTRY } else { 0 };
    let pool = pool(&mut vcpu.arena, buffers).ok_or(BootFailure::Memory)?;
    vcpu.firmware.stock(pool);
    Ok(vcpu)
}

/// Creates a pool of fresh buffers.
fn pool(arena: &mut Arena, buffers: usize) -> Option<Pool> {
    let mut pool = Pool::new(arena.slice(buffers as u64, 0u64)?);
    let first = arena.take(HEADROOM + buffers as u64 * STRIDE, 64)? + HEADROOM;
    for index in (0..buffers as u64).rev() {
        pool.give(first + index * STRIDE);
    }
    Some(pool)
}
