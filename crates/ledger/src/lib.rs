//! Ledger of named counters that any thread may read at any time without stopping the writer.
//!
//! A counter is one `u64` with one writer at a time. Groups of counters are `#[repr(C)]` structures of
//! counters only, so that a group can be in memory shared with a guest and be read by the host. Each frame
//! that enters a component increments exactly one of its counters: in = out + named drops.
#![no_std]
#![forbid(unsafe_code)]

mod groups;
mod stations;

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub use groups::{
    E1000Registers, NicDirection, NicInterrupts, PortCounters, RouterCounters, RouterNic, SinkTally,
    VcpuExits, VlanCounters, WorkCounters,
};
pub use stations::{ApplicationTally, BalancerTally, StationTally};

/// A counter with one writer at a time; readers see a recent value.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Creates a counter with the value zero.
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Adds `n`. Single writer only: a plain load and store, without a locked instruction.
    #[inline(always)]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// Adds `n` to a counter that several threads write (atomic addition).
    pub fn add_shared(&self, n: u64) {
        self.0.fetch_add(n, Relaxed);
    }

    /// Returns the current value.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A structure of counters whose fields can be listed by name.
pub trait Group {
    /// Calls `visit` with the name and value of each counter, in the order of declaration.
    fn each(&self, visit: &mut dyn FnMut(&'static str, u64));
}

/// Declares `#[repr(C)]` groups of counters. The name of a field is the name that is printed; names and
/// documentation are also in `FIELDS`, from where they become help texts of metrics.
#[macro_export]
macro_rules! counters {
    ($($(#[$doc:meta])* pub struct $group:ident { $($(#[doc = $field_doc:literal])* $field:ident,)* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Default)]
        #[repr(C)]
        pub struct $group { $($(#[doc = $field_doc])* pub $field: $crate::Counter,)* }

        impl $group {
            /// Name and documentation of each counter, in the order of declaration.
            pub const FIELDS: &'static [(&'static str, &'static str)] =
                &[$((stringify!($field), concat!($($field_doc),*)),)*];

            /// Adds the values of another group: several writers' groups are reported as one.
            pub fn add_all(&self, other: &Self) {
                $(self.$field.add(other.$field.get());)*
            }
        }

        impl $crate::Group for $group {
            fn each(&self, visit: &mut dyn FnMut(&'static str, u64)) {
                $(visit(stringify!($field), self.$field.get());)*
            }
        }
    )*};
}

#[cfg(test)]
mod tests;
