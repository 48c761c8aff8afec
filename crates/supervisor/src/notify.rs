//! Status notifications to a service manager (sd_notify(3)), if `NOTIFY_SOCKET` names its socket.

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Sends a state such as `READY=1`. It is lost if nothing listens.
pub(super) fn notify(state: &str) {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else { return };
    // If sending fails, it is up to the manager to notice.
    let _ = tell(socket.as_encoded_bytes(), state);
}

fn tell(socket: &[u8], state: &str) -> std::io::Result<usize> {
    let address = match socket.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(OsStr::from_bytes(socket))?,
    };
    let sender = UnixDatagram::unbound()?;
    sender.set_nonblocking(true)?;
    sender.send_to_addr(state.as_bytes(), &address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manager_is_told_by_either_kind_of_address() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notify");
        let name = format!("ringroad-test-{}", std::process::id());
        let abstracted = SocketAddr::from_abstract_name(name.as_bytes()).expect("a name");
        let managers = [UnixDatagram::bind(&path), UnixDatagram::bind_addr(&abstracted)];
        let addresses = [path.as_os_str().as_bytes().to_vec(), format!("@{name}").into_bytes()];
        for (manager, address) in managers.into_iter().zip(addresses) {
            assert_eq!(tell(&address, "READY=1").expect("told"), 7);
            let mut heard = [0; 32];
            let n = manager.expect("bound").recv(&mut heard).expect("heard");
            assert_eq!(heard[..n], *b"READY=1");
        }
    }

    #[test]
    fn a_manager_that_is_not_there_is_no_trouble() {
        assert!(tell(b"/there/is/no/such/socket", "READY=1").is_err());
        assert!(tell(b"", "READY=1").is_err());
    }
}
