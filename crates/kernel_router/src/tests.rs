//! Pure tests: none of them calls the kernel.

mod checks;
mod model;
mod orders;
mod plans;
mod threads;
mod vlans;
mod vrfs;
mod words;
