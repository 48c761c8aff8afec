//! Rigs: test set-ups that exist while an experiment is measured.
//!
//! Guests with the parts that feed and empty them (`receiving_guest`, `lane`, `mover`, `gate`), paths between ports (`through`), the kernel as
//! the guests' peer (`host_end`), auxiliary threads (`worker`), and rooms in which the command itself runs routers (`router_run`).

mod gate;
pub(crate) mod host_end;
pub(crate) mod lane;
pub(crate) mod mover;
mod receiving_guest;
pub(crate) mod router_run;
mod through;
mod worker;

pub(crate) use gate::{Gate, OpenOnDrop};
pub(crate) use mover::Mover;
pub(crate) use receiving_guest::ReceivingGuest;
pub(crate) use through::{Through, Way, hello};
pub(crate) use worker::{Stop, Worker};
