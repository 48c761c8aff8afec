//! Requirements on the project's figures: ratios of ours to a peer's, and limits on single figures.

/// Relative distance to a bound within which a figure is close to it. (Near and far are reserved for the placement of CPUs.)
const CLOSE: f64 = 0.1;

/// Required range of a figure.
#[derive(Clone, Copy, Debug)]
pub struct Requirement {
    at_least: f64,
    at_most: f64,
}

impl Requirement {
    const fn at_least(at_least: f64) -> Self {
        Self { at_least, at_most: f64::INFINITY }
    }

    const fn at_most(at_most: f64) -> Self {
        Self { at_least: 0.0, at_most }
    }

    /// Judges the whole interval (open if it lies partly within the range); also tells if the median is close to a bound, on either
    /// side.
    pub fn judge(self, (low, median, high): (f64, f64, f64)) -> &'static str {
        let is_kept = low >= self.at_least && high <= self.at_most;
        let is_missed = high < self.at_least || low > self.at_most;
        match (is_kept, is_missed, self.is_close(median)) {
            (true, _, true) => "yes, close",
            (true, _, false) => "yes",
            (_, true, true) => "no, close",
            (_, true, false) => "no",
            _ => "open",
        }
    }

    /// Returns true if a figure is within a tenth of a bound.
    fn is_close(self, figure: f64) -> bool {
        let is_bound = |bound: &f64| *bound > 0.0 && bound.is_finite();
        let close = |bound: f64| (figure - bound).abs() <= CLOSE * bound;
        [self.at_least, self.at_most].into_iter().filter(is_bound).any(close)
    }

    /// Formats the range as in the tables.
    pub fn shown(self) -> String {
        match (self.at_least, self.at_most) {
            (least, f64::INFINITY) => format!(">= {least}"),
            (0.0, most) => format!("<= {most}"),
            (least, most) => format!("{least}..{most}"),
        }
    }
}

/// Requirement on the ratio of two results.
#[derive(Clone, Debug)]
pub struct Bound {
    /// Name under which our result is printed.
    pub ours: String,
    /// Name under which the result is printed that ours is compared with.
    pub theirs: String,
    /// Required ratio of ours to theirs.
    pub asked: Requirement,
}

/// Requirement on one figure of one case.
#[derive(Clone, Debug)]
pub struct Limit {
    /// Name under which the case is printed.
    pub name: &'static str,
    /// The key of the figure in that line.
    pub key: &'static str,
    /// Required range.
    pub asked: Requirement,
}

