//! Objective: the kernel's vhost-net serves the NICs of our firmware, between TAPs or macvtaps: ping, TCP and UDP pass, its
//! threads are found, placed and accounted, the driver counts every frame, and nothing is left behind.

use std::path::Path;
use std::time::Duration;

use support::{Counters, Namespace, Running, Signal, Stage, allowed_cpus, transfer};

/// Timeout of every step, generous for software emulation on a busy host.
const PATIENCE: Duration = Duration::from_secs(120);
/// Timeout of a kernel's boot, generous for nested emulation.
const UP: Duration = Duration::from_secs(120);

fn file(name: &str, vhost: &str, more: &str) -> String {
    format!(
        "[[router]]\nname = \"{name}\"\nengine = \"kvm\"\nvhost = \"{vhost}\"\n{more}\
         [[router.nic]]\nname = \"left\"\nattach = \"tap:{name}-l\"\naddress = \"192.0.2.1/24\"\n\
         [[router.nic]]\nname = \"right\"\nattach = \"tap:{name}-r\"\naddress = \"198.51.100.1/24\"\n"
    )
}

fn start(text: &str, name: &str) -> (Stage, Namespace, Namespace) {
    let mut stage = Stage::start(&inbox::ringroad(), text).expect("it starts");
    // The last line of a failed run gives the reason.
    if let Err(error) = stage.run().wait_for_line(PATIENCE, |line| line.contains("counters")) {
        panic!("it does not run: {error:#}");
    }
    let left = stage.host(&format!("{name}-l"), "192.0.2.2/24", "192.0.2.1").expect("left");
    let right = stage.host(&format!("{name}-r"), "198.51.100.2/24", "198.51.100.1").expect("right");
    (stage, left, right)
}

fn no_vhost_net() -> bool {
    let missing = !Path::new("/dev/vhost-net").exists();
    if missing {
        println!("SKIPPED: no /dev/vhost-net");
    }
    missing
}

fn address(text: &str) -> std::net::SocketAddr {
    text.parse().expect("an address")
}

/// Sends pings, each of which must be answered.
fn ping(from: &Namespace, to: &str, octets: u32) {
    support::ping(from.command("busybox"), 5, &["-s", &octets.to_string(), to]).expect("answers");
}

/// Checks that the frames the driver received were forwarded, consumed or dropped under a name.
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

fn vhost_threads() -> Vec<(u32, String)> {
    let entries = std::fs::read_dir("/proc").expect("/proc").filter_map(Result::ok);
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let name =
        |id: u32| Some((id, std::fs::read_to_string(format!("/proc/{id}/comm")).ok()?.trim().to_owned()));
    ids.filter_map(name).filter(|(_, name)| name.starts_with("vhost-")).collect()
}

