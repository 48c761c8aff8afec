//! State changes as structured events, counters as Prometheus text.
#![forbid(unsafe_code)]
