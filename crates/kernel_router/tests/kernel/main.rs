//! Tests against a real kernel, in namespaces of their own. They need root and are skipped with a message otherwise.

mod adopted;
mod all;
mod comes_home;
mod forwards;
mod host;
mod lookups;
mod pulled;
mod six;
mod spread;
mod stays;
mod vlan;
mod vrf;
