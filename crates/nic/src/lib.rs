//! NIC device models as pure state machines: no file descriptor, thread, clock or lock.
#![forbid(unsafe_code)]

pub mod e1000;
pub mod moderation;
pub mod pci;
pub mod queue;
pub mod virtio_net;
