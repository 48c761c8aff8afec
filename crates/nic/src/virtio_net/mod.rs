//! virtio-net over PCI (virtio 1.2, section 5.1).

pub mod rx;
pub mod tx;
