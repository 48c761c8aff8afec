//! XDP program of an interface, and its map of sockets. Both are created with bpf(2) alone; the program is
//! attached by a BPF link, which the kernel removes with its last descriptor.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use bpf::{Kind, Map, Purpose, attach_to_interface, instruction};

use crate::Error;

// Numbers from `linux/bpf.h`.
const REDIRECT_MAP: i32 = 51;
const PSEUDO_MAP: u8 = 1;
/// Action for a frame whose queue has no socket: `XDP_DROP`.
const DROP: i32 = 1;
/// Offset of `rx_queue_index` in `struct xdp_md`.
const QUEUE: i16 = 16;
// Flags from `linux/if_link.h`.
const IN_SKB_MODE: u32 = 1 << 1;
const IN_DRIVER: u32 = 1 << 2;

/// Hook at which the kernel runs the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// In the driver, before an skb is allocated.
    Driver,
    /// In the kernel's generic receive path, if the driver does not support XDP.
    Generic,
}

/// An attached program.
#[derive(Debug)]
pub(super) struct Attached {
    map: Map,
    _link: OwnedFd,
    hook: Hook,
}

impl Attached {
    /// Loads the program and attaches it to the interface with this index. `in_pieces`: for frames that may lie in several chunks.
    pub(super) fn new(interface: &str, index: u32, queues: u32, in_pieces: bool) -> Result<Self, Error> {
        let map =
            Map::new(Kind::Sockets, 4, queues).map_err(|e| refusal("making a map of AF_XDP sockets", e))?;
        let instructions = program(map.as_fd().as_raw_fd());
        let loaded = if in_pieces {
            bpf::load_for_pieces(&instructions)
        } else {
            bpf::load(Purpose::Interface, &instructions)
        };
        let program = loaded.map_err(|e| refusal("loading an XDP program", e))?;
        let (link, hook) = match attach_to_interface(program.as_fd(), index, IN_DRIVER) {
            Err(e) if matches!(e.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EINVAL | libc::ERANGE)) => {
                (attach_to_interface(program.as_fd(), index, IN_SKB_MODE), Hook::Generic)
            }
            attached => (attached, Hook::Driver),
        };
        let link = link.map_err(|e| match e.raw_os_error() {
            Some(libc::EBUSY | libc::EEXIST) => Error::ProgramAttached { name: interface.to_owned() },
            _ => refusal(&format!("attaching an XDP program to `{interface}`"), e),
        })?;
        Ok(Self { map, _link: link, hook })
    }

    /// Redirects the frames of a queue to this socket.
    pub(super) fn direct(&self, queue: u32, socket: BorrowedFd<'_>) -> Result<(), Error> {
        self.map
            .put(queue, &socket.as_raw_fd().to_ne_bytes())
            .map_err(|e| Error::system(format!("giving queue {queue} to a socket"), e))
    }

    /// Returns the hook at which it runs.
    pub(super) fn hook(&self) -> Hook {
        self.hook
    }
}

/// Returns the error for a refused request. Memory of maps and programs is charged to the memory cgroup since
/// Linux 5.11, and to RLIMIT_MEMLOCK before that, which is another possible cause of EPERM.
fn refusal(what: &str, error: io::Error) -> Error {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => Error::NoBpf { what: what.to_owned() },
        _ => Error::system(what, error),
    }
}

/// Redirects every frame to the socket of its receive queue, or drops it if there is none.
pub(super) const fn program(map: i32) -> [u64; 6] {
    const LOAD_WORD: u8 = 0x61;
    const LOAD_WIDE: u8 = 0x18;
    const MOVE: u8 = 0xb7;
    const CALL: u8 = 0x85;
    const EXIT: u8 = 0x95;
    [
        // r2 = context.rx_queue_index; r1 = the map (two words); r3 = the action otherwise
        instruction(LOAD_WORD, (2, 1), QUEUE, 0),
        instruction(LOAD_WIDE, (1, PSEUDO_MAP), 0, map),
        instruction(0, (0, 0), 0, 0),
        instruction(MOVE, (3, 0), 0, DROP),
        // return redirect_map(r1, r2, r3)
        instruction(CALL, (0, 0), 0, REDIRECT_MAP),
        instruction(EXIT, (0, 0), 0, 0),
    ]
}
