//! Driver of the 82540EM, in one of two variants: with a status block ([`Block`]), or in the manner of Linux's driver, with
//! or without send combining ([`Stock`]).
//!
//! The device has one queue and one interrupt, so the first vCPU moves all its frames. If there are more vCPUs, the last
//! one serves the interrupts ([`Aside`]).

mod block;
mod device;
mod interrupt;
mod offload;
mod received;
mod registers;
mod stock;
mod tail;

pub(crate) use block::Block;
pub(crate) use device::Device;
pub(crate) use interrupt::Aside;
pub(crate) use stock::Stock;
