//! Groups of counters of guests that are end stations or applications.

use crate::counters;

counters! {
    /// Traffic of an end station's stack.
    pub struct StationTally {
        /// Octets of payload that TCP accepted for sending, and of datagrams sent.
        octets_sent,
        /// Octets of payload that TCP delivered, and of datagrams received.
        octets_received,
        /// UDP datagrams passed to the stack for sending.
        datagrams_sent,
        /// UDP datagrams that the stack delivered.
        datagrams_received,
        /// Answered requests, counted by the requester.
        transactions,
        /// TCP connections that were established, from either side.
        connections,
        /// TCP connections, established or not, that ended by a reset or a timeout of the other side.
        resets,
    }

    /// Frames of an application behind a bounded queue. Taken from the ring = queued + dropped before the
    /// queue; queued = delivered + those that wait.
    pub struct ApplicationTally {
        /// Frames that the driver took from the ring.
        received,
        /// Of those, frames that found room in the queue.
        queued,
        /// Of those, frames dropped because the queue was full.
        drop_queue_full,
        /// Frames that the application has processed.
        delivered,
        /// Interrupts that the driver served.
        interrupts,
    }
}
