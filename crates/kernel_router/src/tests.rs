//! Pure tests: none of them calls the kernel.

mod checks;
mod model;
mod plans;
mod threads;
mod words;
