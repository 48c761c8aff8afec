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
        /// Frames of them that are to be segmented.
        to_segment,
        /// Frames lost because they were larger than the buffers (someone raised the interface's MTU).
        drop_too_long,
        /// Frames lost because they ask for what does not fit them.
        drop_bad_offload,
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
        /// Frames of them that the kernel segments, or hands on as they are.
        to_segment,
        /// Frames whose checksum was filled in on the way here, because the kernel is not to do it.
        checksums,
        /// Frames that were cut on the way here, because the kernel is not to do it.
        segmented,
        /// Segments that they were cut into.
        segments,
        /// Frames lost on the way here, because they ask for what does not fit them.
        drop_bad_offload,
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
