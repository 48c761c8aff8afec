//! Real TAP devices and namespaces, with the kernel as the peer. Requires root and /dev/net/tun; without them
//! each test is skipped with a message.

mod appear;
mod far_end;
mod joined;
mod lifetime;
mod netns;
mod support;
mod tags;
mod tap;
mod tap_port;
mod traffic;
mod xdp;
