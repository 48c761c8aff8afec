//! Objective: `ringroad demo` ends by itself; it has shown pings, an expired TTL, a TCP transfer, the live
//! table with rates, drops, exits and CPU, and a summary; nothing of it remains. Tested with both NIC models, and with
//! every transmit mode of an e1000.

use std::process::Command;
use std::time::Duration;

use support::{Running, Signal, Traces, alone};

/// Longest wait for its end, also on a busy host.
const PATIENCE: Duration = Duration::from_secs(120);

fn demo(options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringroad"));
    command.arg("demo").args(options);
    command
}

/// Returns the numbers in a line.
fn numbers(line: &str) -> Vec<f64> {
    line.split_whitespace().filter_map(|word| word.trim_matches([',', ';', '%']).parse().ok()).collect()
}

/// Runs the demo and checks everything that it must show.
fn tour(options: &[&str]) {
    let _turn = alone();
    let before = Traces::now();
    let done = support::run(&mut demo(options), PATIENCE).expect("it ends by itself");
    assert_eq!(done.status.code(), Some(0), "{}\n{}", done.stdout, done.stderr);
    assert_eq!(done.stderr, "");
    let text = done.stdout;
    let count = |what: &str| text.lines().filter(|line| line.contains(what)).count();
    assert_eq!(count("198.51.100.2 answers in"), 4, "{text}");
    assert_eq!(count("TTL 1 dies at 192.0.2.1"), 1, "{text}");
    assert_eq!(count("every octet checked"), 1, "{text}");
    for title in ["rx pps", "rx Mbit/s", "tx pps", "tx Mbit/s", "exits/packet", "CPU %", "vcpu0", "drops:"] {
        assert!(count(title) >= 3, "{title}: {text}");
    }
    let flooded = text.lines().filter(|line| line.starts_with("demo.in ") && numbers(line)[0] > 0.0);
    assert!(flooded.count() >= 3, "{text}");
    let summary = text.lines().find(|line| line.starts_with("The router forwarded")).expect("a summary");
    let numbers = numbers(summary);
    // Packets, Mpps, frames offered, arrived, lost, damaged, in this order.
    let [forwarded, .., offered, arrived, _, damaged] = numbers[..] else { panic!("{summary}") };
    assert!(forwarded >= arrived && offered >= arrived && arrived > 0.0, "{summary}");
    assert_eq!(damaged, 0.0, "{summary}");
    assert_eq!(Traces::left(&before, Duration::from_secs(60)), [""; 0]);
}

#[test]
fn the_whole_tour() {
    support::needs!(Root, Kvm, Tun);
    tour(&[]);
}

#[test]
fn options_that_do_not_fit() {
    for (options, line) in [
        (
            ["--nic=virtio-net", "--mode=csb"],
            "ringroad: --mode: only an e1000 has it; remove it, or write --nic e1000",
        ),
        (["--nic=ne2000", "--itr=0"], "\"ne2000\" is no NIC model; models: virtio-net, e1000"),
        (
            ["--mode=fast", "--itr=0"],
            "\"fast\" is no way to transmit; ways: base, async, send-combining, csb, coalesced",
        ),
        (["--nic=e1000", "--itr=65536"], "\"65536\" is out of range; write 0 to 65535, or \"adaptive\""),
    ] {
        let done = support::run(&mut demo(&options), PATIENCE).expect("it ends");
        assert!(!done.status.success() && done.stdout.is_empty(), "{options:?}");
        assert!(done.stderr.contains(line), "{options:?}: {}", done.stderr);
    }
}

mod all {
    use super::*;

    #[test]
    fn the_whole_tour_with_e1000s() {
        support::needs!(Root, Kvm, Tun);
        tour(&["--nic", "e1000", "--mode", "csb"]);
        for mode in ["base", "async", "send-combining", "coalesced"] {
            tour(&["--mode", mode]);
        }
    }

    #[test]
    fn the_whole_tour_with_moderated_interrupts() {
        support::needs!(Root, Kvm, Tun);
        tour(&["--itr", "100"]);
        tour(&["--nic", "e1000", "--itr", "adaptive"]);
    }

    #[test]
    fn a_second_demo_is_refused_and_does_not_disturb_the_first() {
        support::needs!(Root, Kvm, Tun);
        let _turn = alone();
        let before = Traces::now();
        let mut first = Running::start(&mut demo(&[])).expect("it starts");
        first.wait_for_line(PATIENCE, |line| line.contains("ping 1")).expect("it pings");
        let second = support::run(&mut demo(&[]), PATIENCE).expect("it ends");
        assert_eq!(second.status.code(), Some(1));
        assert_eq!(second.stdout, "");
        let expected = format!("ringroad: a router named 'demo' is already running (pid {})", first.id());
        assert_eq!(second.stderr, expected);
        assert!(!first.ended().expect("it can be asked"));
        first.signal(Signal::INT).expect("it can be signalled");
        let done = first.wait(PATIENCE).expect("it ends");
        assert!(done.stderr.lines().count() <= 1, "{}", done.stderr);
        assert_eq!(Traces::left(&before, Duration::from_secs(60)), [""; 0]);
    }
}