/// Ours, theirs, and the least ratio required.
const AT_LEAST: &[(&str, &str, f64)] = &[
    // Against the least work that forwarding takes (bench/peers/path_model.c).
    ("forward/kvm/virtio-net/64", "path_model_64", 0.5),
    ("forward/kvm/virtio-net/64", "dpdk_router_l3fwd_lpm_plain_64", 2.5),
    ("forward/kvm/virtio-net/64", "dpdk_router_l3fwd_lpm_tuned_64", 2.0),
    // Confined threads; a firmware that is a process; two queues on two vCPUs of the same two cores.
    ("forward/kvm/virtio-net/64/sandbox", "forward/kvm/virtio-net/64", 0.98),
    ("forward/process/virtio-net/64", "forward/kvm/virtio-net/64", 0.95),
    ("forward/kvm/virtio-net/64/queues=2/vcpus=2", "forward/kvm/virtio-net/64", 0.9),
    // The Internet's tables, and IPv6 against IPv4 with frames of the same length.
    ("forward/kvm/virtio-net/64/routes=1000000", "forward/kvm/virtio-net/64", 0.8),
    ("forward/kvm/virtio-net/80/ipv6", "forward/kvm/virtio-net/80", 0.85),
    ("forward/kvm/virtio-net/80/ipv6/routes=250000", "forward/kvm/virtio-net/80/ipv6", 0.7),
    // Through TAPs, against the same system calls without a router; through AF_XDP, against TAPs.
    ("forward/kvm/virtio-net/tap/64", "forward/bare-loop/tap/64", 0.9),
    ("uplink/xdp/64", "uplink/tap/64", 1.7),
    // The switch, against the rings and the copy alone, and against another switch.
    ("switch/ring-1024/64", "wire/ring-1024/64", 0.6),
    ("guest-to-guest/kvm/virtio-net/64", "ovs_dpdk_mac_plain_64", 4.0),
    ("guest-to-guest/kvm/virtio-net/64", "ovs_dpdk_mac_tuned_64", 4.0),
    // Backends of vhost-user on one core with a guest on the other: one direction each, a loop, and a route through the guest.
    ("vhost_in_ringroad_plain_64", "vhost_in_dpdk_plain_64", 1.0),
    ("vhost_out_ringroad_plain_64", "vhost_out_dpdk_plain_64", 1.0),
    ("vhost_loop_ringroad_plain_64", "vhost_loop_dpdk_plain_64", 1.0),
    ("vhost_route_ringroad_plain_64", "vhost_route_dpdk_plain_64", 1.0),
    ("vhost_in_ringroad_tuned_64", "vhost_in_dpdk_tuned_64", 0.7),
    ("vhost_out_ringroad_tuned_64", "vhost_out_dpdk_tuned_64", 0.7),
    ("vhost_loop_ringroad_tuned_64", "vhost_loop_dpdk_tuned_64", 0.7),
    ("vhost_route_ringroad_tuned_64", "vhost_route_dpdk_tuned_64", 0.7),
    ("router_over_vhost_user_ringroad_beside_plain_60", "router_over_vhost_user_l3fwd_plain_60", 1.8),
    ("router_over_vhost_user_ringroad_beside_tuned_60", "router_over_vhost_user_l3fwd_tuned_60", 1.8),
    // The e1000: each transmit mode against the previous one, and the status block against virtio-net. Moderation only acts if an
    // interrupt has been handled before the next one is due: 25 µs (itr = 100) are too short where an exit alone takes longer.
    ("guest-tx/kvm/e1000-base+itr4000/64", "guest-tx/kvm/e1000-base/64", 1.0),
    ("guest-tx/kvm/e1000-send-combining+itr4000/64", "guest-tx/kvm/e1000-base+itr4000/64", 1.0),
    ("guest-tx/kvm/e1000-send-combining+itr4000/64", "guest-tx/kvm/e1000-base/64", 8.0),
    ("guest-tx/kvm/e1000-csb/64", "guest-tx/kvm/e1000-send-combining+itr4000/64", 1.0),
    // A coalesced store is cheaper than an exit, but an interrupt per frame costs more than both; hence with and without moderation.
    ("guest-tx/kvm/e1000-coalesced/64", "guest-tx/kvm/e1000-base/64", 2.0),
    ("guest-tx/kvm/e1000-coalesced+itr4000/64", "guest-tx/kvm/e1000-base+itr4000/64", 2.0),
    ("guest-tx/kvm/e1000-csb/64", "guest-tx/kvm/virtio-net/64", 1.0),
    ("forward/kvm/e1000-csb/64", "forward/kvm/virtio-net/64", 1.0),
    ("guest-to-guest/kvm/e1000-csb/64", "guest-to-guest/kvm/virtio-net/64", 1.0),
    // One TCP stream with all offloads, in Gbit/s.
    ("tcp-forward/kvm/virtio-net/tap", "tcp-forward/kernel/veth", 0.8),
    ("tcp-forward/process/virtio-net/tap", "tcp-forward/kernel/veth", 0.5),
    // A router beside one that breaks the rules, against itself alone; all other misdeeds are judged by `cargo xtask attacks`.
    ("hostile/kvm/virtio-net/64/beside-registers", "hostile/kvm/virtio-net/64/alone", 0.95),
    ("hostile/kvm/virtio-net/64/beside-kicks", "hostile/kvm/virtio-net/64/alone", 0.95),
    // Engine kernel, compared with the same forwarding set up by hand.
    ("container-by-hand/64/kernel/veth", "container-by-hand/64/by-hand/veth", 0.97),
    // Eight routers on a core, compared with one.
    ("container-eight/64/kernel/veth/8-on-a-core", "container-eight/64/kernel/veth/1-on-a-core", 0.94),
    ("container-eight/64/kernel/macvlan/8-on-a-core", "container-eight/64/kernel/macvlan/1-on-a-core", 0.94),
    ("container-eight/64/kvm/tap/8-on-a-core", "container-eight/64/kvm/tap/1-on-a-core", 0.85),
    (
        "container-eight/64/kvm/macvtap-for-vf/8-on-a-core",
        "container-eight/64/kvm/macvtap-for-vf/1-on-a-core",
        0.85,
    ),
    // While 100,000 routes a second change, against none, and against as many of a table that nobody reads, which takes as much CPU
    // time: with two CPUs the generator's.
    (
        "forward-updates/kvm/virtio-net/64/routes=100000/updates",
        "forward-updates/kvm/virtio-net/64/routes=100000/at-rest",
        0.95,
    ),
    (
        "forward-updates/kvm/virtio-net/64/routes=100000/updates",
        "forward-updates/kvm/virtio-net/64/routes=100000/updates-elsewhere",
        0.95,
    ),
    // Effect of a guarantee beside a flood.
    ("guarantee/kvm/virtio-net/60/tap/promised", "guarantee/kvm/virtio-net/60/tap/not-promised", 1.3),
];

