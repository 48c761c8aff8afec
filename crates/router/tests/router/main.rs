//! The router on a simulated platform: each feature, each cause of loss, and the balance of the counters.

mod application;
mod arp;
mod forwarding;
mod fragments;
mod icmp;
mod neighbours;
mod offload;
mod properties;
mod reference;
mod roles;
mod world;
