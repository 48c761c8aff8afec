//! Routes and neighbours in a flat table that can be mapped read-only into a guest.
#![no_std]
#![forbid(unsafe_code)]
