//! Register stores that are coalesced instead of causing a VM exit each.

/// Coalesced stores to a transmit ring's tail, as seen by the thread that sends the ring's frames.
pub trait StoreCoalescing: Send + Sync {
    /// Called in each pass of that thread: applies the coalesced stores.
    fn look(&self);

    /// Called after frames were sent: stores are coalesced from now on.
    fn worked(&self);

    /// Called before the thread sleeps: returns false if it is too early for that. After it returned true every store
    /// causes an exit, and the coalesced stores have been applied.
    fn rest(&self) -> bool;

    /// Called when no thread polls any more.
    fn end(&self);
}
