//! vhost-user: the device of other programs' virtual machines, and the rings of our routers in other programs' hands.
//!
//! [`backend`]: we are the device. [`frontend`]: the other program is. Both stand on the queues of `nic_port::NicQueues`, and
//! know nothing of the machine whose they are.

pub mod backend;
pub mod frontend;
pub mod memory;
