//! Two routers that are one for the hosts of two networks, by VRRP. The hosts are kernel routers of the run, which have one cable each.

use super::*;

/// Ethernet address of the virtual router 7 (RFC 5798, 7.3).
const VIRTUAL: &str = "00:00:5e:00:01:07";
/// Address that only the control plane of a router has.
const LOOPBACK: &str = "203.0.113.9";

/// FRR's configuration of a router with this priority on both sides. A master is taken to be gone after three seconds, longer
/// than a busy host keeps it from its CPU.
fn configuration(priority: u8) -> String {
    let side = |nic: &str, address: &str| {
        format!(
            "interface {nic}\n vrrp 7 version 3\n vrrp 7 priority {priority}\n vrrp 7 advertisement-interval 1000\n \
             vrrp 7 ip {address}\nexit\n"
        )
    };
    side("lan", "192.0.2.1") + &side("wan", "198.51.100.1")
}

fn nic(name: &str, switch: &str, address: &str) -> String {
    format!("[[router.nic]]\nname = \"{name}\"\nattach = \"switch:{switch}\"\naddress = \"{address}\"\n")
}

/// Engine of both routers, and another line of each of their NICs.
type Machine = (&'static str, &'static str);

const PROCESS: Machine = ("process", "");

/// Two such routers between two networks; the first one has this priority, and addresses that end with this number.
fn file(folder: &std::path::Path, (engine, more): Machine, (priority, number): (u8, u8)) -> String {
    let router = |name: &str, priority: u8, number: u8| {
        let path = folder.join(format!("{name}.conf"));
        fs::write(&path, configuration(priority)).expect("written");
        let control = format!("control = {{ frr = \"{}\" }}", path.display());
        format!("[[router]]\nname = \"{name}\"\nengine = \"{engine}\"\n{control}\n")
            + &nic("lan", "t45-lan", &format!("192.0.2.{number}/24"))
            + more
            + &nic("wan", "t45-wan", &format!("198.51.100.{number}/24"))
            + more
    };
    let host = |name: &str, side: &str, net: &str| {
        format!("[[router]]\nname = \"{name}\"\nengine = \"kernel\"\ncontrol = {{}}\n")
            + &nic(side, &format!("t45-{side}"), &format!("{net}.2/24"))
            + &format!("[[router.route]]\nto = \"0.0.0.0/0\"\nvia = \"{net}.1\"\n")
    };
    let switches = "[switch.t45-lan]\n[switch.t45-wan]\n".to_owned();
    let routers = router("t45-one", priority, number) + &router("t45-two", 100, 4);
    switches + &routers + &host("t45-h", "lan", "192.0.2") + &host("t45-f", "wan", "198.51.100")
}

/// Command for a program at the host of the first network.
fn at_host(program: &str) -> Command {
    let mut command = Command::new(RINGROAD);
    command.args(["exec", "t45-h", "--", program]);
    command
}

fn set(name: &str, setting: &str) {
    let done = run(Command::new(RINGROAD).args(["set", name, setting]), PATIENCE).expect("it ends");
    assert!(done.status.success(), "{name}: {}", done.stderr);
}

/// Starts a run.
fn started(file: &str) -> Stage {
    let started = Stage::start_with_names_after(RINGROAD, file, &["--json"], |_| Ok(()));
    let (stage, ()) = started.expect("it starts");
    wait_for("the run", || stage.client().ok());
    stage
}

/// What the host of the first network knows of its router.
fn neighbour() -> String {
    let mut ip = at_host("ip");
    run(ip.args(["neighbour", "show", "192.0.2.1"]), PATIENCE).expect("it ends").stdout
}

/// Waits until pings to the host of the other network are answered, and this router has got them.
fn is_served_by(stage: &Stage, router: &str) {
    let got = |router: &str| {
        let counters = stage.wait_for_counters(|_| true).expect("counters");
        counters.get(&format!("{router}.lan.sorted.for_virtual"))
    };
    let before = got(router);
    wait_for(&format!("{router} as the master"), || {
        let answers = support::answers(at_host("busybox"), &["198.51.100.2"]);
        (answers && got(router) > before).then_some(())
    });
}

/// Waits until a router is the master in both networks, and pings to the host of the other network are answered.
fn is_master(stage: &Stage, router: &str) {
    let mut client = stage.client().expect("the run answers");
    wait_for(&format!("{router} as the master"), || {
        let all = adjacencies(&mut client, router);
        let is_master = |one: &&Adjacency| one.protocol == "vrrp" && one.state == "Master";
        (all.iter().filter(is_master).count() == 2).then_some(())
    });
    wait_for("the way by it", || support::answers(at_host("busybox"), &["198.51.100.2"]).then_some(()));
}

