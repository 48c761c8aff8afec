//! What a TAP's two directions count.

ledger::counters! {
    /// Frames that the kernel sent out of the interface, written by the source's thread.
    pub struct ReadCounters {
        /// Frames shown to the taker.
        frames,
        /// Octets of those frames.
        bytes,
        /// Bursts in which they came.
        batches,
        /// Times nothing waited.
        polls_empty,
        /// Frames lost because they were larger than the buffers (someone raised the interface's MTU).
        drop_too_long,
        /// Reads that failed for another reason; no frame is known to be lost.
        read_errors,
    }

    /// Frames that were delivered to the kernel, written by all threads that deliver.
    pub struct WriteCounters {
        /// Frames the kernel took.
        frames,
        /// Octets of those frames.
        bytes,
        /// Bursts in which they came.
        batches,
        /// Frames lost because the kernel's queue was full (EAGAIN).
        drop_full,
        /// Frames lost because the kernel had no memory for them (ENOBUFS, ENOMEM).
        drop_no_memory,
        /// Frames lost because the interface is down (EIO).
        drop_down,
        /// Frames that the kernel refused as too short or malformed (EINVAL).
        drop_malformed,
        /// Frames lost because the interface was deleted.
        drop_gone,
        /// Frames lost for another reason.
        drop_other,
    }
}
