//! Two routers with two links between them.

use super::*;

/// OSPF and BFD on both links. BFD hears a link fall silent after three seconds: long before OSPF does, and longer than a busy host
/// keeps it from its CPU.
fn configuration(id: u8) -> String {
    let bfd = "bfd\n profile second\n  detect-multiplier 3\n  receive-interval 1000\n  \
               transmit-interval 1000\n exit\nexit\n";
    let link = format!("{LINK} ip ospf bfd\n ip ospf bfd profile second\n");
    bfd.to_owned() + &ospf(id, &["one", "two"], &["lan"]).replace(LINK, &link)
}

/// File of both routers with this engine and NIC model; FRR's configurations are in `folder`.
fn file((west, east): (&str, &str), (engine, model): (&str, &str), folder: &std::path::Path) -> String {
    let router = |(name, side, id): (&str, u8, u8)| {
        let path = folder.join(format!("{name}.conf"));
        fs::write(&path, configuration(id)).expect("written");
        let lan = if side == 1 { "192.0.2.1/24" } else { "198.51.100.1/24" };
        let nic = |nic: &str, attach: String, address: String| {
            format!(
                "[[router.nic]]\nname = \"{nic}\"\nmodel = \"{model}\"\nattach = \"{attach}\"\naddress = \"{address}\"\n"
            )
        };
        let links = ["one", "two"].into_iter().zip(1..);
        let links = links
            .map(|(link, net)| nic(link, format!("switch:{west}-{link}"), format!("10.0.{net}.{side}/30")));
        let control = format!("control = {{ frr = \"{}\" }}", path.display());
        format!("[[router]]\nname = \"{name}\"\nengine = \"{engine}\"\n{control}\n")
            + &nic("lan", format!("tap:{name}"), lan.to_owned())
            + &links.collect::<String>()
    };
    let switches = format!("[switch.{west}-one]\n[switch.{west}-two]\n");
    switches + &router((west, 1, 1)) + &router((east, 2, 2))
}

fn flows_leave_a_link_that_bfd_does_not_hear((west, east): (&str, &str), machine: (&str, &str)) {
    let far = "198.51.100.2";
    let folder = tempfile::tempdir().expect("a folder");
    let mut stage = Stage::start(RINGROAD, &file((west, east), machine, folder.path())).expect("it starts");
    let near = stage.host(west, "192.0.2.2/24", "192.0.2.1").expect("a host");
    let behind = stage.host(east, "198.51.100.2/24", "198.51.100.1").expect("a host");
    let mut client = stage.client().expect("the run answers");
    let links = |client: &mut Client| -> Vec<String> {
        let hops = route(client, west, far).map(|route| route.hops).unwrap_or_default();
        let mut links: Vec<String> = hops.into_iter().map(|hop| hop.link).collect();
        links.sort_unstable();
        links
    };
    wait_for("a route by both links", || (links(&mut client) == ["one", "two"]).then_some(()));
    wait_for("two sessions of BFD", || {
        let all = adjacencies(&mut client, west);
        (all.iter().filter(|one| one.protocol == "bfd" && one.up).count() == 2).then_some(())
    });
    wait_for_answer(&near, far);
    ping(near.command("busybox"), 5, &[far]).expect("answered");
    let mut set = Command::new(RINGROAD);
    let done = run(set.args(["set", &format!("{east}.one"), "link=down"]), PATIENCE).expect("it ends");
    assert!(done.status.success(), "{}", done.stderr);
    wait_for("a route by the other link alone", || (links(&mut client) == ["two"]).then_some(()));
    wait_for_answer(&near, far);
    ping(near.command("busybox"), 5, &[far]).expect("answered");
    let counters = stage.wait_for_counters(|_| true).expect("counters");
    assert!(counters.get(&format!("{west}.bfd.expired")) > 0, "BFD has noticed it");
    assert!(["taken", "sent"].iter().all(|name| counters.get(&format!("{west}.bfd.{name}")) > 0));
    stage.finish_troubled(vec![near, behind]).expect("nothing is left");
}

mod all {
    use super::*;

    #[test]
    fn flows_are_spread_over_two_links_and_leave_one_that_bfd_does_not_hear() {
        needs!(Root, Tun, Program("ip"), Program("busybox"), Program("vtysh"));
        flows_leave_a_link_that_bfd_does_not_hear(("t45-w4", "t45-e4"), ("process", "virtio-net"));
    }

    #[test]
    fn bfd_by_virtual_machines_with_e1000s() {
        needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"), Program("vtysh"));
        flows_leave_a_link_that_bfd_does_not_hear(("t45-w16", "t45-e16"), ("kvm", "e1000"));
    }
}
