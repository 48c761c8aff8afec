//! The router on a simulated platform: each feature, each cause of loss, and the balance of the counters.

mod application;
mod arp;
mod balancer;
mod common_neighbours;
mod corners;
mod forwarding;
mod fragments;
mod given;
mod groups;
mod icmp;
mod neighbours;
mod offload;
mod properties;
mod reference;
mod reverse_path;
mod roles;
mod six;
mod vlans;
mod vrfs;
mod world;
