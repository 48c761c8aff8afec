//! The port boundary: what a source or sink of frames is. And the switch that joins ports.
#![forbid(unsafe_code)]

pub mod port;

pub use port::{Bell, Frame, Frames, Sink, Source};
