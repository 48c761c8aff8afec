//! Objective: the kernel's vhost-net serves the NICs of our firmware, between TAPs or macvtaps: ping, TCP and UDP pass, its
//! threads are found, placed and accounted, every frame is counted by the driver, and nothing is left.

use std::path::Path;
use std::time::Duration;

use support::{Counters, Namespace, Stage, transfer};

/// Nothing here takes so long, even under software emulation on a busy host.
const PATIENCE: Duration = Duration::from_secs(60);

fn file(name: &str, vcpus: u32, more: &str) -> String {
    format!(
        "[[router]]\nname = \"{name}\"\nengine = \"kvm\"\nvhost = \"kernel\"\nvcpus = {vcpus}\n{more}\
         [[router.nic]]\nname = \"left\"\nattach = \"tap:{name}-l\"\naddress = \"192.0.2.1/24\"\n\
         [[router.nic]]\nname = \"right\"\nattach = \"tap:{name}-r\"\naddress = \"198.51.100.1/24\"\n"
    )
}

fn hosts(stage: &mut Stage, name: &str) -> (Namespace, Namespace) {
    let left = stage.host(&format!("{name}-l"), "192.0.2.2/24", "192.0.2.1").expect("left");
    let right = stage.host(&format!("{name}-r"), "198.51.100.2/24", "198.51.100.1").expect("right");
    (left, right)
}

/// Pings, and expects every answer.
fn ping(from: &Namespace, to: &str, octets: u32) {
    let mut command = from.command("busybox");
    command.args(["ping", "-c", "5", "-i", "0.2", "-W", "20", "-s", &octets.to_string(), to]);
    let said = support::run(&mut command, PATIENCE).expect("ping ends").stdout;
    assert!(said.contains(" 0% packet loss"), "{octets} octets to {to}: {said}");
}

/// What the driver took out of its rings it forwarded, consumed or dropped under a name.
fn adds_up(counters: &Counters, router: &str) {
    let vcpus = |wanted: &dyn Fn(&[&str]) -> bool| {
        counters.sum(|name| {
            let rest = name.strip_prefix(router).and_then(|rest| rest.strip_prefix(".vcpu"));
            rest.is_some_and(|rest| wanted(&rest.split('.').skip(1).collect::<Vec<_>>()))
        })
    };
    let came = vcpus(&|parts| parts.len() == 2 && parts[1] == "rx_frames");
    let handled = vcpus(&|parts| {
        parts.len() == 1 && (["forwarded", "consumed"].contains(&parts[0]) || parts[0].starts_with("drop_"))
    });
    assert!(came > 0 && came == handled, "{came} frames came, {handled} were handled");
}

fn vhost_threads() -> Vec<(i32, String)> {
    let entries = std::fs::read_dir("/proc").expect("/proc").filter_map(Result::ok);
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let name =
        |id: i32| Some((id, std::fs::read_to_string(format!("/proc/{id}/comm")).ok()?.trim().to_owned()));
    ids.filter_map(name).filter(|(_, name)| name.starts_with("vhost-")).collect()
}

#[test]
fn ping_tcp_and_udp_pass_through_the_kernel() {
    support::needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
    if !Path::new("/dev/vhost-net").exists() {
        println!("SKIPPED: no /dev/vhost-net");
        return;
    }
    let before = vhost_threads();
    let mut stage =
        Stage::start(&inbox::ringroad(), &file("vn", 1, "pin = { vhost = \"1\" }\n")).expect("it starts");
    let (left, right) = hosts(&mut stage, "vn");
    for octets in [0, 56, 1472, 4000] {
        ping(&left, "198.51.100.2", octets);
        ping(&right, "192.0.2.2", octets);
    }
    ping(&left, "192.0.2.1", 56);
    transfer(&left, &right, "198.51.100.2:7001".parse().expect("an address"), 2_000_000, PATIENCE);
    transfer(&right, &left, "192.0.2.2:7001".parse().expect("an address"), 2_000_000, PATIENCE);

    let threads: Vec<_> = vhost_threads().into_iter().filter(|thread| !before.contains(thread)).collect();
    assert_eq!(threads.len(), 2, "{threads:?}");
    for (id, name) in &threads {
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).expect("a thread");
        let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:\t"));
        assert_eq!(allowed, Some("1"), "{name} ({id})");
    }
    let lines = stage.run().lines(0);
    for nic in ["left", "right"] {
        let key = format!("\"vn/{nic}-kernel0\":");
        let shares = lines.iter().filter_map(|line| line.split(&key).nth(1)?.split([',', '}']).next());
        let most = shares.filter_map(|share| share.parse::<f64>().ok()).fold(0.0, f64::max);
        assert!(most > 0.0, "no CPU time of the kernel's thread for {nic}: {lines:?}");
    }
    let counters = stage.finish(vec![left, right]).expect("nothing is left");
    adds_up(&counters, "vn");
    assert_eq!(vhost_threads(), before);
}
