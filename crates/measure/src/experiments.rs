//! Experiments that `cargo xtask bench` runs; add a new experiment as a line here.

/// One call of `ringroad lab run`.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Name on the command line of the bench.
    pub name: &'static str,
    /// Arguments of `ringroad lab run`.
    pub words: &'static [&'static str],
    /// True if `--seconds` applies to it.
    pub timed: bool,
}

const E1000_COMBINING: [&str; 7] =
    ["guest-tx", "--nic", "e1000", "--mode", "send-combining", "--itr", "4000"];
const E1000_ITR: [&str; 7] = ["guest-tx", "--nic", "e1000", "--mode", "base", "--itr", "4000"];
const E1000_COALESCED: [&str; 5] = ["guest-tx", "--nic", "e1000", "--mode", "coalesced"];
const E1000_COALESCED_ITR: [&str; 7] = ["guest-tx", "--nic", "e1000", "--mode", "coalesced", "--itr", "4000"];
const ROUND_TRIP_BASE: [&str; 5] = ["round-trip", "--nic", "e1000", "--mode", "base"];
const ROUND_TRIP_ASYNC: [&str; 5] = ["round-trip", "--nic", "e1000", "--mode", "async"];
const ROUND_TRIP_ITR: [&str; 5] = ["round-trip", "--nic", "e1000", "--itr", "100"];
/// Interval so long that every interrupt is delayed, even where handling one takes longer than the paper's 25 µs.
const ROUND_TRIP_1MS: [&str; 5] = ["round-trip", "--nic", "e1000", "--itr", "4000"];
const ROUND_TRIP_ADAPTIVE: [&str; 5] = ["round-trip", "--nic", "e1000", "--itr", "adaptive"];

/// With frames as short as those of IPv6 can be; the IPv4 peer is `forward --frame 80`.
const FORWARD_IPV6: [&str; 5] = ["forward", "--frame", "80", "--family", "ipv6"];
const FORWARD_IPV6_250K: [&str; 7] = ["forward", "--frame", "80", "--family", "ipv6", "--routes", "250000"];
const LOOKUP_IPV6_250K: [&str; 5] = ["lookup", "--family", "ipv6", "--routes", "250000"];

/// iperf3 measures whole seconds: two alternating measurements of each variant in a round.
const TCP_FORWARD: [&str; 5] = ["tcp-forward", "--seconds", "0.2", "--repeat", "2"];
const TCP_FORWARD_PROCESS: [&str; 7] =
    ["tcp-forward", "--engine", "process", "--seconds", "0.2", "--repeat", "2"];
/// Before each slice the hostile router behaves for a second. Two of its misdeeds, with the fewest slices that allow
/// a comparison.
const HOSTILE_REGISTERS: [&str; 7] =
    ["hostile", "--misdeed", "registers", "--seconds", "0.2", "--repeat", "1"];
const HOSTILE_KICKS: [&str; 7] = ["hostile", "--misdeed", "kicks", "--seconds", "0.2", "--repeat", "1"];
/// A repetition is whole, and has ten steps.
const GUARANTEE: [&str; 5] = ["guarantee", "--frame", "60", "--repeat", "1"];
/// Cases of `container-isolation` that have a requirement. A repetition is whole, and has steps.
const CONTAINER_PROTECTED: [&str; 3] = ["container-protected", "--repeat", "1"];

