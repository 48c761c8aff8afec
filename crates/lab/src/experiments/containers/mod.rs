//! Experiments of seed paper 003: container routers (engines `kernel` and `lxc`) and forwarding set up by hand, compared with
//! virtual machines on macvtaps.
//!
//! All of them run in rooms (`rig::router_run`). Packet sockets on the first CPU of the options send the load, the routers run on the
//! second CPU, and the kernel behind them counts the forwarded frames. The paper's virtual functions need hardware; instead,
//! containers have veth pairs or macvlans, and virtual machines have macvtaps. The paper's baseline forwards at line rate on one
//! core, so here the best rate of the baseline (`baseline`) stands for the line rate.

mod baseline;
pub(super) mod boot;
pub(super) mod by_hand;
pub(super) mod compare;
pub(crate) mod drawn;
pub(super) mod eight;
mod flooded;
mod functions;
pub(super) mod isolation;
pub(super) mod latency;
pub(super) mod load;
pub(super) mod memory;
pub(super) mod several;
mod stand;

use baseline::line_rate;
use stand::Stand;
