//! Counters of both directions of an AF_XDP port, and of the frames that the kernel has lost before it.

ledger::counters! {
    /// Counters of received frames, written by the source's thread.
    pub struct XdpReadCounters {
        /// Frames shown to the taker.
        frames,
        /// Octets of those frames.
        bytes,
        /// Bursts of frames.
        batches,
        /// Polls without any frame.
        polls_empty,
        /// Times the kernel had to be called to continue receiving.
        wakeups,
        /// Frames whose address, reported by the kernel, is outside the memory, or that are longer than those of the NIC.
        drop_bad_address,
    }

    /// Counters of transmitted frames, written by all threads that deliver.
    pub struct XdpWriteCounters {
        /// Frames given to the kernel.
        frames,
        /// Octets of those frames.
        bytes,
        /// Bursts of frames.
        batches,
        /// Times the kernel was called to send.
        wakeups,
        /// Frames lost because the rings and chunks for the interface were full.
        drop_full,
        /// Frames lost because they are longer than the memory for one, or shorter than an Ethernet header.
        drop_length,
        /// Frames lost because the interface is down.
        drop_down,
        /// Frames lost because the interface was deleted.
        drop_gone,
    }

    /// The kernel's counters of the sockets (`XDP_STATISTICS`), read about once a second.
    pub struct XdpKernelCounters {
        /// Received frames lost for another reason than those below (`rx_dropped`).
        drop_other,
        /// Received frames lost because the receive ring was full (`rx_ring_full`).
        drop_ring_full,
        /// Times the kernel had no chunk for a received frame (`rx_fill_ring_empty_descs`).
        fill_ring_empty,
        /// Receive chunks that the kernel refused (`rx_invalid_descs`).
        rx_invalid,
        /// Transmit descriptors that the kernel refused (`tx_invalid_descs`).
        tx_invalid,
    }
}
