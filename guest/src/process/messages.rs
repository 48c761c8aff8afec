//! Messages received through the socket: boot parameters and descriptors.

use core::mem::MaybeUninit;

use bootinfo::process::{BELLS_A_MESSAGE, Bell, SOCKET, Start, Step};

use super::Failed;
use super::calls::{self, Errno, IoVec, Message};

/// Most descriptors in one message: RAM, route table, what a member of a group has, and bus bell, or a batch of doorbells.
const DESCRIPTORS: usize = BELLS_A_MESSAGE;
/// Octets before the descriptors in a control message: length, level and type.
const CONTROL_HEADER: usize = 16;
const SOL_SOCKET: u32 = 1;
const SCM_RIGHTS: u32 = 1;
/// Flags of a truncated message: its data (MSG_TRUNC), its control data (MSG_CTRUNC).
const CUT_OFF: u64 = 0x20 | 0x08;
/// Error number that reports an invalid message.
const EPROTO: u32 = 71;

/// Buffer for descriptors with their control header, aligned as the kernel requires.
#[repr(C, align(8))]
struct Control {
    len: u64,
    level: u32,
    kind: u32,
    descriptors: [i32; DESCRIPTORS],
}

/// Descriptors received with a message.
pub(super) struct Descriptors {
    all: [i32; DESCRIPTORS],
    count: usize,
}

impl Descriptors {
    /// Returns the descriptor at `index`.
    pub(super) fn get(&self, index: usize) -> Result<i32, Failed> {
        self.all[..self.count].get(index).copied().ok_or(NONSENSE)
    }
}

/// Error for an invalid message.
pub(super) const NONSENSE: Failed = Failed(Step::Orders, Errno(EPROTO));

/// Receives the first message: the start parameters, and the descriptors of what is to be mapped and of the bus bell.
pub(super) fn start() -> Result<(Start, Descriptors), Failed> {
    let mut start = MaybeUninit::<Start>::uninit();
    let (octets, descriptors) = receive(start.as_mut_ptr().cast(), size_of::<Start>())?;
    if octets != size_of::<Start>() {
        return Err(NONSENSE);
    }
    // SAFETY: all octets of it were received, and `Start` consists of integers.
    Ok((unsafe { start.assume_init() }, descriptors))
}

/// Receives the next doorbells, each with its descriptor.
pub(super) fn bells(take: &mut dyn FnMut(Bell, i32) -> Result<(), Failed>) -> Result<usize, Failed> {
    let mut bells = [Bell::default(); BELLS_A_MESSAGE];
    let (octets, descriptors) = receive(bells.as_mut_ptr().cast(), size_of_val(&bells))?;
    let count = octets / size_of::<Bell>();
    if count == 0 {
        return Err(NONSENSE);
    }
    for (index, bell) in bells[..count].iter().enumerate() {
        take(*bell, descriptors.get(index)?)?;
    }
    Ok(count)
}

/// Receives a message of at most `len` octets into `place`; returns its length and its descriptors.
fn receive(place: *mut u8, len: usize) -> Result<(usize, Descriptors), Failed> {
    let mut part = IoVec { start: place, len: len as u64 };
    let mut control = Control { len: 0, level: 0, kind: 0, descriptors: [-1; DESCRIPTORS] };
    let mut message = Message {
        name: 0,
        name_len: 0,
        parts: &raw mut part,
        part_count: 1,
        control: (&raw mut control).cast(),
        control_len: size_of::<Control>() as u64,
        flags: 0,
    };
    // SAFETY: the callers pass a place of that length, and the rest is on this stack.
    let octets = unsafe { calls::receive(SOCKET, &mut message) };
    let octets = octets.map_err(|refused| Failed(Step::Orders, refused))?;
    let rights = (control.level, control.kind) == (SOL_SOCKET, SCM_RIGHTS);
    if octets == 0 || message.flags & CUT_OFF != 0 || !rights {
        return Err(NONSENSE);
    }
    let count = (control.len as usize).saturating_sub(CONTROL_HEADER) / size_of::<i32>();
    Ok((octets as usize, Descriptors { all: control.descriptors, count: count.min(DESCRIPTORS) }))
}
