//! The files of back ends on other hosts.

use super::{BESIDE, PARALLEL, good, multistage};
use crate::Plan;

const AT_BRIDGE: &str = "balancer = \"vm\"\ninterconnect = \"bridge:between\"\nremote = 2\n";

/// What a back end is to have as the group has it, but for addresses and attachments of its NICs.
fn forwarding_of(plan: &Plan) -> String {
    let router = &plan.routers[0];
    let nic = |nic: &crate::Nic| {
        format!("{} {:?} {} {:?} {}", nic.name, nic.addresses, nic.mtu, nic.vrf, nic.offload)
    };
    let nics: Vec<String> = router.nics.iter().map(nic).collect();
    format!("{nics:?} {:?} {:?}", router.routes, router.forwarding)
}

#[test]
fn a_back_end_on_another_host_has_a_file_by_which_it_is_like_the_others() {
    let text = multistage(&format!("{AT_BRIDGE}neighbours = 1000\nlong_routes = 100\nredirects = true\n"))
        .replace(
            "address = \"192.0.2.1/24\"",
            "address = [\"192.0.2.1/24\", \"10.0.0.1/30\"]\nmtu = 1400\noffload = false",
        )
        .replace("address = \"198.51.100.1/24\"", "address = \"198.51.100.1/24\"\nvrf = \"red\"")
        + "[[group.route]]\nto = \"203.0.113.0/25\"\nvia = [\"192.0.2.9\", \"10.0.0.2\"]\nweights = [3, 1]\n\
           [[group.route]]\nto = \"203.0.113.128/25\"\ntype = \"prohibit\"\nvrf = \"red\"\n\
           [[group.route]]\nto = \"172.16.0.0/12\"\nvia = \"198.51.100.9\"\nvrf = \"red\"\n\
           [[group.neighbour]]\naddress = \"192.0.2.9\"\nmac = \"02:00:00:00:00:09\"\n\
           [[group.neighbour]]\naddress = \"198.51.100.9\"\nmac = \"02:00:00:00:01:09\"\nvrf = \"red\"\n";
    let plan = good(&text);
    let group = &plan.groups[0];
    let far = good(&plan.remote_file("core_62").expect("a file"));
    assert_eq!(forwarding_of(&far), forwarding_of(&plan));
    let router = &far.routers[0];
    assert_eq!(router.name, "core-62");
    assert_eq!(router.neighbours, group.pattern.neighbours, "it asks for those of probes");
    let macs: Vec<_> = router.nics.iter().map(|nic| nic.mac).collect();
    assert_eq!(macs, group.stations(62).collect::<Vec<_>>());
    assert!(router.nics.iter().all(|nic| nic.attach.to_string() == "bridge:between"));
}

#[test]
fn with_ipv6_it_has_the_link_local_address_of_the_group_and_advertises_the_same() {
    let six = "mac = \"02:00:00:00:43:01\"\naddress = [\"192.0.2.1/24\", \"2001:db8::1/64\"]\n\
               [group.nic.ra]\ninterval = 30\nmanaged = true\nprefix = []\ndns = \"2001:db8::53\"";
    let plan = good(&multistage(AT_BRIDGE).replace("address = \"192.0.2.1/24\"", six));
    let far = good(&plan.remote_file("core_63").expect("a file"));
    let [here, there] = [&plan, &far].map(|plan| plan.routers[0].nics[0].six.clone());
    assert_eq!(there, here);
    let addresses: Vec<String> = there.addresses.iter().map(ToString::to_string).collect();
    assert_eq!(addresses, ["fe80::ff:fe00:4301/64", "2001:db8::1/64"]);
}

#[test]
fn one_behind_a_tunnel_has_its_other_ends() {
    let tunnels = "balancer = \"vm\"\ntunnels = [\"udp:10.0.0.1:4800-10.0.0.2:4900\", \"udp:[fd00::1]:4800-[fd00::2]:4900\"]\n";
    let plan = good(&multistage(tunnels));
    let attached = |member: &str| -> Vec<String> {
        let far = good(&plan.remote_file(member).expect("a file"));
        far.routers[0].nics.iter().map(|nic| nic.attach.to_string()).collect()
    };
    assert_eq!(attached("core_63"), ["udp:10.0.0.2:4900-10.0.0.1:4800", "udp:10.0.0.2:4901-10.0.0.1:4801"]);
    assert_eq!(
        attached("core_62"),
        ["udp:[fd00::2]:4900-[fd00::1]:4800", "udp:[fd00::2]:4901-[fd00::1]:4801"]
    );
}

#[test]
fn the_file_is_another_one_after_changes_that_concern_the_other_host_alone() {
    let text = multistage(AT_BRIDGE);
    let file_of = |plan: &Plan| plan.remote_file("core_63").expect("a file");
    let plan = good(&text);
    let file = file_of(&plan);
    for (key, value) in
        [("spin", "1us"), ("backends", "5"), ("balancers", "2"), ("pin.vcpu", "0"), ("state", "stopped")]
    {
        let set = plan.with("core", key, value).unwrap_or_else(|why| panic!("{why}"));
        assert!(set != plan && file_of(&set) == file, "{key}");
    }
    let beside = format!("{BESIDE}attach = \"null\"\n");
    assert_eq!(file_of(&good(&(text.clone() + &beside))), file);
    let more = [
        "[[group.route]]\nto = \"203.0.113.0/24\"\nvia = \"198.51.100.9\"\n",
        "[[group.route]]\nto = \"203.0.113.0/24\"\ntype = \"blackhole\"\n",
        "[[group.neighbour]]\naddress = \"198.51.100.9\"\nmac = \"02:00:00:00:00:09\"\n",
    ];
    let more = more.map(|more| text.clone() + more);
    let address = "address = \"198.51.100.1/24\"";
    let changed = [format!("{address}\nmtu = 1400"), "address = \"198.51.100.3/24\"".to_owned()];
    let changed = changed.map(|changed| text.replace(address, &changed));
    for text in more.iter().chain(&changed) {
        let other = file_of(&good(text));
        assert_ne!(other, file);
        assert_eq!(forwarding_of(&good(&other)), forwarding_of(&good(text)));
    }
}

#[test]
fn others_have_none() {
    let refused = |text: &str, member: &str| good(text).remote_file(member).unwrap_err().to_string();
    let told = refused(&multistage(AT_BRIDGE), "core_0");
    assert_eq!(told, "\"core_0\" is no back end on another host; write one of core_63, core_62");
    let told = refused(PARALLEL, "core_63");
    assert!(told.contains("the groups of the file have none; write remote = 1, or tunnels"), "{told}");
}
