//! NIC device models as pure state machines: no file descriptor, thread, clock or lock.
#![forbid(unsafe_code)]

pub mod pci;
pub mod virtio_net;
