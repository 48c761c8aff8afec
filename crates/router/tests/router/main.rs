//! The router on a platform of vectors: each feature, each cause of loss, and the books that must balance.

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
