//! Rigs: test set-ups that exist while an experiment is measured.
//!
//! Guests with the parts that feed and empty them (`fed`, `lane`, `mover`, `gate`), paths between ports (`through`), the kernel as
//! the guests' peer (`host_end`), auxiliary threads (`worker`), and rooms in which the command itself runs routers (`room`).

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