/// Ours, theirs, and the largest ratio allowed: for durations, where less is better.
const AT_MOST: &[(&str, &str, f64)] = &[
    // Round trips without moderation.
    ("round-trip/kvm/e1000-csb/64/sleeping", "round-trip/kvm/virtio-net/64/sleeping", 1.05),
    ("round-trip/kvm/e1000-csb/64/sleeping", "round-trip/kvm/e1000-base/64/sleeping", 1.05),
    ("round-trip/kvm/e1000-csb/64/sleeping", "round-trip/kvm/e1000-async/64/sleeping", 1.05),
    ("round-trip/kvm/e1000-csb+itradaptive/64/sleeping", "round-trip/kvm/e1000-csb/64/sleeping", 1.05),
];

fn bound(ours: &str, theirs: &str, asked: Requirement) -> Bound {
    Bound { ours: ours.to_owned(), theirs: theirs.to_owned(), asked }
}

/// Comparisons that apply wherever both sides were measured.
pub fn bounds() -> Vec<Bound> {
    let at_least =
        AT_LEAST.iter().map(|(ours, theirs, least)| bound(ours, theirs, Requirement::at_least(*least)));
    let at_most = AT_MOST.iter().map(|(ours, theirs, most)| bound(ours, theirs, Requirement::at_most(*most)));
    at_least.chain(at_most).collect()
}

const fn limit(name: &'static str, key: &'static str, at_least: f64, at_most: f64) -> Limit {
    Limit { name, key, asked: Requirement { at_least, at_most } }
}

/// Limit on a duration or on memory.
const fn takes(name: &'static str, at_most: f64) -> Limit {
    limit(name, "median", 0.0, at_most)
}

