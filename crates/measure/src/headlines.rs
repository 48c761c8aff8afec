//! The six headline figures of the README.

/// One headline figure.
#[derive(Clone, Copy, Debug)]
pub struct Headline {
    /// Description of our side.
    pub what: &'static str,
    /// Name under which our result is printed.
    pub ours: &'static str,
    /// Description of the peer that alternated with it, and the name under which its result is printed.
    pub peer: Option<(&'static str, &'static str)>,
}

const fn headline(
    what: &'static str,
    ours: &'static str,
    peer: &'static str,
    theirs: &'static str,
) -> Headline {
    Headline { what, ours, peer: Some((peer, theirs)) }
}

/// All headlines.
pub const SIX: [Headline; 6] = [
    headline(
        "a router between two rings",
        "forward/kvm/virtio-net/64",
        "DPDK's l3fwd, tuned",
        "dpdk_router_l3fwd_lpm_tuned_64",
    ),
    headline(
        "guest to guest by the switch",
        "guest-to-guest/kvm/virtio-net/64",
        "Open vSwitch with DPDK, tuned",
        "ovs_dpdk_mac_tuned_64",
    ),
    headline(
        "a router between two TAPs",
        "forward/kvm/virtio-net/tap/64",
        "a bare loop over two TAPs",
        "forward/bare-loop/tap/64",
    ),
    headline(
        "a guest of vhost-user that routes",
        "vhost_route_ringroad_tuned_64",
        "the same guest behind DPDK, tuned",
        "vhost_route_dpdk_tuned_64",
    ),
    headline(
        "one TCP stream through TAPs",
        "tcp-forward/kvm/virtio-net/tap",
        "the kernel's forwarding",
        "tcp-forward/kernel/veth",
    ),
    Headline { what: "from start to the first frame", ours: "boot/kvm/virtio-net/command", peer: None },
];
