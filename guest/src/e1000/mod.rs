//! Driver of the 82540EM, in one of two variants: with a status block ([`StatusBlockDriver`]), or in the manner of Linux's driver, with
//! or without send combining ([`InterruptDriver`]).
//!
//! The device has one queue and one interrupt, so the first vCPU moves all its frames. If there are more vCPUs, the last
//! one serves the interrupts ([`InterruptOnly`]).

mod block;
mod device;
mod interrupt;
mod offload;
mod received;
mod registers;
mod stock;
mod tail;

pub(crate) use block::StatusBlockDriver;
pub(crate) use device::Device;
pub(crate) use interrupt::InterruptOnly;
pub(crate) use stock::InterruptDriver;