/// Requirements on single figures.
pub const LIMITS: &[Limit] = &[
    // Rate that the exits allow: mode base is as fast as that, no faster and no slower.
    limit("guest-tx/kvm/e1000-base/64", "measured_over_model", 0.75, 1.25),
    limit("guest-tx/kvm/e1000-csb/64", "exits_per_packet", 0.0, 0.02),
    limit("forward/kvm/virtio-net/64", "exits_per_packet", 0.0, 0.000_001),
    limit("forward/kvm/e1000-csb/64", "exits_per_packet", 0.0, 0.02),
    limit("guest-to-guest/kvm/e1000-csb/64", "exits_per_packet", 0.0, 0.02),
    limit("guest-rx/kvm/e1000-csb/64", "exits_per_packet", 0.0, 0.02),
    // Time from interrupt to interrupt, where all of them are delayed.
    limit("round-trip/kvm/e1000-csb+itr4000/64/sleeping", "spacing_in_periods", 0.9, 1.25),
    limit("livelock/kvm/e1000-base/64/work=2000/queue=256/unprotected", "median", 0.0, 0.5),
    limit("livelock/kvm/e1000-base/64/work=2000/queue=256/protected", "median", 0.9, f64::INFINITY),
    // Delivered share of a guarantee beside a flood.
    limit("guarantee/kvm/virtio-net/60/tap/promised", "median", 0.98, f64::INFINITY),
    // The same beside a neighbour that never idles; proof that it does not idle; and the lateness of a program's timers on that core, in
    // ms.
    limit("guarantee/kvm/virtio-net/60/tap/beside-spinner", "median", 0.98, f64::INFINITY),
    limit("guarantee/kvm/virtio-net/60/tap/beside-spinner", "neighbour_cpu", 0.05, f64::INFINITY),
    limit("guarantee/kvm/virtio-net/60/tap/beside-spinner", "idle_cpu", 0.0, 0.05),
    limit("guarantee/kvm/virtio-net/60/tap/beside-spinner", "timer_p99_ms", 0.0, 20.0),
    // Milliseconds until the first frame, from within a process and from the start of a command.
    takes("boot/kvm/virtio-net/in-process", 12.0),
    takes("boot/process/virtio-net/in-process", 2.5),
    takes("boot/kvm/virtio-net/command", 14.0),
    // A kernel router: the 99th percentile of the milliseconds from `start` to its first frame, and MiB of each of 100 routers.
    takes("container-boot/kernel/macvlan", 5.0),
    takes("container-boot/kernel/bridge", 5.0),
    takes("container-memory/kernel/veth/100-routers", 0.5),
    // What a protected one forwards of its load beside an overloaded one on its core.
    limit("container-protected/64/kernel/veth/vr1-overloaded/shares", "median", 0.99, f64::INFINITY),
    limit("container-protected/64/kernel/veth/vr1-overloaded/guarantee", "median", 0.99, f64::INFINITY),
    limit("container-protected/64/kernel/veth/vr2-overloaded/shares", "median", 0.99, f64::INFINITY),
    limit("container-protected/64/kernel/veth/vr2-overloaded/guarantee", "median", 0.99, f64::INFINITY),
    // A member that comes or goes at 0.9 of what its group carries: percent of the frames lost in a second of load, and flows reordered of
    // those that stay where they are.
    takes("group-change/parallel/64/added", 0.1),
    takes("group-change/parallel/64/removed", 0.1),
    takes("group-change/multistage/64/added", 0.1),
    takes("group-change/multistage/64/removed", 0.1),
    limit("group-change/parallel/64/added", "reordered_unmoved", 0.0, 0.5),
    limit("group-change/parallel/64/removed", "reordered_unmoved", 0.0, 0.5),
    limit("group-change/multistage/64/added", "reordered_unmoved", 0.0, 0.5),
    limit("group-change/multistage/64/removed", "reordered_unmoved", 0.0, 0.5),
    // 99th percentiles of milliseconds: until all flows pass after a member or a balancer was killed, and until a new member has
    // forwarded a frame.
    takes("group-killed/kvm/virtio-net/tap/parallel", 50.0),
    takes("group-killed/kvm/virtio-net/tap/multistage", 50.0),
    takes("group-killed/kvm/virtio-net/tap/balancer", 50.0),
    takes("group-new/kvm/virtio-net/tap/parallel", 5.0),
    takes("group-new/kvm/virtio-net/tap/multistage", 5.0),
    // Each of 200 routers: MiB beyond its guest memory, and percent of a core when idle; seconds until all are up.
    takes("density/kvm/200-routers", 2.0),
    limit("density/kvm/200-routers", "idle_percent", 0.0, 0.02),
    limit("density/kvm/200-routers", "up_s", 0.0, 2.0),
    // A million routes in zebra's place: thousands a second, and seconds until the last packet goes by them; and the same behind zebra.
    limit("full-table/replay/1000000", "median", 300.0, f64::INFINITY),
    limit("full-table/replay/1000000", "last_packet_s", 0.0, 4.0),
    limit("full-table/zebra/ringroad/1000000", "last_packet_after_zebra_s", 0.0, 0.5),
    // Milliseconds from BFD's verdict until a million routes have left a next hop, p99; sessions of 3 x 50 ms lost in a flood.
    takes("bfd-failover/routes=1000000", 10.0),
    takes("bfd-flood/kvm/3x50ms", 0.5),
    // An idle router: percent of a core, and MiB beyond its guest memory.
    takes("idle/cpu/routers=1", 0.05),
    takes("idle/cpu/routers=10", 0.05),
    takes("idle/memory/routers=10", 0.3),
    // Millions of look-ups a second in the Internet's IPv6 table, on one core.
    limit("lookup/ipv6/routes=250000", "median", 100.0, f64::INFINITY),
    // Shares of the frames to known hosts that are forwarded during a scan, with a table that has room for all of them, and with the usual
    // one; and of hosts that answer although they are first addressed then.
    limit("scan/kvm/virtio-net/64/hosts=20000/neighbours=32768", "median", 0.99, f64::INFINITY),
    limit("scan/kvm/virtio-net/64/hosts=20000/neighbours=32768", "first_addressed", 1.0, f64::INFINITY),
    limit("scan/kvm/virtio-net/64/hosts=3000/neighbours=4096", "median", 0.99, f64::INFINITY),
    // Round-trip time in microseconds.
    takes("round-trip/kvm/virtio-net/64/polling", 0.75),
    takes("round-trip/kvm/virtio-net/64/sleeping", 70.0),
];

#[cfg(test)]
mod tests;
