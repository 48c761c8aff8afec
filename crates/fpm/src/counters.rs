//! Counters of a session.

ledger::counters! {
    /// What came from zebra. Each netlink message is counted once, in one of the counters that follow `messages`.
    pub struct FpmCounters {
        /// Connections accepted.
        sessions,
        /// Connections closed because their octets were no FPM frames.
        sessions_broken,
        /// Frames.
        frames,
        /// Netlink messages.
        messages,
        /// Routes added or replaced.
        routes_added,
        /// Routes deleted, the first half of each replacement included.
        routes_deleted,
        /// Next-hop objects added or replaced.
        groups_added,
        /// Next-hop objects deleted.
        groups_deleted,
        /// Messages of other types.
        other,
        /// Messages that are too short or contradict themselves; what follows in their frame may be lost.
        refused_malformed,
        /// Routes and next-hop objects that need an encapsulation; their destinations are unreachable.
        refused_encapsulation,
        /// Routes for certain sources only; their destinations are unreachable.
        refused_source,
        /// Routes of other families, such as MPLS labels.
        refused_family,
        /// Routes and groups of more than 256 next hops; their destinations are unreachable.
        refused_hops,
        /// Next-hop objects of bridges.
        refused_bridge,
        /// Routes and next-hop objects for which there is no room. A destination that had a route is unreachable if there is no room for
        /// its next hops.
        refused_room,
        /// Routes that named a next-hop object before zebra had told of it; unreachable until it does. They are among
        /// `routes_added`.
        group_unknown,
        /// Batches published.
        batches,
        /// Stale routes removed because the kernel did not have them either.
        swept,
    }
}
