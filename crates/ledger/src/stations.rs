//! The groups of counters of guests that are end stations or applications.

use crate::counters;

counters! {
    /// What an end station's stack moved for its applications.
    pub struct StationTally {
        /// Octets of payload that TCP took to send, and of datagrams sent.
        octets_sent,
        /// Octets of payload that TCP delivered, and of datagrams received.
        octets_received,
        /// UDP datagrams handed to the stack to be sent.
        datagrams_sent,
        /// UDP datagrams that the stack delivered.
        datagrams_received,
        /// Requests that were answered, counted by who asked.
        transactions,
        /// TCP connections that were established, from either side.
        connections,
        /// TCP connections that ended by a reset or because the other side was silent for too long, established or not.
        resets,
    }

    /// The frames of an application behind a bounded queue. Taken from the ring = queued + dropped before the queue;
    /// queued = delivered + those that wait.
    pub struct ApplicationTally {
        /// Frames that the driver took from the ring.
        received,
        /// Of those, frames that found room in the queue.
        queued,
        /// Of those, frames thrown away because the queue was full.
        drop_queue_full,
        /// Frames that the application was done with.
        delivered,
        /// Interrupts that the driver served.
        interrupts,
    }
}
