//! Counters of all sessions.

ledger::counters! {
    /// Control packets. Each one that arrives is counted in `taken` or in one of the drops.
    pub struct BfdCounters {
        /// Packets that a session has taken.
        taken,
        /// Packets sent.
        sent,
        /// Sessions that came up.
        up,
        /// Sessions that went down.
        down,
        /// Sessions among those that went down because nothing arrived in time.
        expired,
        /// Packets dropped because they are no valid control packets (RFC 5880, 6.8.6).
        drop_malformed,
        /// Packets dropped because they may have crossed a router (RFC 5881, 5) or too many (RFC 5883, 5).
        drop_ttl,
        /// Packets dropped because no session expects them.
        drop_unknown,
        /// Packets dropped because they are authenticated, which no session is.
        drop_authentication,
    }
}
