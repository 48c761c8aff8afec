//! The program at the interface, and the map of sockets that it looks into. Both are made by bpf(2) alone; the program
//! is attached by a link, which the kernel takes away with its last descriptor.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::Error;

// Numbers of `linux/bpf.h`.
const MAP_CREATE: libc::c_long = 0;
const MAP_UPDATE: libc::c_long = 2;
const PROGRAM_LOAD: libc::c_long = 5;
const LINK_CREATE: libc::c_long = 28;
const MAP_OF_SOCKETS: u32 = 17;
const PROGRAM_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
const REDIRECT_MAP: i32 = 51;
const PSEUDO_MAP: u8 = 1;
/// What becomes of a frame whose queue has no socket: `XDP_DROP`.
const DROP: i32 = 1;
/// Where `struct xdp_md` has `rx_queue_index`.
const QUEUE: i16 = 16;
// Flags of `linux/if_link.h`.
const IN_SKB_MODE: u32 = 1 << 1;
const IN_DRIVER: u32 = 1 << 2;

/// Where the kernel runs the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// In the driver, before a frame becomes anything else.
    Driver,
    /// In the kernel's own receive path, where the driver cannot.
    Generic,
}

/// An attached program.
#[derive(Debug)]
pub(super) struct Attached {
    map: OwnedFd,
    _link: OwnedFd,
    hook: Hook,
}

impl Attached {
    /// Loads the program and attaches it to the interface with this index.
    pub(super) fn new(interface: &str, index: u32, queues: u32) -> Result<Self, Error> {
        let map = map_of_sockets(queues).map_err(|e| refusal("making a map of AF_XDP sockets", e))?;
        let program = load(map.as_fd()).map_err(|e| refusal("loading an XDP program", e))?;
        let (link, hook) = match attach(program.as_fd(), index, IN_DRIVER) {
            Err(e) if matches!(e.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EINVAL | libc::ERANGE)) => {
                (attach(program.as_fd(), index, IN_SKB_MODE), Hook::Generic)
            }
            attached => (attached, Hook::Driver),
        };
        let link = link.map_err(|e| match e.raw_os_error() {
            Some(libc::EBUSY | libc::EEXIST) => Error::ProgramAttached { name: interface.to_owned() },
            _ => refusal(&format!("attaching an XDP program to `{interface}`"), e),
        })?;
        Ok(Self { map, _link: link, hook })
    }

    /// Gives the frames of a queue to this socket.
    pub(super) fn direct(&self, queue: u32, socket: BorrowedFd<'_>) -> Result<(), Error> {
        let value = socket.as_raw_fd() as u32;
        let mut request = UpdateMap {
            map: self.map.as_raw_fd() as u32,
            unused: 0,
            key: (&raw const queue) as u64,
            value: (&raw const value) as u64,
            flags: 0,
        };
        // SAFETY: key and value are 4 octets each, as the map was made, and live during the call.
        unsafe { bpf(MAP_UPDATE, &mut request) }
            .map(drop)
            .map_err(|e| Error::system(format!("giving queue {queue} to a socket"), e))
    }

    /// Where it runs.
    pub(super) fn hook(&self) -> Hook {
        self.hook
    }
}

/// Memory of maps and programs is charged to the memory cgroup since Linux 5.11, and before that to RLIMIT_MEMLOCK, which
/// EPERM may mean as well.
fn refusal(what: &str, error: io::Error) -> Error {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => Error::NoBpf { what: what.to_owned() },
        _ => Error::system(what, error),
    }
}

#[repr(C)]
struct CreateMap {
    kind: u32,
    key: u32,
    value: u32,
    entries: u32,
    flags: u32,
}

fn map_of_sockets(queues: u32) -> io::Result<OwnedFd> {
    let mut request = CreateMap { kind: MAP_OF_SOCKETS, key: 4, value: 4, entries: queues, flags: 0 };
    // SAFETY: the request holds no pointer.
    unsafe { new_descriptor(MAP_CREATE, &mut request) }
}

#[repr(C)]
struct UpdateMap {
    map: u32,
    unused: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// One instruction: `struct bpf_insn`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Instruction {
    code: u8,
    /// Destination in the low four bits, source in the high ones.
    registers: u8,
    offset: i16,
    immediate: i32,
}

const fn instruction(code: u8, to: u8, from: u8, offset: i16, immediate: i32) -> Instruction {
    Instruction { code, registers: to | from << 4, offset, immediate }
}

/// Every frame to the socket of the queue that it came by; dropped where there is none.
pub(super) const fn program(map: i32) -> [Instruction; 6] {
    const LOAD_WORD: u8 = 0x61;
    const LOAD_WIDE: u8 = 0x18;
    const MOVE: u8 = 0xb7;
    const CALL: u8 = 0x85;
    const EXIT: u8 = 0x95;
    [
        // r2 = context.rx_queue_index; r1 = the map (two words); r3 = what else
        instruction(LOAD_WORD, 2, 1, QUEUE, 0),
        instruction(LOAD_WIDE, 1, PSEUDO_MAP, 0, map),
        instruction(0, 0, 0, 0, 0),
        instruction(MOVE, 3, 0, 0, DROP),
        // return redirect_map(r1, r2, r3)
        instruction(CALL, 0, 0, 0, REDIRECT_MAP),
        instruction(EXIT, 0, 0, 0, 0),
    ]
}

#[repr(C)]
struct LoadProgram {
    kind: u32,
    count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach: u32,
}

fn load(map: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let instructions = program(map.as_raw_fd());
    let mut request = LoadProgram {
        kind: PROGRAM_XDP,
        count: instructions.len() as u32,
        instructions: instructions.as_ptr() as u64,
        license: c"Apache-2.0".as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
        kernel: 0,
        flags: 0,
        name: *b"ringroad\0\0\0\0\0\0\0\0",
        interface: 0,
        attach: ATTACH_XDP,
    };
    // SAFETY: instructions and licence live during the call, with the lengths that are told.
    unsafe { new_descriptor(PROGRAM_LOAD, &mut request) }
}

#[repr(C)]
struct CreateLink {
    program: u32,
    interface: u32,
    attach: u32,
    flags: u32,
}

fn attach(program: BorrowedFd<'_>, interface: u32, flags: u32) -> io::Result<OwnedFd> {
    let program = program.as_raw_fd() as u32;
    let mut request = CreateLink { program, interface, attach: ATTACH_XDP, flags };
    // SAFETY: the request holds no pointer.
    unsafe { new_descriptor(LINK_CREATE, &mut request) }
}

/// A call that makes a descriptor; the kernel closes it on exec.
///
/// # Safety
/// As [`bpf`].
unsafe fn new_descriptor<T>(command: libc::c_long, request: &mut T) -> io::Result<OwnedFd> {
    // SAFETY: the caller vouches for the request.
    let fd = unsafe { bpf(command, request) }?;
    // SAFETY: the descriptor is new and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// bpf(2).
///
/// # Safety
/// `request` must be what the kernel reads for `command` (or the start of it), with all its pointers valid.
unsafe fn bpf<T>(command: libc::c_long, request: &mut T) -> io::Result<libc::c_int> {
    // SAFETY: the request is readable and writable for its size; the caller vouches for what is in it.
    let answer =
        unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(request), size_of::<T>()) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer as libc::c_int) }
}
