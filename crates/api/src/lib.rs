//! What one can ask of a running instance: messages, framing, the control socket.
#![forbid(unsafe_code)]

/// Version of the protocol; a message of another one is refused.
pub const VERSION: u32 = 1;