fn another_router_takes_over(machine: Machine) {
    let folder = tempfile::tempdir().expect("a folder");
    let stage = started(&file(folder.path(), machine, (200, 3)));
    is_served_by(&stage, "t45-one");
    ping(at_host("busybox"), 5, &["198.51.100.2"]).expect("answered");
    // The virtual address is answered for once, by the address that will move.
    each_question_has_one_answer(at_host, ("lan", "192.0.2.1"));
    assert!(neighbour().contains(VIRTUAL), "{}", neighbour());
    // An address on the loopback interface is the router's own.
    let mut add = Command::new(RINGROAD);
    add.args(["exec", "t45-one", "--", "ip", "address", "add"]);
    let address = format!("{LOOPBACK}/32");
    let done = run(add.args([address.as_str(), "dev", "lo"]), PATIENCE).expect("it ends");
    assert!(done.status.success(), "{}", done.stderr);
    ping(at_host("busybox"), 3, &[LOOPBACK]).expect("answered");
    // The master is gone from both networks: the other one has its addresses.
    ["t45-one.lan", "t45-one.wan"].iter().for_each(|nic| set(nic, "link=down"));
    is_served_by(&stage, "t45-two");
    assert!(neighbour().contains(VIRTUAL), "{}", neighbour());
    // It comes back, and has more right to them.
    ["t45-one.lan", "t45-one.wan"].iter().for_each(|nic| set(nic, "link=up"));
    is_served_by(&stage, "t45-one");
    ping(at_host("busybox"), 5, &["198.51.100.2"]).expect("answered");
    assert_eq!(["t45-one", "t45-two"].map(forwarded_by_kernel), [0, 0]);
    let counters = stage.wait_for_counters(|_| true).expect("counters");
    ["t45-one.lan", "t45-two.wan"].iter().for_each(|nic| sorted_adds_up(&counters, nic));
    stage.finish_troubled(Vec::new()).expect("nothing is left");
}

mod all {
    use super::*;

    #[test]
    fn another_router_takes_over_the_addresses_of_one_that_is_gone() {
        needs!(Root, Tun, Program("ip"), Program("busybox"), Program("nsenter"), Program("vtysh"));
        another_router_takes_over(PROCESS);
    }

    #[test]
    fn so_does_a_virtual_machine_with_e1000s() {
        needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"), Program("nsenter"), Program("vtysh"));
        another_router_takes_over(("kvm", "model = \"e1000\"\n"));
    }

    #[test]
    fn so_does_a_kernel_router() {
        needs!(Root, Tun, Program("ip"), Program("busybox"), Program("nsenter"), Program("vtysh"));
        let folder = tempfile::tempdir().expect("a folder");
        let stage = started(&file(folder.path(), ("kernel", ""), (200, 3)));
        is_master(&stage, "t45-one");
        each_question_has_one_answer(at_host, ("lan", "192.0.2.1"));
        assert!(neighbour().contains(VIRTUAL), "{}", neighbour());
        ["t45-one.lan", "t45-one.wan"].iter().for_each(|nic| set(nic, "link=down"));
        is_master(&stage, "t45-two");
        assert!(neighbour().contains(VIRTUAL), "{}", neighbour());
        stage.finish_troubled(Vec::new()).expect("nothing is left");
    }

    #[test]
    fn a_router_that_owns_the_address_is_known_by_the_one_that_moves() {
        needs!(Root, Tun, Program("ip"), Program("busybox"), Program("nsenter"), Program("vtysh"));
        let folder = tempfile::tempdir().expect("a folder");
        let stage = started(&file(folder.path(), PROCESS, (254, 1)));
        is_served_by(&stage, "t45-one");
        // The router itself answers, and with the virtual address.
        each_question_has_one_answer(at_host, ("lan", "192.0.2.1"));
        assert!(neighbour().contains(VIRTUAL), "{}", neighbour());
        ["t45-one.lan", "t45-one.wan"].iter().for_each(|nic| set(nic, "link=down"));
        is_served_by(&stage, "t45-two");
        assert!(neighbour().contains(VIRTUAL), "{}", neighbour());
        ["t45-one.lan", "t45-one.wan"].iter().for_each(|nic| set(nic, "link=up"));
        is_served_by(&stage, "t45-one");
        ping(at_host("busybox"), 5, &["198.51.100.2"]).expect("answered");
        assert_eq!(["t45-one", "t45-two"].map(forwarded_by_kernel), [0, 0]);
        stage.finish_troubled(Vec::new()).expect("nothing is left");
    }
}
