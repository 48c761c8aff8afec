//! Objective: a router does with each kind of frame what the kernel's forwarding does, except for what `docs/forwarding.md` lists. A
//! script with scapy sends more than 150 kinds of each family, first to a kernel and then to a router with the same addresses.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use support::{Namespace, Stage, needs, run};

const RINGROAD: &str = env!("CARGO_BIN_EXE_ringroad");
/// Timeout for all kinds of frames, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(900);
const LEFT: &str = "02:00:00:00:39:01";
const RIGHT: &str = "02:00:00:00:39:02";
const HOST: &str = "02:00:00:00:39:08";
const FAR: &str = "02:00:00:00:39:09";
/// Hosts on both sides: address, Ethernet address, and whether on the right.
const HOSTS: [(&str, &str, bool); 6] = [
    ("192.0.2.8", HOST, false),
    ("192.0.2.9", FAR, false),
    ("198.51.100.9", FAR, true),
    ("2001:db8:1::8", HOST, false),
    ("2001:db8:1::9", FAR, false),
    ("2001:db8:2::9", FAR, true),
];
/// Kernel parameters of a router that forwards both families, sends all errors, and neither source routes nor redirects, which it always
/// sends for IPv6.
const PARAMETERS: [(&str, &str); 10] = [
    ("net.ipv4.ip_forward", "1"),
    ("net.ipv6.conf.all.forwarding", "1"),
    ("net.ipv4.conf.all.rp_filter", "0"),
    ("net.ipv4.conf.default.rp_filter", "0"),
    ("net.ipv4.conf.all.send_redirects", "0"),
    ("net.ipv4.conf.default.send_redirects", "0"),
    ("net.ipv4.conf.all.accept_source_route", "0"),
    ("net.ipv4.conf.default.accept_source_route", "0"),
    ("net.ipv4.icmp_ratelimit", "0"),
    ("net.ipv6.icmp.ratelimit", "0"),
];

/// What leaves a router for each kind of frame.
type Fates = BTreeMap<String, Vec<String>>;

/// Sends all kinds of frames between these interfaces.
fn fates(left: (&Namespace, &str), right: (&Namespace, &str)) -> Fates {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/t44_forwarding/kinds.py");
    // Debian's own, which has Debian's scapy; another one may come first in PATH.
    let mut command = Command::new("/usr/bin/python3");
    command.args([script, left.0.name(), left.1, right.0.name(), right.1]);
    let done = run(&mut command, PATIENCE).expect("it ends");
    assert!(done.status.success(), "{}", done.stderr);
    let line = |line: &str| -> (String, Vec<String>) {
        let told: Value = serde_json::from_str(line).expect("JSON");
        let out = told["out"].as_array().expect("a list").iter();
        let out = out.map(|one| one.as_str().expect("a text").to_owned()).collect();
        (told["name"].as_str().expect("a name").to_owned(), out)
    };
    done.stdout.lines().map(line).collect()
}

fn of_the_kernel() -> Fates {
    let [left, right] = ["rr-k44l", "rr-k44r"].map(|name| Namespace::add_silent(name).expect("a namespace"));
    let router = Namespace::add("rr-k44").expect("a namespace");
    let ip = |words: &str| router.ip(&words.split(' ').collect::<Vec<_>>()).expect("it is done");
    for (key, value) in PARAMETERS {
        router.set(key, value).expect("a parameter");
    }
    ip(&format!("link add left type veth peer name l44 netns {}", left.name()));
    ip(&format!("link add right type veth peer name r44 netns {}", right.name()));
    ip(&format!("link set left address {LEFT} up"));
    ip(&format!("link set right address {RIGHT} mtu 1280 up"));
    for (host, link) in [(&left, "l44"), (&right, "r44")] {
        host.ip(&["link", "set", link, "up"]).expect("it is up");
    }
    for (link, four, six) in
        [("left", "192.0.2.1/24", "2001:db8:1::1/64"), ("right", "198.51.100.1/24", "2001:db8:2::1/64")]
    {
        ip(&format!("address add {four} dev {link}"));
        ip(&format!("address add {six} dev {link} nodad"));
    }
    for (address, mac, on_right) in HOSTS {
        let link = if on_right { "right" } else { "left" };
        ip(&format!("neighbour replace {address} lladdr {mac} dev {link} nud permanent"));
    }
    // To the kernel these are hosts as any other.
    ip(&format!("neighbour replace 198.51.100.0 lladdr {FAR} dev right nud permanent"));
    ip(&format!("neighbour replace 192.0.2.0 lladdr {FAR} dev left nud permanent"));
    ip(&format!("neighbour replace fe80::77 lladdr {FAR} dev left nud permanent"));
    ip("route add 203.0.113.0/24 via 198.51.100.9");
    ip("route add 2001:db8:9::/48 via 2001:db8:2::9");
    fates((&left, "l44"), (&right, "r44"))
}

