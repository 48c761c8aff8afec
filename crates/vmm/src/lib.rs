//! Small virtual machine monitor for firmware guests, which run in ring 3 under KVM or in a process.
//!
//! `machine` combines RAM (`memory`), PCI (`bus`), interrupts (`irq`) and doorbells. `vm` runs it with KVM:
//! boot state (`boot`, `stubs`), vCPUs (`vcpu`), stores that the kernel collects (`coalesced`). `process`
//! runs it without KVM. `attach` connects a NIC model to the bus, interrupts, event descriptors and the NIC's
//! queues (`nic_port`).

// `eprintln!` panics if standard error has no reader. A data plane's output there may be lost, but must not
// cause a panic.
#![cfg_attr(not(test), deny(clippy::print_stderr))]

pub mod attach;
mod boot;
pub mod bus;
mod coalesced;
#[cfg(test)]
#[path = "../../../fuzz/bodies/corpus.rs"]
mod corpus;
mod cpuid;
mod doorbells;
mod firmware;
mod futex;
pub mod irq;
pub mod kernel_thread;
pub mod linux;
pub mod machine;
pub mod memory;
mod neighbour_table;
mod pace;
pub mod pc;
pub mod probe;
pub mod process;
pub mod route_table;
mod steps;
mod stubs;
pub mod vcpu;
pub mod vhost_net;
pub mod vm;

pub use attach::{E1000Nic, Model, attach, attach_handed};
pub use firmware::Firmware;
pub use irq::{IrqLine, IrqRouter, Message};
pub use kvm_ioctls::Kvm;
pub use machine::{GroupMemory, Machine, MachineConfig};
pub use memory::{GuestRam, SharedMemory};
pub use neighbour_table::{MemberDesk, NeighbourTable};
pub use process::{Child, Forker, Process, Spawn, Spawned};
pub use route_table::{Room6, RouteTable};
pub use steps::Steps;
pub use stubs::INTERRUPT_VECTOR;
pub use vcpu::{Stopped, Vcpu};
pub use vhost_net::{KernelVhost, VhostNet};
pub use vm::{Vm, open_kvm};

/// Entry point of the fuzz target `coalesced`.
#[cfg(feature = "fuzz")]
pub fn fuzz_coalesced(input: &[u8]) {
    coalesced::fuzzed::run(input);
}
