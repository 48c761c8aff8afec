//! `cargo xtask setup`: installs the Debian packages that tests need, and the cargo tools that checks and fuzzing
//! need.

use std::time::Duration;

use anyhow::Result;

use crate::fuzz;
use crate::step::{Step, installed, output, succeeds};

/// A package, and the program (or another file) that shows that it is installed.
struct Package {
    name: &'static str,
    program: &'static str,
    why: &'static str,
}

/// Debian installs it beside the version without DPDK.
const OVS_DPDK: &str = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk";

/// DPDK's l3fwd example.
const L3FWD: &str = "/usr/share/dpdk/examples/l3fwd/main.c";

const NEEDED: [Package; 25] = [
    Package { name: "iproute2", program: "ip", why: "namespaces, links, addresses" },
    Package { name: "busybox", program: "busybox", why: "ping and nc" },
    Package { name: "tshark", program: "tshark", why: "parses captured frames independently" },
    Package { name: "qemu-system-x86", program: "qemu-system-x86_64", why: "a stock e1000 for our driver" },
    Package { name: "dpdk-dev", program: "dpdk-testpmd", why: "peers of vhost-user" },
    Package { name: "dpdk-doc", program: L3FWD, why: "sources of l3fwd, a router to compare with" },
    Package {
        name: "openvswitch-switch-dpdk",
        program: OVS_DPDK,
        why: "a switch that is a peer of vhost-user",
    },
    Package { name: "openvswitch-switch", program: "ovs-vsctl", why: "a switch to plug routers into" },
    Package { name: "lxc", program: "lxc-start", why: "containers with routers in them" },
    Package { name: "frr", program: "vtysh", why: "control planes of routers" },
    Package { name: "gobgpd", program: "gobgpd", why: "replays full tables to them" },
    Package { name: "ethtool", program: "ethtool", why: "looks at drivers, sets offloads" },
    Package { name: "iperf3", program: "iperf3", why: "TCP between guests" },
    Package {
        name: "python3-scapy",
        program: "scapy",
        why: "frames of each kind, to compare with the kernel",
    },
    Package { name: "traceroute", program: "traceroute", why: "paths through a router" },
    Package { name: "mtr-tiny", program: "mtr", why: "paths through a router" },
    Package { name: "iputils-tracepath", program: "tracepath", why: "paths across a step of the MTU" },
    Package { name: "ndisc6", program: "ndisc6", why: "neighbour and router discovery" },
    Package { name: "radvd", program: "radvd", why: "another router on a link" },
    Package { name: "tcpdump", program: "tcpdump", why: "captures what a router sends" },
    Package { name: "dpkg-dev", program: "dpkg-shlibdeps", why: "makes the Debian package" },
    Package { name: "g++", program: "c++", why: "links fuzz targets" },
    Package { name: "prometheus", program: "promtool", why: "judges what telemetry hands out" },
    Package { name: "lintian", program: "lintian", why: "judges the Debian package" },
    Package { name: "binutils", program: "strip", why: "makes the Debian package" },
];

/// Installs what is missing: packages, cargo-deny, cargo-fuzz; returns true if everything is installed.
pub(crate) fn run() -> Result<bool> {
    packages()?;
    let mut well = missing().is_empty();
    if !succeeds("cargo", &["deny", "--version"]) {
        well &= Step::new("cargo").args(["install", "--locked", "cargo-deny"]).run()?;
    }
    match fuzz::install() {
        Ok(()) => {}
        Err(why) => {
            println!("{why:#}");
            well = false;
        }
    }
    println!("{}", if well { "everything is installed" } else { "not everything could be installed" });
    Ok(well)
}

fn missing() -> Vec<&'static Package> {
    NEEDED.iter().filter(|package| !installed(package.program)).collect()
}

/// Installs the missing packages, or prints how to; never fails: a test that lacks a program is skipped.
pub(crate) fn packages() -> Result<()> {
    let missing = missing();
    if missing.is_empty() {
        return Ok(());
    }
    for package in &missing {
        println!("missing: {} ({})", package.name, package.why);
    }
    let names = missing.iter().map(|p| p.name);
    let install = Step::new("apt-get")
        .args(["install", "-y", "--no-install-recommends"])
        .args(names)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .limit(Duration::from_secs(600));
    if output("id", &["-u"]) != "0" || !installed("apt-get") {
        println!("tests that need them are skipped; as root: {}", install.shown());
        return Ok(());
    }
    let update = Step::new("apt-get").args(["update", "-q"]).limit(Duration::from_secs(300));
    if !(update.run()? && install.run()?) {
        println!("could not install them: tests that need them are skipped");
    }
    Ok(())
}
