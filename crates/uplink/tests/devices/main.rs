//! Real TAP devices and namespaces, with the kernel as the peer. Needs root and /dev/net/tun; without them each test
//! is skipped with a line that says so.

mod appear;
mod conformance;
mod joined;
mod lifetime;
mod netns;
mod support;
mod tap;
mod traffic;
mod xdp;
