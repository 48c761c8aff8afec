//! Common parts of the tests inside the host in a box: paths of the command and of the guests' files.
//!
//! The tests in `tests/` are built on the host and run by `cargo xtask box` as root of a machine that boots Debian's kernel; on a
//! host that meets their requirements, `cargo test -p ringroad-inbox` runs them as well.
#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use support::Namespace;

/// The command under test: the variable `RINGROAD`, or else the one in `PATH`.
pub fn ringroad() -> String {
    std::env::var("RINGROAD").unwrap_or_else(|_| "ringroad".to_owned())
}

/// Path of a Linux guest's kernel inside: uncompressed, because decompression takes longer than the rest of the boot.
pub const GUEST_KERNEL: &str = "/guest/vmlinux";
/// Path of a Linux guest's original kernel, which decompresses itself.
pub const GUEST_PACKED_KERNEL: &str = "/guest/vmlinuz";
/// Path of its initramfs: busybox, `ip`, `ethtool`, `iperf3`, both NICs' drivers, and `tests/inbox/guest.sh`.
pub const GUEST_INITRD: &str = "/guest/initrd";

/// Kernel command line for a quick boot: serial console, only errors on it, and no search for AGP bridges at 8192 places, twice
/// (the emulated CPU is of a family that had some): each probe is an exit or two.
pub const QUICKLY: &str = "console=ttyS0 quiet pci=noearly";

/// Returns true inside the host in a box, which the tests have for themselves.
pub fn inside() -> bool {
    std::env::var_os("RINGROAD_BOX").is_some()
}

/// Runs iperf3 on `host` with a server in a guest, in both directions, each until it has moved this many octets. If the server is
/// not up yet, or not finished with the previous client, it is tried again.
///
/// # Errors
/// The last message of iperf3, if it does not succeed within `patience`.
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

/// Pings 198.51.100.2 from there, through a router; every ping must be answered.
///
/// # Panics
/// A ping is not answered.
pub fn ping(from: &Namespace) {
    support::ping(from.command("busybox"), 3, &["198.51.100.2"]).expect("answers");
}