#[test]
fn ping_tcp_and_udp_pass_through_the_kernel() {
    support::needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
    if no_vhost_net() {
        return;
    }
    let before = vhost_threads();
    let (mut stage, left, right) = start(&file("vn", "kernel", "pin = { vhost = \"1\" }\n"), "vn");
    for octets in [0, 56, 1472, 4000] {
        ping(&left, "198.51.100.2", octets);
        ping(&right, "192.0.2.2", octets);
    }
    ping(&left, "192.0.2.1", 56);
    transfer(&left, &right, address("198.51.100.2:7001"), 2_000_000, PATIENCE);
    transfer(&right, &left, address("192.0.2.2:7001"), 2_000_000, PATIENCE);

    let threads: Vec<_> = vhost_threads().into_iter().filter(|thread| !before.contains(thread)).collect();
    assert_eq!(threads.len(), 2, "{threads:?}");
    for (id, name) in &threads {
        assert_eq!(allowed_cpus(*id).as_deref(), Some("1"), "{name} ({id})");
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

#[test]
fn several_pairs_have_a_thread_of_the_kernel_each() {
    support::needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
    if no_vhost_net() {
        return;
    }
    let before = vhost_threads();
    let nic = |name: &str, tap: &str, address: &str| {
        format!(
            "[[router.nic]]\nname = \"{name}\"\nattach = \"tap:{tap}\"\nqueues = 2\naddress = \"{address}\"\n"
        )
    };
    let text = format!(
        "[[router]]\nname = \"vq\"\nengine = \"kvm\"\nvcpus = 2\nvhost = \"kernel\"\npin = {{ vhost = \"0-1\" }}\n{}{}",
        nic("left", "vq-l", "192.0.2.1/24"),
        nic("right", "vq-r", "198.51.100.1/24")
    );
    let (mut stage, left, right) = start(&text, "vq");
    ping(&left, "198.51.100.2", 1472);
    // Adds flows until the kernel has spread some over each pair: both are equally likely.
    let vcpus = |stage: &mut Stage| {
        let counters = Counters::of(stage.run().lines(0).iter().map(String::as_str)).expect("counters");
        let forwarded = |vcpu: u32| counters.get(&format!("vq.vcpu{vcpu}.forwarded"));
        [forwarded(0), forwarded(1)]
    };
    let end = std::time::Instant::now() + PATIENCE;
    let mut port = 7000;
    while vcpus(&mut stage).contains(&0) || port < 7004 {
        assert!(std::time::Instant::now() < end, "{:?}: frames pass by one pair only", vcpus(&mut stage));
        port += 1;
        transfer(&left, &right, address(&format!("198.51.100.2:{port}")), 200_000, PATIENCE);
        transfer(&right, &left, address(&format!("192.0.2.2:{port}")), 200_000, PATIENCE);
    }
    let threads: Vec<_> = vhost_threads().into_iter().filter(|thread| !before.contains(thread)).collect();
    assert_eq!(threads.len(), 4, "a thread for each pair of each NIC: {threads:?}");
    let mut places: Vec<_> = threads.iter().filter_map(|(id, _)| allowed_cpus(*id)).collect();
    places.sort();
    assert_eq!(places, ["0", "0", "1", "1"], "dealt to the CPUs of pin.vhost");
    // It is a thread like any other: root may change its scheduling class, and it continues to carry frames.
    let (id, _) = &threads[0];
    let mut chrt = std::process::Command::new("chrt");
    let done = support::run(chrt.args(["-f", "-p", "1", &id.to_string()]), PATIENCE).expect("it ends");
    assert!(done.status.success(), "{}", done.stderr);
    ping(&left, "198.51.100.2", 56);
    let counters = stage.finish(vec![left, right]).expect("nothing is left");
    adds_up(&counters, "vq");
    assert_eq!(vhost_threads(), before);
}

#[test]
fn a_macvtap_is_served_by_the_kernel() {
    support::needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
    if no_vhost_net() {
        return;
    }
    let far = Namespace::add("vm-far").expect("a namespace");
    let text = "[[router]]\nname = \"vm\"\nengine = \"kvm\"\nvhost = \"kernel\"\n\
                [[router.nic]]\nname = \"wan\"\nattach = \"macvtap:vm-near\"\naddress = \"192.0.2.1/24\"\n";
    support::run(
        std::process::Command::new("ip")
            .args(["link", "add", "vm-near", "type", "veth", "peer", "name", "vm-far"]),
        PATIENCE,
    )
    .expect("a veth");
    let ip =
        |words: &[&str]| support::run(std::process::Command::new("ip").args(words), PATIENCE).expect("ip");
    ip(&["link", "set", "vm-far", "netns", far.name()]);
    ip(&["link", "set", "vm-near", "up"]);
    far.ip(&["address", "add", "192.0.2.2/24", "dev", "vm-far"]).expect("an address");
    far.ip(&["link", "set", "vm-far", "up"]).expect("up");

    let folder = std::env::temp_dir().join(format!("vm-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("f.toml"), text).expect("a file");
    let mut command = std::process::Command::new(inbox::ringroad());
    command.args(["run", "f.toml", "--json"]).current_dir(&folder);
    let mut run = Running::start(&mut command).expect("it starts");
    run.wait_for_line(PATIENCE, |line| line.contains("counters")).expect("it runs");
    ping(&far, "192.0.2.1", 56);
    ping(&far, "192.0.2.1", 1472);

    // The interface is deleted: it is recreated under the kernel's thread.
    ip(&["link", "delete", "vm.wan"]);
    run.wait_for_line(PATIENCE, |line| line.contains("is there again")).expect("it is mended");
    ping(&far, "192.0.2.1", 56);
    run.signal(Signal::TERM).expect("a signal");
    let done = run.wait(PATIENCE).expect("it ends");
    assert!(done.status.success(), "{}: {}", done.status, done.stderr);
    ip(&["link", "delete", "vm-near"]);
    std::fs::remove_dir_all(&folder).expect("the folder goes");
}

#[test]
fn the_vcpu_and_a_main_loop_carry_frames_as_before_vhost_net() {
    support::needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
    let (stage, left, right) = start(&file("vv", "vmm", ""), "vv");
    for octets in [0, 1472, 4000] {
        ping(&left, "198.51.100.2", octets);
    }
    transfer(&left, &right, address("198.51.100.2:7001"), 500_000, PATIENCE);
    let counters = stage.finish(vec![left, right]).expect("nothing is left");
    let faults = counters.faults("vv");
    assert!(faults.is_empty(), "{faults:?}");
    // Each kick caused an exit.
    assert!(
        counters.get("vv.vcpu0.exit.mmio_write") > 0
            || counters.sum(|name| name.starts_with("vv.vcpu0.exit.")) > 0
    );
}

#[test]
fn a_linux_guest_is_served_by_the_kernel() {
    support::needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"), Program("iperf3"));
    if no_vhost_net() {
        return;
    }
    let run = "ip+address+add+10.1.0.2/24+dev+eth0;ip+link+set+eth0+up;iperf3+-s";
    let text = format!(
        "[[router]]\nname = \"tux\"\nengine = \"linux\"\nvhost = \"kernel\"\nrestart = \"never\"\n\
         kernel = \"{}\"\ninitrd = \"{}\"\nconsole = \"console.log\"\nmemory = \"192M\"\n\
         append = \"{} panic=-1 run={run}\"\n\
         [[router.nic]]\nname = \"eth0\"\nattach = \"tap:tux\"\n",
        inbox::GUEST_KERNEL,
        inbox::GUEST_INITRD,
        inbox::QUICKLY,
    );
    let mut stage = Stage::start(&inbox::ringroad(), &text).expect("it starts");
    let host = stage.host("tux", "10.1.0.1/24", "10.1.0.2").expect("a host");
    let console = stage.path("console.log");
    let said = || std::fs::read_to_string(&console).unwrap_or_default();
    let end = std::time::Instant::now() + UP;
    let up = |host: &Namespace| {
        let mut ping = host.command("busybox");
        ping.args(["ping", "-c", "1", "-W", "5", "10.1.0.2"]);
        support::run(&mut ping, PATIENCE).expect("ping ends").status.success()
    };
    while !up(&host) {
        assert!(std::time::Instant::now() < end, "{}", said());
    }
    ping(&host, "10.1.0.2", 1472);
    if let Err(error) = inbox::iperf(&host, "10.1.0.2", "2M", PATIENCE) {
        panic!("{error:#}\n{}", said());
    }
    stage.finish(vec![host]).expect("nothing is left");
}
