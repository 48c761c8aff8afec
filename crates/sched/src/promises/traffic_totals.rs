//! Traffic totals of a router with a promised rate, from its counters.

use std::collections::BTreeMap;

/// Traffic that arrived at a router, and its fate.
pub(super) struct TrafficTotals {
    pub(super) delivered: u64,
    pub(super) dropped: u64,
    pub(super) octets: u64,
    /// True if drops of the kernel in front of a NIC are included in `dropped`.
    pub(super) sees_queue: bool,
}

impl TrafficTotals {
    pub(super) fn of(counters: &BTreeMap<String, u64>, router: &str) -> Self {
        let mut came = Self { delivered: 0, dropped: 0, octets: 0, sees_queue: false };
        let mut late = 0;
        for (name, value) in counters {
            let own = name.strip_prefix(router).and_then(|rest| rest.strip_prefix('.'));
            let last = name.rsplit('.').next().unwrap_or_default();
            let is_port = name.starts_with("switch.") && name.split('.').nth(2) == Some(router);
            match own {
                Some(rest) if is_done_with(rest) => came.delivered += value,
                // A vCPU forwarded it, but the I/O thread had no time to take it.
                Some(rest) if rest.ends_with(".drop_tx_full") => late += value,
                Some(rest) if rest.ends_with(".rx.bytes") => came.octets += value,
                _ if (own.is_some() || is_port) && ["drop_full", "drop_no_buffer"].contains(&last) => {
                    came.dropped += value;
                    came.sees_queue |= name.ends_with(".tap.kernel.drop_full");
                }
                _ => {}
            }
        }
        came.delivered = came.delivered.saturating_sub(late);
        came.dropped += late;
        came
    }
}

/// Returns true if a counter of a router, such as `vcpu0.forwarded`, counts packets that a vCPU has finished.
fn is_done_with(counter: &str) -> bool {
    let Some((vcpu, what)) = counter.split_once('.') else { return false };
    let is_end = ["forwarded", "consumed"].contains(&what) || what.starts_with("drop_");
    vcpu.starts_with("vcpu") && is_end
}
