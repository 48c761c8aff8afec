//! The router: burst -> Ethernet -> ARP | IPv4 -> lookup -> rewrite -> burst.
#![no_std]
#![forbid(unsafe_code)]

pub mod platform;

pub use platform::{Buffer, Burst, HEAD, Platform};
