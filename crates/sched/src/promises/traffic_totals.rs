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

    /// As [`TrafficTotals::of`], for a kernel router. Each packet that its interfaces have received counts as delivered, whatever
    /// the kernel did with it, except those that its limit drops, which were never promised.
    pub(super) fn of_kernel(counters: &BTreeMap<String, u64>, router: &str) -> Self {
        let mut came = Self { delivered: 0, dropped: 0, octets: 0, sees_queue: false };
        let mut limited = 0;
        for (name, value) in counters {
            let own = name.strip_prefix(router).and_then(|rest| rest.strip_prefix('.'));
            let Some((_, what)) = own.and_then(|own| own.split_once('.')) else { continue };
            match what {
                "rx.frames" => came.delivered += value,
                "rx.bytes" => came.octets += value,
                "limit.drop_limit" => limited += value,
                "queue.drop_full" | "queue.drop_qdisc" | "rx.drop_missed" => {
                    came.dropped += value;
                    came.sees_queue |= what != "rx.drop_missed" || *value > 0;
                }
                _ => {}
            }
        }
        came.delivered = came.delivered.saturating_sub(limited);
        came
    }
}

/// Returns true if a counter of a router, such as `vcpu0.forwarded`, counts packets that a vCPU has finished.
fn is_done_with(counter: &str) -> bool {
    let Some((vcpu, what)) = counter.split_once('.') else { return false };
    let is_end = ["forwarded", "consumed"].contains(&what) || what.starts_with("drop_");
    vcpu.starts_with("vcpu") && is_end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(values: &[(&str, u64)]) -> BTreeMap<String, u64> {
        values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    }

    #[test]
    fn the_kernel_was_done_with_what_it_took_in_and_nobody_else_s() {
        let mut counters = counted(&[
            ("edge.wan.rx.frames", 100),
            ("edge.wan.rx.bytes", 6000),
            ("edge.wan.tx.frames", 40),
            ("edge.lan.rx.frames", 50),
            ("edge.lan.rx.drop_missed", 0),
            ("edge.lan.limit.drop_limit", 30),
            ("edge.ip.forwarded", 110),
            ("edge/wan-napi0.frames", 100),
            ("edge-2.wan.rx.frames", 1000),
        ]);
        let came = TrafficTotals::of_kernel(&counters, "edge");
        assert_eq!((came.delivered, came.dropped, came.octets, came.sees_queue), (120, 0, 6000, false));
        counters.extend(counted(&[("edge.wan.queue.drop_full", 7), ("edge.lan.rx.drop_missed", 2)]));
        let came = TrafficTotals::of_kernel(&counters, "edge");
        assert_eq!((came.delivered, came.dropped, came.sees_queue), (120, 9, true));
        counters.extend(counted(&[("edge.wan.queue.drop_qdisc", 5)]));
        assert_eq!(TrafficTotals::of_kernel(&counters, "edge").dropped, 14);
    }

    #[test]
    fn a_vcpu_was_done_with_what_it_forwarded_or_dropped() {
        let counters = counted(&[
            ("edge.vcpu0.forwarded", 10),
            ("edge.vcpu0.drop_ttl", 1),
            ("edge.vcpu0.wan.drop_tx_full", 3),
            ("edge.wan.rx.frames", 500),
            ("switch.lan.edge.wan.drop_full", 4),
        ]);
        let came = TrafficTotals::of(&counters, "edge");
        assert_eq!((came.delivered, came.dropped, came.sees_queue), (8, 7, false));
    }
}
