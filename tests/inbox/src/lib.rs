//! What the tests inside the host in a box stand on: where the command and the guests' files are.
//!
//! The tests in `tests/` are built on the host and run by `cargo xtask box` as root of a machine that boots Debian's
//! kernel; on a host that has what they need, `cargo test -p ringroad-inbox` runs them as well.
#![forbid(unsafe_code)]

/// The command under test: the variable `RINGROAD`, else the one in `PATH`.
pub fn ringroad() -> String {
    std::env::var("RINGROAD").unwrap_or_else(|_| "ringroad".to_owned())
}

/// The kernel of a Linux guest, inside.
pub const GUEST_KERNEL: &str = "/guest/vmlinuz";
/// Its first file system: busybox, `ip`, `ethtool`, `iperf3`, both NICs' drivers, and `tests/inbox/guest.sh`.
pub const GUEST_INITRD: &str = "/guest/initrd";

/// Whether this is the host in a box, where nobody else has anything.
pub fn inside() -> bool {
    std::env::var_os("RINGROAD_BOX").is_some()
}
