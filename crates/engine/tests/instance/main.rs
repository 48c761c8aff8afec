//! An instance under traffic: routers start, stop, fail and change individually while others lose nothing.

mod bring_up;
mod captures;
mod changes;
mod common_tables;
mod confined;
mod failures;
mod farewell;
mod kernel_ports;
mod known;
mod launch;
mod memory;
mod opened;
mod routers;
mod settings;
mod take_down;
mod taps;
mod traffic;
mod two;
mod wild;
