//! Counters of both directions of a TAP.

ledger::counters! {
    /// Counters of the frames that the kernel sent out of the interface, written by the source's thread.
    pub struct ReadCounters {
        /// Frames shown to the taker.
        frames,
        /// Octets of those frames.
        bytes,
        /// Bursts of frames.
        batches,
        /// Polls without any frame.
        polls_empty,
        /// Of these frames, those to be segmented.
        to_segment,
        /// Urgent frames that were not shown, because they come by a queue of their own as well.
        copied,
        /// Frames lost because they were larger than the buffers (the interface's MTU was raised).
        drop_too_long,
        /// Frames lost because their offload request is invalid for them.
        drop_bad_offload,
        /// Reads that failed for another reason; no frame is known to be lost.
        read_errors,
    }

    /// Counters of the frames delivered to the kernel, written by all threads that deliver.
    pub struct WriteCounters {
        /// Frames that the kernel has accepted.
        frames,
        /// Octets of those frames.
        bytes,
        /// Bursts of frames.
        batches,
        /// Of these frames, those that the kernel segments, or forwards as they are.
        to_segment,
        /// Frames whose checksum was filled in before the write, because the kernel does not do it.
        checksums,
        /// Frames that were segmented before the write, because the kernel does not do it.
        segmented,
        /// Segments made of them.
        segments,
        /// Frames lost before the write, because their offload request is invalid for them.
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
