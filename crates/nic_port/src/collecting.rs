//! Stores to a register that are collected instead of leaving the guest for each.

/// The stores to a transmit ring's tail, as the thread that sends the ring's frames sees them.
pub trait Collecting: Send + Sync {
    /// In each pass of that thread: what was collected takes effect.
    fn look(&self);

    /// There was something to send: from now on stores are collected.
    fn worked(&self);

    /// The thread wants to sleep: false if it is too early for that. After true every store leaves the guest, and what was
    /// collected has taken effect.
    fn rest(&self) -> bool;

    /// Nobody polls any more.
    fn end(&self);
}
