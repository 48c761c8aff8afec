//! Arbitrary replies of a peer that is to be handed a NIC's rings. Nothing panics, and no thread waits for replies that do not
//! come.

use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

use vhost_user::frontend::Session;

/// Most octets used, more than all valid replies together.
const MOST: usize = 4096;

/// Starts a session with a peer whose replies are `input`.
pub(crate) fn run(input: &[u8]) {
    let Ok((ours, mut theirs)) = UnixStream::pair() else { return };
    if theirs.write_all(&input[..input.len().min(MOST)]).is_err() || theirs.shutdown(Shutdown::Write).is_err()
    {
        return;
    }
    match Session::greet(ours) {
        Ok(session) => assert!(session.offer().features >> 32 & 1 == 1, "it speaks virtio 1.0"),
        Err(why) => assert!(!why.to_string().contains('\n'), "one line"),
    }
}
