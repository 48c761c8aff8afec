//! Objective: a router with 32 NICs, as many as it can have, forwards between the first of them, the first whose interrupts are
//! messages, and the last one, which is in PCI slot 0; with each engine and NIC model, and with two vCPUs.

use std::net::SocketAddr;
use std::time::Duration;

use support::{Counters, Namespace, Stage, needs, ping, transfer};

const RINGROAD: &str = env!("CARGO_BIN_EXE_ringroad");
/// Timeout of every step, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(60);
const NICS: usize = 32;
/// NICs with a host. Those from 8 on have no pin of their own at the interrupt controller.
const HOSTS: [usize; 3] = [0, 8, NICS - 1];
/// Octets of each TCP transfer.
const OCTETS: usize = 2_000_000;

/// A router with so many NICs: those without a host are at a switch, or plugged into nothing.
fn file(nics: usize, router: &str, nic: &str) -> String {
    let attach = |number: usize| match number {
        _ if HOSTS.contains(&number) => format!("tap:t47-{number}"),
        _ if number.is_multiple_of(2) => "null".to_owned(),
        _ => "switch:field".to_owned(),
    };
    let nics = (0..nics).map(|number| {
        format!(
            "[[router.nic]]\nname = \"n{number}\"\nattach = \"{}\"\naddress = \"10.47.{number}.1/24\"\n{nic}",
            attach(number)
        )
    });
    format!("[switch.field]\n[[router]]\nname = \"t47\"\n{router}") + &nics.collect::<String>()
}

fn host(stage: &mut Stage, number: usize) -> Namespace {
    let (address, gateway) = (format!("10.47.{number}.2/24"), format!("10.47.{number}.1"));
    stage.host(&format!("t47-{number}"), &address, &gateway).expect("a host")
}

/// Sends between all hosts; returns the counters.
fn try_out(router: &str, nic: &str) -> Counters {
    let mut stage = Stage::start(RINGROAD, &file(NICS, router, nic)).expect("it starts");
    let hosts = HOSTS.map(|number| host(&mut stage, number));
    for from in &hosts {
        for to in HOSTS {
            // The host itself answers for one of them.
            ping(from.command("busybox"), 3, &[&format!("10.47.{to}.2")]).expect("answers");
        }
    }
    for number in 1..NICS {
        ping(hosts[0].command("busybox"), 1, &[&format!("10.47.{number}.1")]).expect("each address answers");
    }
    for (from, to) in [(0, 2), (2, 1), (1, 0)] {
        let place: SocketAddr = format!("10.47.{}.2:7047", HOSTS[to]).parse().expect("an address");
        transfer(&hosts[from], &hosts[to], place, OCTETS, PATIENCE);
    }
    let counters = stage.finish(hosts.into()).expect("nothing is left");
    assert_eq!(counters.faults("t47"), [""; 0]);
    for number in HOSTS {
        for way in ["rx", "tx"] {
            let frames = counters.get(&format!("t47.n{number}.{way}.frames"));
            // The pings alone: requests to two hosts, and answers to both.
            assert!(frames > 12, "n{number}: {frames} {way}");
        }
    }
    counters
}

#[test]
fn virtio_nics_under_kvm() {
    needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
    try_out("engine = \"kvm\"\n", "");
}

#[test]
fn virtio_nics_of_a_process() {
    needs!(Root, Tun, Program("ip"), Program("busybox"));
    try_out("engine = \"process\"\n", "");
}

#[test]
fn one_more_is_refused_in_one_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("file.toml");
    std::fs::write(&path, file(NICS + 1, "engine = \"process\"\n", "")).expect("written");
    let mut command = std::process::Command::new(RINGROAD);
    let done = support::run(command.arg("run").arg(&path), PATIENCE).expect("it ends");
    assert_eq!((done.status.code(), done.stdout.as_str()), (Some(1), ""), "{}", done.stderr);
    assert!(done.stderr.lines().count() == 1 && done.stderr.contains("32"), "{}", done.stderr);
}

mod all {
    use super::*;

    /// KVM collects the writes of the registers of all 32, or a thread polls their status blocks.
    #[test]
    fn e1000s_under_kvm() {
        needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
        for mode in ["csb", "coalesced"] {
            let nic = format!("model = \"e1000\"\nmode = \"{mode}\"\n");
            let counters = try_out("engine = \"kvm\"\n", &nic);
            let collected = counters.sum(|name| name.ends_with(".registers.coalesced_tdt"));
            assert!(collected > 0 || mode != "coalesced", "{counters:?}");
        }
    }

    #[test]
    fn e1000s_of_a_process() {
        needs!(Root, Tun, Program("ip"), Program("busybox"));
        try_out("engine = \"process\"\n", "model = \"e1000\"\n");
    }

    #[test]
    fn virtio_nics_of_two_vcpus() {
        needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
        try_out("engine = \"kvm\"\nvcpus = 2\n", "");
    }

    #[test]
    fn e1000s_of_two_vcpus() {
        needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
        try_out("engine = \"kvm\"\nvcpus = 2\n", "model = \"e1000\"\n");
    }
}
