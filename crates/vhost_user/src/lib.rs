//! vhost-user, in both directions: devices for other programs' virtual machines, and our routers' rings
//! served by other programs.
//!
//! [`backend`]: this program is the device. [`frontend`]: the other program is. Both use the queues of
//! `nic_port::NicQueues`, independently of the machine that the queues belong to.

pub mod backend;
pub mod frontend;
pub mod memory;
