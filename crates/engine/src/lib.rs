//! Execution engine for one router file: runs each router as a virtual machine or as a process with the
//! firmware.
#![forbid(unsafe_code)]

pub mod apply;
mod arp_conflicts;
pub mod clock;
mod control;
mod counts;
mod ensemble;
mod farewell;
pub mod group_routes;
mod groups;
pub mod guest;
pub mod instance;
pub mod io_thread;
mod isolated_paths;
mod kernel_port;
mod kernel_vhost;
mod look_after;
mod next_hops;
mod observed_time;
pub mod recording;
pub mod routes;
mod shortages;
pub mod supplies;
mod tables;
mod take_down;
mod task;
pub mod tracing;
pub mod watch;
mod wiring;

pub use apply::Change;
pub use attach::safe_open::create_patiently;
pub use control::{Learning, ShadowCounters, SortedCounters};
pub use counts::{CounterRegistry, now_ns};
#[cfg(feature = "fuzz")]
pub use ensemble::fuzz_discovery;
pub use ensemble::{EnsembleCounters, GroupNicCounters, SeatCounters, WithheldCounters};
pub use group_routes::{GroupRoutes, RouteEdit};
pub use guest::{ExecutionBackend, Guest, GuestTask, Images};
pub use instance::slot::{LONGEST_START, LONGEST_STOP};
pub use instance::{About, Event, Instance, Relayed, RouterStatus, RunningRouter, State};
pub use io_thread::{Idle, IoThread, IoThreadCounters, Pump};
pub use kernel_vhost::{KernelNic, KernelThreads, vhost_nets};
pub use look_after::BackOff;
pub use next_hops::told as next_hop_changes;
pub use port::LimitCounters;
pub use recording::{Recording, RecordingOrder};
pub use sandbox::{Class, Confinement};
pub use supplies::{GroupSupplies, HostServices, Plugs};
pub use switch::balancer::{BalancerCounters, MemberCounters};
pub use tables::Tables;
pub use threads::{Thread, pin_current};
pub use tracing::{AskedWay, Order as TraceOrder, Trace, add_way};
pub use vmm::linux::ConsoleCounters;
