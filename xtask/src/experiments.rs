//! What `cargo xtask bench` measures. A new experiment is a new line here.

/// One call of `ringroad lab run`.
pub(crate) struct Experiment {
    /// How it is chosen on the command line.
    pub(crate) name: &'static str,
    /// Words after `ringroad lab run`.
    pub(crate) words: &'static [&'static str],
    /// Whether `--seconds` means something to it.
    pub(crate) timed: bool,
}

/// All of them, in the order in which they run.
pub(crate) const EXPERIMENTS: [Experiment; 11] = [
    Experiment { name: "forward", words: &["forward"], timed: true },
    // Each right after what it is compared with, so that the pair finds the cores where they were.
    Experiment { name: "forward-sandbox", words: &["forward", "--sandbox", "on"], timed: true },
    Experiment { name: "forward-process", words: &["forward", "--engine", "process"], timed: true },
    Experiment { name: "forward-2q", words: &["forward", "--queues", "2", "--vcpus", "2"], timed: true },
    Experiment { name: "forward-1m", words: &["forward", "--routes", "1000000"], timed: true },
    Experiment { name: "guest-to-guest", words: &["guest-to-guest"], timed: true },
    Experiment { name: "switch", words: &["switch"], timed: true },
    Experiment { name: "forward-tap", words: &["forward", "--attach", "tap"], timed: true },
    Experiment { name: "round-trip", words: &["round-trip"], timed: false },
    Experiment { name: "boot", words: &["boot"], timed: false },
    Experiment { name: "idle", words: &["idle"], timed: false },
];
