//! Rigs: what stands while something is measured.
//!
//! Guests with what feeds and empties them (`fed`, `lane`, `mover`, `gate`), what lies between (`through`), the kernel as their other
//! side (`host_end`), threads beside them (`worker`), and rooms in which the command itself runs routers (`room`).

mod fed;
mod gate;
pub(crate) mod host_end;
pub(crate) mod lane;
pub(crate) mod mover;
pub(crate) mod room;
mod through;
mod worker;

pub(crate) use fed::Fed;
pub(crate) use gate::{Gate, Keeper};
pub(crate) use mover::Mover;
pub(crate) use through::{Through, Way, hello};
pub(crate) use worker::{Stop, Worker};
