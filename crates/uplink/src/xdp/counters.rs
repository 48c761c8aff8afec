//! What the two directions of an AF_XDP port count, and what the kernel has lost before it.

ledger::counters! {
    /// Frames that came, written by the source's thread.
    pub struct XdpReadCounters {
        /// Frames shown to the taker.
        frames,
        /// Octets of those frames.
        bytes,
        /// Bursts in which they came.
        batches,
        /// Times nothing waited.
        polls_empty,
        /// Times the kernel had to be called to go on receiving.
        wakeups,
        /// Frames that the kernel said lie outside of the memory it was given.
        drop_bad_address,
    }

    /// Frames that went, written by all threads that deliver.
    pub struct XdpWriteCounters {
        /// Frames given to the kernel.
        frames,
        /// Octets of those frames.
        bytes,
        /// Bursts in which they came.
        batches,
        /// Times the kernel was called to send.
        wakeups,
        /// Frames lost because everything that may wait for the interface did.
        drop_full,
        /// Frames lost because they are longer than a chunk of the memory, or shorter than an Ethernet header.
        drop_length,
        /// Frames lost because the interface is down.
        drop_down,
        /// Frames lost because the interface was deleted.
        drop_gone,
    }

    /// What the kernel counts for the sockets (`XDP_STATISTICS`), read about once a second.
    pub struct XdpKernelCounters {
        /// Frames that came and were lost for another reason than those below (`rx_dropped`).
        drop_other,
        /// Frames that came and were lost because nobody took those before them (`rx_ring_full`).
        drop_ring_full,
        /// Times the kernel had no chunk for a frame that came (`rx_fill_ring_empty_descs`).
        fill_ring_empty,
        /// Chunks for frames that come that the kernel refused (`rx_invalid_descs`).
        rx_invalid,
        /// Frames that go that the kernel refused (`tx_invalid_descs`).
        tx_invalid,
    }
}
