//! Zebra's side of an FPM connection, for tests, benches and the lab: streams as zebra 8.4.4 writes them, and recordings of
//! what it has sent.

#![forbid(unsafe_code)]

mod recording;
mod stream;

pub use recording::{Content, Player, Recorder, Recording};
pub use stream::{BGP, By, MAIN, Stream};
