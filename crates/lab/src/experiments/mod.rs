//! Experiments that need no virtual machine.

mod generator_sink;
mod ring_to_ring;
#[cfg(test)]
mod tests;

pub use generator_sink::GeneratorSink;
pub use ring_to_ring::RingToRing;
