//! A small KVM virtual machine monitor for firmware guests that run in ring 3.
//!
//! `vm` puts together RAM (`memory`), the state at boot (`boot`, `stubs`), vCPUs (`vcpu`), PCI (`bus`) and
//! interrupts (`irq`). `attach` joins a NIC model, the bus, event descriptors and a switch port.

pub mod attach;
mod boot;
pub mod bus;
pub mod irq;
pub mod memory;
pub mod nic_port;
pub mod probe;
pub mod route_table;
mod stubs;
pub mod vcpu;
pub mod vm;

pub use attach::attach;
pub use irq::{IrqLine, IrqRouter, Message};
pub use memory::{GuestRam, SharedMemory};
pub use nic_port::NicQueues;
pub use route_table::RouteTable;
pub use stubs::INTERRUPT_VECTOR;
pub use vcpu::{Stopped, Vcpu};
pub use vm::{Vm, VmConfig, open_kvm};
