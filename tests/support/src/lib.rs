//! Common parts of the end-to-end tests.
//!
//! A test first states what it needs of the host ([`needs!`]); if that is missing, it prints one line and passes,
//! and `cargo xtask test` counts it as skipped. It compares [`Traces`] before and after, starts every process as
//! a [`Running`], which ends the process when dropped, and lets [`dissect`] read captured frames with an
//! independent parser.
//!
//! ```no_run
//! use std::{process::Command, time::Duration};
//! use support::{Running, Signal, Traces};
//!
//! fn nothing_is_left() {
//!     support::needs!(Root, Kvm, Tun);
//!     let before = Traces::now();
//!     let mut command = Running::start(Command::new("ringroad").args(["run", "x.toml"])).unwrap();
//!     command.wait_for_line(Duration::from_secs(5), |line| line.contains("edge")).unwrap();
//!     command.signal(Signal::INT).unwrap();
//!     assert!(command.wait(Duration::from_secs(5)).unwrap().status.success());
//!     assert_eq!(Traces::left(&before, Duration::from_secs(2)), [""; 0]);
//! }
//! ```
#![deny(unsafe_code)] // but for bind(2) in `wire`, ptrace(2) in `inject`, a child's limits in `limits`

pub mod attack;
mod capture;
mod cpu;
mod dissect;
mod flow;
mod huge_pages;
mod inject;
mod limits;
mod made_once;
mod namespace;
mod needs;
mod ovs;
mod paced;
mod packet;
mod pci_tree;
mod ping;
mod process;
pub mod qemu;
mod random_times;
mod running;
mod scheduled;
pub mod schema;
mod script;
mod settled;
mod stage;
mod testpmd;
mod traces;
mod transfer;
mod unprivileged_locker;
mod until_some;
pub mod vhost_peer;
mod wire;

pub use capture::{Capture, pcap_frames};
pub use cpu::{on_cpu, put_on_cpu, ran_and_waited};
pub use dissect::{CHECKSUMS, Dissected, differences, dissect};
pub use flow::{Flow, Tally};
pub use huge_pages::HugePages;
pub use inject::{Injected, inject_syscall};
pub use limits::{Limits, SmallDisk};
pub use made_once::{COMMON_FOLDER, common_folder, made_once};
pub use namespace::Namespace;
pub use needs::{Need, missing};
pub use ovs::Ovs;
pub use paced::PacedSender;
pub use packet::{Mac, Packet, checksum, udp};
pub use pci_tree::{PciDevice, PciTree, address_of_igb};
pub use ping::{answers, ping};
pub use process::{Memory, Process, children_of, descendants_of, threads_of};
pub use random_times::RandomTimes;
pub use running::{Finished, Running, run};
pub use rustix::process::Signal;
pub use scheduled::{Scheduled, allowed_cpus, router_threads};
pub use script::Script;
pub use stage::{Counters, Stage, alone};
pub use testpmd::Testpmd;
pub use traces::Traces;
pub use transfer::{datagrams, echo, transfer};
pub use unprivileged_locker::{UnprivilegedLocker, all_below};
pub use until_some::until_some;
pub use wire::PacketSocket;
