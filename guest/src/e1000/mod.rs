//! The driver of the 82540EM, in one of two ways: with a status block ([`Block`]), or as Linux's driver works, with or
//! without send combining ([`Stock`]).
//!
//! The device has one queue and one interrupt, so one vCPU moves all its frames: the first. Where there is another one, the
//! last takes the interrupt ([`Aside`]).

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
