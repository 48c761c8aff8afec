//! Machines under software emulation that boot Debian's own kernel: the *host in a box* (`cargo xtask box`), which has
//! a real ring 0, `/dev/kvm`, `/dev/vhost-net` and every module of Debian's kernel, and stock guests for tests.
//!
//! A machine consists of three parts, none of which needs root:
//!
//! * [`Kernel`]: Debian's package, downloaded once and unpacked into a folder, never installed;
//! * [`Initramfs`]: files of this host (programs with their libraries), modules, a script to start with;
//! * [`Machine`]: a command line of QEMU, and its result.
//!
//! ```no_run
//! # fn main() -> anyhow::Result<()> {
//! use std::{path::Path, time::Duration};
//! use hostbox::{Initramfs, Kernel, Machine};
//!
//! let kernel = Kernel::obtain(Path::new("target/box"))?;
//! let mut files = Initramfs::new();
//! files.program("busybox")?;
//! files.modules(&kernel, &["virtio_pci", "virtio_net"])?;
//! files.init("ip link\nexit 0\n");
//! files.write(Path::new("target/box/guest.cpio"))?;
//!
//! let mut machine = Machine::new(&kernel, Path::new("target/box/guest.cpio"));
//! machine.memory(256).arguments(["-netdev", "user,id=n0", "-device", "virtio-net-pci,netdev=n0,vectors=0"]);
//! let (limit, silence) = (Duration::from_secs(60), Duration::from_secs(30));
//! let end = machine.run(limit, silence, &mut |line| println!("{line}"))?;
//! assert_eq!(end, hostbox::End::Status(0));
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod cpio;
mod image;
mod initramfs;
mod kernel;
mod machine;
mod modules;
mod programs;

pub use initramfs::Initramfs;
pub use kernel::Kernel;
pub use machine::{End, Machine};
