//! Groups of counters of guests that are end stations, applications or balancers.

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

    /// Frames of a balancer that is a virtual machine. From outside: spread + passed + drop_foreign + drop_no_member; from inside:
    /// returned + drop_stranger; orders from both.
    pub struct BalancerTally {
        /// Frames from outside that it has sent to members.
        spread,
        /// Frames, among those, that were dealt out one by one, so that those of a flow may overtake each other.
        spread_in_turn,
        /// Frames from outside for one member, which it has passed on: probes of the host.
        passed,
        /// Frames of members that it has sent outside.
        returned,
        /// Orders of the host that it has passed on.
        orders,
        /// Tables that it has taken from orders.
        tables,
        /// Frames from outside that are not for the group, or that a member is said to have sent.
        drop_foreign,
        /// Frames from outside lost because no member has their flow.
        drop_no_member,
        /// Frames from inside that no member has sent.
        drop_stranger,
    }
}
