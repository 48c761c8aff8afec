//! What the tests inside the host in a box stand on: where the command and the guests' files are.
//!
//! The tests in `tests/` are built on the host and run by `cargo xtask box` as root of a machine that boots Debian's
//! kernel; on a host that has what they need, `cargo test -p ringroad-inbox` runs them as well.
#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use support::Namespace;

/// The command under test: the variable `RINGROAD`, else the one in `PATH`.
pub fn ringroad() -> String {
    std::env::var("RINGROAD").unwrap_or_else(|_| "ringroad".to_owned())
}

/// The kernel of a Linux guest, inside: unpacked, as unpacking takes longer than all that follows.
pub const GUEST_KERNEL: &str = "/guest/vmlinux";
/// The kernel of a Linux guest as it comes, which unpacks itself.
pub const GUEST_PACKED_KERNEL: &str = "/guest/vmlinuz";
/// Its first file system: busybox, `ip`, `ethtool`, `iperf3`, both NICs' drivers, and `tests/inbox/guest.sh`.
pub const GUEST_INITRD: &str = "/guest/initrd";

/// What a guest's kernel is told so that it is up soon: its console, nothing but errors on it, and not to look for AGP bridges at
/// 8192 places, twice (the emulated CPU is of a family that had some): each look is an exit or two.
pub const QUICKLY: &str = "console=ttyS0 quiet pci=noearly";

/// Whether this is the host in a box, where nobody else has anything.
pub fn inside() -> bool {
    std::env::var_os("RINGROAD_BOX").is_some()
}

/// Lets `host` run iperf3 with a server in a guest, both ways, each until it has moved so many octets. A server that is not there
/// yet, or not through with the one before, is asked again.
///
/// # Errors
/// What iperf3 said last, if it does not succeed within `patience`.
pub fn iperf(host: &Namespace, server: &str, octets: &str, patience: Duration) -> Result<()> {
    for direction in [&[][..], &["-R"]] {
        let end = Instant::now() + patience;
        loop {
            let mut iperf = host.command("iperf3");
            iperf.args(["-c", server, "-n", octets, "--connect-timeout", "60000"]).args(direction);
            let done = support::run(&mut iperf, patience)?;
            if done.status.success() {
                break;
            }
            let said = format!("{}{}", done.stdout, done.stderr);
            let soon = ["busy running", "refused", "unable to connect"].iter().any(|why| said.contains(why));
            ensure!(soon && Instant::now() < end, "iperf3 {server} {direction:?}: {said}");
            std::thread::sleep(Duration::from_millis(300));
        }
    }
    Ok(())
}

/// Pings 198.51.100.2 from there, by way of a router; every answer comes.
///
/// # Panics
/// One does not.
pub fn ping(from: &Namespace) {
    support::ping(from.command("busybox"), 3, &["198.51.100.2"]).expect("answers");
}