fn of_ringroad() -> Fates {
    let mut file = format!(
        "[[router]]\nname = \"t44\"\nengine = \"process\"\nrestart = \"never\"\n\
         [[router.nic]]\nname = \"left\"\nattach = \"tap:t44-l\"\nmac = \"{LEFT}\"\n\
         address = [\"192.0.2.1/24\", \"2001:db8:1::1/64\"]\n\
         [[router.nic]]\nname = \"right\"\nattach = \"tap:t44-r\"\nmac = \"{RIGHT}\"\nmtu = 1280\n\
         address = [\"198.51.100.1/24\", \"2001:db8:2::1/64\"]\n\
         [[router.route]]\nto = \"203.0.113.0/24\"\nvia = \"198.51.100.9\"\n\
         [[router.route]]\nto = \"2001:db8:9::/48\"\nvia = \"2001:db8:2::9\"\n"
    );
    for (address, mac, _) in HOSTS {
        file += &format!("[[router.neighbour]]\naddress = \"{address}\"\nmac = \"{mac}\"\n");
    }
    let mut stage = Stage::start(RINGROAD, &file).expect("it starts");
    // Their stacks answer nothing: no frame has their Ethernet addresses.
    let left = stage.host("t44-l", "192.0.2.2/24", "192.0.2.1").expect("left");
    let right = stage.host("t44-r", "198.51.100.2/24", "198.51.100.1").expect("right");
    let fates = fates((&left, "t44-l"), (&right, "t44-r"));
    let counters = stage.finish(vec![left, right]).expect("nothing is left");
    assert_eq!(counters.faults("t44"), [""; 0]);
    fates
}

/// Kinds for which a difference is documented: names, or beginnings of names that end in `*`.
fn documented() -> Vec<String> {
    let page = include_str!("../../docs/forwarding.md");
    let (_, table) = page.split_once("## Differences from Linux").expect("a section");
    let rows = table.lines().skip(1).take_while(|line| !line.starts_with("## "));
    let rows: Vec<&str> = rows.filter(|line| line.starts_with("| `")).collect();
    assert!(rows.len() <= 15, "{} rows", rows.len());
    let first = |row: &&str| row.split('|').nth(1).unwrap_or_default().to_owned();
    let cells: Vec<String> = rows.iter().map(first).collect();
    cells
        .iter()
        .flat_map(|cell| cell.split_whitespace())
        .map(|name| name.trim_matches('`').to_owned())
        .collect()
}

fn is_documented(name: &str, all: &[String]) -> bool {
    all.iter().any(|known| match known.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == known,
    })
}

#[test]
fn the_documented_kinds_are_a_short_list() {
    let all = documented();
    assert!(is_documented("v4-tcp-own", &all) && !is_documented("v4-ttl-64", &all), "{all:?}");
}

mod all {
    use super::*;

    #[test]
    fn each_kind_of_frame_fares_as_in_the_kernel() {
        needs!(Root, Tun, Program("ip"), Program("python3"), Program("scapy"));
        let kernel = of_the_kernel();
        let ours = of_ringroad();
        for family in ["v4-", "v6-"] {
            let kinds: Vec<_> = kernel.iter().filter(|(name, _)| name.starts_with(family)).collect();
            let forwarded =
                kinds.iter().filter(|(_, out)| out.iter().any(|one| one.starts_with("right to"))).count();
            assert!(kinds.len() >= 150 && forwarded >= 60, "{family}: {} kinds, {forwarded}", kinds.len());
        }
        let known = documented();
        let differences: Vec<String> = kernel
            .iter()
            .filter(|(name, out)| ours.get(*name) != Some(*out) && !is_documented(name, &known))
            .map(|(name, out)| format!("{name}: the kernel {out:?}, ringroad {:?}", ours.get(name)))
            .collect();
        assert_eq!(differences, [""; 0], "{}", differences.join("\n"));
    }
}
