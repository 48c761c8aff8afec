//! All kinds of attachments, in the order in which they are listed: a file and a line for each.

mod bridge;
mod link;
mod macvlan;
mod macvtap;
pub(crate) mod null;
mod ovs;
mod pcap;
mod switch;
mod tap;
pub(crate) mod udp;
mod veth;
pub(crate) mod vf;
pub(crate) mod vhost_user_backend;
mod vhost_user_frontend;
mod xdp;

use crate::Kind;

/// The table of kinds.
pub(crate) const ALL: [&Kind; 15] = [
    &switch::KIND,
    &tap::KIND,
    &bridge::KIND,
    &ovs::KIND,
    &macvtap::KIND,
    &xdp::KIND,
    &veth::KIND,
    &macvlan::KIND,
    &link::KIND,
    &vf::KIND,
    &udp::KIND,
    &pcap::KIND,
    &vhost_user_backend::KIND,
    &vhost_user_frontend::KIND,
    &null::KIND,
];