/// All experiments, in the order in which they run.
pub const EXPERIMENTS: &[Experiment] = &[
    Experiment { name: "forward", words: &["forward"], timed: true },
    // Each follows directly after the one it is compared with, so that both find the cores in the same places.
    Experiment { name: "forward-sandbox", words: &["forward", "--sandbox", "on"], timed: true },
    Experiment { name: "forward-csb", words: &["forward", "--nic", "e1000"], timed: true },
    Experiment { name: "forward-process", words: &["forward", "--engine", "process"], timed: true },
    Experiment { name: "forward-2q", words: &["forward", "--queues", "2", "--vcpus", "2"], timed: true },
    Experiment { name: "forward-1m", words: &["forward", "--routes", "1000000"], timed: true },
    Experiment { name: "forward-80", words: &["forward", "--frame", "80"], timed: true },
    Experiment { name: "forward-ipv6", words: &FORWARD_IPV6, timed: true },
    Experiment { name: "forward-ipv6-250k", words: &FORWARD_IPV6_250K, timed: true },
    Experiment { name: "lookup-ipv6-250k", words: &LOOKUP_IPV6_250K, timed: true },
    Experiment { name: "scan", words: &["scan"], timed: true },
    Experiment { name: "guest-to-guest", words: &["guest-to-guest"], timed: true },
    Experiment { name: "guest-to-guest-csb", words: &["guest-to-guest", "--nic", "e1000"], timed: true },
    Experiment { name: "guest-tx", words: &["guest-tx"], timed: true },
    Experiment { name: "guest-tx-csb", words: &["guest-tx", "--nic", "e1000"], timed: true },
    Experiment { name: "guest-tx-combining", words: &E1000_COMBINING, timed: true },
    Experiment { name: "guest-tx-itr", words: &E1000_ITR, timed: true },
    Experiment {
        name: "guest-tx-base",
        words: &["guest-tx", "--nic", "e1000", "--mode", "base"],
        timed: true,
    },
    Experiment { name: "guest-tx-coalesced", words: &E1000_COALESCED, timed: true },
    Experiment { name: "guest-tx-coalesced-itr", words: &E1000_COALESCED_ITR, timed: true },
    Experiment { name: "guest-rx-csb", words: &["guest-rx", "--nic", "e1000"], timed: true },
    Experiment { name: "switch", words: &["switch"], timed: true },
    Experiment { name: "wire", words: &["wire"], timed: true },
    Experiment { name: "uplink", words: &["uplink"], timed: true },
    Experiment { name: "forward-tap", words: &["forward", "--attach", "tap"], timed: true },
    Experiment { name: "tcp-forward", words: &TCP_FORWARD, timed: false },
    Experiment { name: "tcp-forward-process", words: &TCP_FORWARD_PROCESS, timed: false },
    Experiment { name: "round-trip", words: &["round-trip"], timed: false },
    Experiment { name: "round-trip-csb", words: &["round-trip", "--nic", "e1000"], timed: false },
    Experiment { name: "round-trip-base", words: &ROUND_TRIP_BASE, timed: false },
    Experiment { name: "round-trip-async", words: &ROUND_TRIP_ASYNC, timed: false },
    Experiment { name: "round-trip-itr", words: &ROUND_TRIP_ITR, timed: false },
    Experiment { name: "round-trip-1ms", words: &ROUND_TRIP_1MS, timed: false },
    Experiment { name: "round-trip-adaptive", words: &ROUND_TRIP_ADAPTIVE, timed: false },
    Experiment { name: "livelock", words: &["livelock", "--nic", "e1000", "--mode", "base"], timed: true },
    Experiment { name: "hostile-registers", words: &HOSTILE_REGISTERS, timed: false },
    Experiment { name: "hostile-kicks", words: &HOSTILE_KICKS, timed: false },
    Experiment { name: "guarantee", words: &GUARANTEE, timed: false },
    Experiment { name: "boot", words: &["boot"], timed: false },
    Experiment { name: "boot-process", words: &["boot", "--engine", "process"], timed: false },
    Experiment { name: "idle", words: &["idle"], timed: false },
    Experiment { name: "forward-updates", words: &["forward-updates"], timed: true },
    Experiment { name: "full-table", words: &["full-table", "--repeat", "1"], timed: false },
    Experiment { name: "bfd-failover", words: &["bfd-failover", "--repeat", "1"], timed: false },
    Experiment { name: "bfd-flood", words: &["bfd-flood", "--repeat", "1"], timed: false },
    Experiment { name: "container-by-hand", words: &["container-by-hand"], timed: true },
    Experiment { name: "container-eight", words: &["container-eight"], timed: true },
    Experiment { name: "container-protected", words: &CONTAINER_PROTECTED, timed: false },
    Experiment { name: "container-boot", words: &["container-boot", "--repeat", "1"], timed: false },
    Experiment { name: "container-memory", words: &["container-memory", "--repeat", "1"], timed: false },
    Experiment { name: "group-change", words: &["group-change", "--repeat", "1"], timed: false },
    Experiment { name: "group-killed", words: &["group-killed", "--repeat", "1"], timed: false },
    Experiment { name: "group-new", words: &["group-new", "--repeat", "1"], timed: false },
    Experiment { name: "density", words: &["density", "--repeat", "1"], timed: false },
];
