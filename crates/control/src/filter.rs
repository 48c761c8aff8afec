//! Filter for the socket on which the kernel reports changes: it drops what FPM brings anyway. A million routes of BGP would fill
//! the socket's buffer, and after an overrun all tables have to be dumped again.

use bpf::instruction;

/// Offsets in a message: its type in `struct nlmsghdr`, and the protocol in `struct rtmsg` behind it.
const TYPE: i32 = 4;
const PROTOCOL: i32 = 16 + 5;
/// Types of messages about routes (RTM_NEWROUTE, RTM_DELROUTE).
const ROUTES: [u16; 2] = [24, 25];
/// Protocols as in [`fpm::is_zebras`]: zebra's own, and the first and last of its daemons.
const ZEBRA: i32 = 11;
const DAEMONS: [i32; 2] = [186, 198];

// Operations of `linux/bpf.h`.
const MOVE_REGISTER: u8 = 0xbf;
const MOVE: u8 = 0xb7;
const LOAD_SHORT: u8 = 0x28;
const LOAD_OCTET: u8 = 0x30;
const IF_EQUAL: u8 = 0x15;
const IF_NOT_EQUAL: u8 = 0x55;
const IF_LESS: u8 = 0xa5;
const IF_AT_MOST: u8 = 0xb5;
const EXIT: u8 = 0x95;

/// Program of type socket filter that passes all messages except those about zebra's routes. The kernel reports each change in a
/// datagram of its own.
///
/// That one of zebra's routes has replaced another program's is not passed either, so that the mirror keeps that one: it needs the
/// metric of zebra's routes (20), which routes of the file and of `ip route` do not have by default. Passing all replacements would
/// fill the buffer whenever BGP changes many routes.
pub fn without_routes_of_zebra() -> [u64; 12] {
    // A load of 16 bits reads them in network order.
    let [added, deleted] = ROUTES.map(|kind| i32::from(u16::from_be_bytes(kind.to_ne_bytes())));
    [
        // Loads from a message expect the context in register 6, and their result is in register 0.
        instruction(MOVE_REGISTER, (6, 1), 0, 0),
        instruction(LOAD_SHORT, (0, 0), 0, TYPE),
        instruction(IF_EQUAL, (0, 0), 1, added),
        instruction(IF_NOT_EQUAL, (0, 0), 4, deleted),
        instruction(LOAD_OCTET, (0, 0), 0, PROTOCOL),
        instruction(IF_EQUAL, (0, 0), 4, ZEBRA),
        instruction(IF_LESS, (0, 0), 1, DAEMONS[0]),
        instruction(IF_AT_MOST, (0, 0), 2, DAEMONS[1]),
        // Pass the whole message.
        instruction(MOVE, (0, 0), 0, -1),
        instruction(EXIT, (0, 0), 0, 0),
        // Drop it.
        instruction(MOVE, (0, 0), 0, 0),
        instruction(EXIT, (0, 0), 0, 0),
    ]
}

#[cfg(test)]
mod tests;
