//! Multistage groups: back ends behind balancers.

use std::time::Duration;

use super::super::bad::errors;
use super::{BESIDE, PARALLEL, attachments, good, multistage, names};
use crate::{
    Balancer, GroupKind, Interconnect, KernelPath, Mac, Pin, Plan, Role, Router, Spin, Stages,
    is_forwarding_for, is_meant,
};

#[test]
fn back_ends_are_plugged_into_the_interconnection() {
    let plan = good(&multistage("balancers = 2\n"));
    assert_eq!(names(&plan.routers), ["core_0", "core_1", "core_2"]);
    let switches: Vec<&str> = plan.switches.iter().map(|switch| switch.name.as_str()).collect();
    assert_eq!(switches, ["lan", "core_wan", "core_lan"]);
    assert_eq!(attachments(&plan.routers[2]), ["switch:core_wan", "switch:core_lan"]);
    assert_eq!(attachments(&plan.groups[0].pattern), ["tap:core-wan", "switch:lan"]);
    assert_eq!(plan.routers[2].nics[0].mac, Mac::derived("core", "wan"));
    let (balancer, interconnect) = (Balancer::Switch, Interconnect::Switch);
    let stages =
        Stages { balancers: 2, balancer, interconnect, remote: 0, tunnels: Vec::new(), pin: Pin::default() };
    assert_eq!(plan.groups[0].kind, GroupKind::Multistage(stages));
}

#[test]
fn behind_a_bridge_each_back_end_has_an_address_of_its_own() {
    let plan = good(&multistage("balancer = \"vm\"\ninterconnect = \"ovs:br0\"\n"));
    assert_eq!(plan.switches.len(), 1);
    assert_eq!(attachments(&plan.routers[0]), ["ovs:br0", "ovs:br0"]);
    assert_eq!(plan.routers[1].nics[0].mac, Mac::derived("core_1", "wan"));
    let GroupKind::Multistage(stages) = &plan.groups[0].kind else { panic!("{:?}", plan.groups[0].kind) };
    assert_eq!(stages.balancer, Balancer::Vm);
    let balancer = plan.routers.last().expect("there is one");
    assert_eq!(attachments(balancer), ["tap:core-wan", "switch:lan", "ovs:br0", "ovs:br0"]);
}

#[test]
fn balancers_that_are_machines_are_routers_of_the_plan() {
    let plan =
        good(&format!("{}{BESIDE}attach = \"null\"\n", multistage("balancers = 2\nbalancer = \"vm\"\n")));
    assert_eq!(names(&plan.routers), ["edge", "core_0", "core_1", "core_2", "core_lb0", "core_lb1"]);
    assert_eq!(names(plan.members("core")), ["core_0", "core_1", "core_2"]);
    let balancer = &plan.routers[5];
    assert_eq!((balancer.role, balancer.vcpus, balancer.isolate), (Role::Balancer, 1, true));
    assert_eq!((balancer.membership(), balancer.balancing()), (None, Some(("core", 1))));
    assert_eq!((balancer.group(), plan.routers[0].group()), (Some("core"), None));
    assert!(balancer.routes.is_empty() && balancer.neighbours.is_empty());
    let nics: Vec<&str> = balancer.nics.iter().map(|nic| nic.name.as_str()).collect();
    assert_eq!(nics, ["wan", "lan", "wan_in", "lan_in"]);
    assert_eq!(attachments(balancer), ["tap:core-wan", "switch:lan", "switch:core_wan", "switch:core_lan"]);
    assert_eq!(balancer.nics[0].mac, plan.groups[0].pattern.nics[0].mac, "outside it is the group");
    assert!(balancer.nics.iter().all(|nic| nic.addresses.is_empty() && nic.mtu >= 1500));
    // Behind them each member is a station of its own, and so is what its probes come from.
    assert_eq!(plan.routers[2].nics[0].mac, Mac::derived("core_1", "wan"));
    let behind: Vec<Mac> = plan.routers[2].neighbours.iter().map(|known| known.mac).collect();
    assert_eq!(behind, [0, 1, 0].map(|nic| Mac(::group::probe::back(nic).0)));
    assert!(plan.groups[0].has_machines() && plan.groups[0].balancer_threads().is_empty());
    assert!(is_meant("core_lb1", "core") && !is_forwarding_for("core_lb1", "core"));
    assert!(is_forwarding_for("core_lb1", "core_lb1") && is_forwarding_for("core_1", "core"));
}

#[test]
fn what_balancers_that_are_machines_are_plugged_into_is_opened_once() {
    let plan = good(&multistage("balancers = 2\nbalancer = \"vm\"\ninterconnect = \"bridge:br0\"\n"));
    let labels: Vec<String> = plan.links().map(|wanted| wanted.label()).collect();
    let of = |router: &str, nics: [&str; 2]| nics.map(|nic| format!("{router}.{nic}"));
    let wanted = [
        of("core_0", ["wan", "lan"]),
        of("core_1", ["wan", "lan"]),
        of("core_2", ["wan", "lan"]),
        of("core_lb0", ["wan_in", "lan_in"]),
        of("core_lb1", ["wan_in", "lan_in"]),
        of("core", ["wan", "lan"]),
    ];
    assert_eq!(labels, wanted.concat());
    let outside = |name: &str| -> Vec<Option<String>> {
        let router = plan.routers.iter().find(|router| router.name == name).expect("it is there");
        let wanted = |number| plan.wanted_outside(router, number).map(|wanted| wanted.label());
        (0..router.nics.len()).map(wanted).collect()
    };
    let some = |labels: &[&str]| labels.iter().map(|label| Some((*label).to_owned())).collect::<Vec<_>>();
    assert_eq!(outside("core_0"), some(&["core_0.wan", "core_0.lan"]));
    assert_eq!(outside("core_lb0"), some(&["core.wan", "core.lan", "core_lb0.wan_in", "core_lb0.lan_in"]));
    let second = outside("core_lb1");
    assert_eq!(
        (&second[..2], &second[2..]),
        (&[None, None][..], &some(&["core_lb1.wan_in", "core_lb1.lan_in"])[..])
    );
}

#[test]
fn balancers_that_are_machines_come_and_go() {
    let text = |balancers: u32| multistage(&format!("balancers = {balancers}\nbalancer = \"vm\"\n"));
    let plan = good(&text(2));
    assert_eq!(plan.with_balancers("core", 1), Ok(good(&text(1))));
    assert_eq!(plan.with_balancers("core", 3), Ok(good(&text(3))));
    let stopped = plan.with("core_lb1", "state", "stopped").expect("it may be");
    let fewer = stopped.with_members("core", 2).expect("so many may be");
    let is_stopped =
        |name: &str| fewer.routers.iter().any(|router| router.name == name && router.is_stopped());
    assert_eq!([is_stopped("core_lb0"), is_stopped("core_lb1")], [false, true]);
    let spun = plan.with("core", "spin", "70us").expect("it may be set");
    assert!(spun.routers.iter().all(|router| router.spin == Spin::For(Duration::from_micros(70))));
}

#[test]
fn cpus_of_balancers_are_the_last_ones_or_those_that_the_file_has_for_them() {
    let pins = |text: &str| -> Vec<String> {
        let told = |set: &Option<crate::CpuSet>| set.as_ref().map(ToString::to_string).unwrap_or_default();
        let plan = good(text);
        plan.routers
            .iter()
            .map(|router| format!("{}/{}", told(&router.pin.vcpu), told(&router.pin.vhost)))
            .collect()
    };
    let text = |more: &str| multistage(&format!("balancers = 2\nbalancer = \"vm\"\n{more}"));
    let all = pins(&text("pin = { vcpu = \"0-7\", vhost = \"3-5\" }\n"));
    assert_eq!(all, ["0/3", "1/4", "2/5", "7/5", "6/4"]);
    let own = pins(&text("pin = { vcpu = \"0\" }\nbalancer_pin = { vcpu = \"1,2\", vhost = \"3\" }\n"));
    assert_eq!(own, ["0/", "0/", "0/", "1/3", "2/3"]);
}

#[test]
fn back_ends_on_other_hosts_have_the_highest_numbers() {
    let text = |more: &str| multistage(&format!("balancer = \"vm\"\ninterconnect = \"bridge:br0\"\n{more}"));
    let plan = good(&text("remote = 2\n"));
    let group = &plan.groups[0];
    assert_eq!(names(plan.members("core")), ["core_0", "core_1", "core_2"]);
    assert_eq!(group.remote_members().collect::<Vec<_>>(), [63, 62]);
    let stations: Vec<Mac> = group.stations(63).collect();
    assert_eq!(stations, [Mac::derived("core_63", "wan"), Mac::derived("core_63", "lan")]);
    assert!(group.is_elsewhere("core_62") && !group.is_elsewhere("core_61") && !group.is_elsewhere("core_0"));
    let refused = plan.with_members("core", 63).expect_err("refused").to_string();
    assert_eq!(refused, "group core: backends: 63 is out of range; write 1 to 62");
    let told = errors(&text("remote = 2\n").replace("backends = 3", "backends = 63"));
    assert!(told.contains("group.remote: there are at most 64 back ends"), "{told}");
    let told = errors(&multistage("balancer = \"vm\"\nremote = 1\n"));
    assert!(told.contains("group.remote: other hosts are reached by a bridge"), "{told}");
}

/// Tunnels of two back ends, each with a port for each of two NICs.
const TUNNELS: &str =
    "tunnels = [\"udp:10.0.0.1:4800-10.0.0.2:4900\", \"udp:10.0.0.1:4802-10.0.0.3:4900\"]\n";

#[test]
fn tunnels_lead_to_back_ends_on_other_hosts_by_a_port_for_each_nic() {
    let plan = good(&multistage(&format!("balancer = \"vm\"\n{TUNNELS}")));
    assert_eq!(plan.groups[0].remote_members().collect::<Vec<_>>(), [63, 62]);
    let of = |(index, wanted): (usize, attach::NicRequirements)| {
        (index, format!("{} {}", wanted.label(), wanted.attach))
    };
    let opened: Vec<(usize, String)> = plan.tunnelled().map(of).collect();
    let due = [
        "core_63.wan udp:10.0.0.1:4800-10.0.0.2:4900",
        "core_63.lan udp:10.0.0.1:4801-10.0.0.2:4901",
        "core_62.wan udp:10.0.0.1:4802-10.0.0.3:4900",
        "core_62.lan udp:10.0.0.1:4803-10.0.0.3:4901",
    ];
    assert_eq!(opened, due.map(|line| (0, line.to_owned())));
    assert_eq!(plan.links().filter(|wanted| wanted.attach.kind() == "udp").count(), due.len());
    let attach = plan.groups[0].tunnel(62, 1).expect("it is behind one");
    assert_eq!((attach.to_string().as_str(), plan.groups[0].tunnel(2, 1)), (&due[3][12..], None));
    // The data plane has them as ports of the switches between balancers and back ends.
    let plane = plan.of_data_plane();
    let of = |port: &crate::KernelPort| (port.label(), port.switch.clone(), port.path);
    let ports: Vec<(String, String, KernelPath)> = plane.kernel_ports.iter().map(of).collect();
    assert_eq!(ports.len(), due.len());
    assert_eq!(ports[1], ("core_63.lan".to_owned(), "core_lan".to_owned(), KernelPath::Tunnel(1)));
    assert!(plane.kernel_ports.iter().all(|port| port.of_group), "nobody hears another one");
    let in_kernel = good(&multistage("balancer = \"vm\"\nengine = \"kernel\"\n")).of_data_plane();
    assert_eq!(in_kernel.kernel_ports.iter().filter(|port| port.of_group).count(), 3 * 2);
    assert_eq!(plane.of_data_plane(), plane, "the same when it is told again");
    // With another NIC before them NICs have other ports, so that the data plane opens theirs again.
    let tunnels = format!("balancer = \"vm\"\n{}", TUNNELS.replace("4802", "4803"));
    let dmz = "[[group.nic]]\nname = \"dmz\"\nattach = \"tap:core-dmz\"\n\n[[group.nic]]";
    let shifted = good(&multistage(&tunnels).replacen("[[group.nic]]", dmz, 1)).of_data_plane();
    assert_eq!(shifted.kernel_ports.len(), 6);
    assert!(plane.kernel_ports.iter().all(|port| !shifted.kernel_ports.contains(port)));
}

#[test]
fn faults_of_tunnels() {
    let told = |more: &str| errors(&multistage(more));
    let in_switch = told(TUNNELS);
    assert!(in_switch.contains("f.toml:7: group.tunnels: tunnels begin at our switch"), "{in_switch}");
    let behind = |tunnels: &str| told(&format!("balancer = \"vm\"\n{tunnels}"));
    let at_bridge = behind(&format!("interconnect = \"bridge:br0\"\n{TUNNELS}"));
    assert!(at_bridge.contains("group.tunnels: tunnels begin at our switch"), "{at_bridge}");
    // A tunnel begins where the second NIC of another one does.
    let twice = behind(&TUNNELS.replace("4802", "4801"));
    assert!(twice.contains("f.toml:8: group.tunnels: 10.0.0.1:4801 is the end of another tunnel"), "{twice}");
    // A router's tunnels to two other hosts begin where that does, too.
    let nic = |name: &str, remote: &str| {
        format!("[[router.nic]]\nname = \"{name}\"\nattach = \"udp:10.0.0.1:4803-{remote}:4800\"\n")
    };
    let beside = format!("[[router]]\nname = \"x\"\n{}{}", nic("a", "10.0.0.4"), nic("b", "10.0.0.5"));
    let beside = errors(&(multistage(&format!("balancer = \"vm\"\n{TUNNELS}")) + &beside));
    for key in ["router.nic.attach", "group.tunnels"] {
        let due = format!("{key}: 10.0.0.1:4803 is the end of another tunnel already");
        assert_eq!(beside.matches(&due).count(), 1, "{beside}");
    }
    let high = behind("tunnels = \"udp:10.0.0.1:65535-10.0.0.2:4900\"\n");
    assert!(high.contains("group.tunnels: each NIC takes the next port"), "{high}");
    let other = behind("tunnels = \"tap:x\"\n");
    assert!(other.contains("group.tunnels: \"tap:x\" is no tunnel; write e.g. \"udp:"), "{other}");
    let controlled = behind(&format!("control = {{}}\n{TUNNELS}"));
    assert!(controlled.contains("group.control: a back end on another host"), "{controlled}");
    let parallel = errors(&PARALLEL.replace("members = 2\n", &format!("members = 2\n{TUNNELS}")));
    assert!(parallel.contains("group.tunnels: only a multistage group has it"), "{parallel}");
}

#[test]
fn faults_of_a_multistage_group() {
    assert_eq!(
        errors(&multistage("interconnect = \"tap:x\"\n")),
        "f.toml:7: group.interconnect: \"tap:x\" joins no back ends; write \"switch\", \"bridge:NAME\" or \"ovs:NAME\""
    );
    assert_eq!(
        errors(&multistage("balancer = \"click\"\n")),
        "f.toml:7: group.balancer: \"click\" is no balancer; balancers: switch, vm"
    );
    assert_eq!(
        errors(&multistage("interconnect = \"bridge:br0\"\n")),
        "f.toml:7: group.interconnect: a balancer in our switch hands frames to back ends itself; write balancer = \"vm\", \
         or remove interconnect"
    );
    assert_eq!(
        errors(&multistage("balancer_pin = { vcpu = \"0\" }\n")),
        "f.toml:7: group.balancer_pin: only a balancer that is a virtual machine has it; write balancer = \"vm\", or pin"
    );
    assert_eq!(
        errors(&multistage("balancer = \"vm\"\n").replace("\"core\"", "\"ten-letter\"")),
        "f.toml:4: group.name: \"ten-letter\" is too long for a group, whose balancers are called NAME_lb15; use at most \
         9 letters"
    );
    let handed = multistage("").replace("\"tap:core-wan\"", "\"vhost-user-frontend:/run/x.sock\"");
    assert!(
        errors(&handed)
            .starts_with("f.toml:11: group.nic.attach: members of a multistage group cannot share")
    );
}

#[test]
fn behind_balancers_that_are_machines_kernel_routers_are_members() {
    let text = |engine: &str, more: &str| {
        multistage(&format!("balancer = \"vm\"\n{more}"))
            .replace("\"flow\"", &format!("\"flow\"\nengine = \"{engine}\""))
    };
    let plan = good(&text("kernel", ""));
    assert!(plan.members("core").all(|router| router.is_in_kernel() && router.vcpus == 0));
    let balancer = plan.routers.last().expect("there is one");
    assert_eq!(
        (balancer.engine, balancer.is_in_kernel(), balancer.vcpus, balancer.isolate),
        (None, false, 1, true)
    );
    assert!(balancer.memory > 0 && balancer.nics.iter().all(|nic| nic.queues == 1 && nic.ring > 0));
    let wanted = plan.groups[0].wanted(&plan.groups[0].pattern.nics[0]);
    assert_eq!(
        (wanted.label().as_str(), wanted.in_kernel, wanted.queues, wanted.pairs),
        ("core.wan", false, 1, 1)
    );
    assert_eq!(attachments(&plan.routers[0]), ["switch:core_wan", "switch:core_lan"]);
    let of_data_plane = plan.of_data_plane();
    assert_eq!(names(&of_data_plane.routers), ["core_lb0"]);
    let ports: Vec<&str> = of_data_plane.kernel_ports.iter().map(|port| port.switch.as_str()).collect();
    assert_eq!(ports, ["core_wan", "core_lan"].repeat(3));
    assert!(plan.with("core", "rp_filter", "loose").is_ok(), "a setting that balancers do not have");
    for (engine, join) in [("lxc", "bridge:br0"), ("kernel", "ovs:br0"), ("lxc", "ovs:br0")] {
        let plan = good(&text(engine, &format!("interconnect = \"{join}\"\n")));
        assert_eq!(attachments(plan.members("core").last().expect("one of three")), [join, join]);
    }
    let scaled = text("kernel", "").replace("backends = 3", "scale = { max = 3 }");
    assert!(
        errors(&scaled).contains("group.scale: the load of kernel routers is not known"),
        "{}",
        errors(&scaled)
    );
    let in_vrf = text("kernel", "").replacen("[[group.nic]]\n", "[[group.nic]]\nvrf = \"red\"\n", 1);
    let refused = errors(&in_vrf);
    assert!(refused.contains("group.nic.vrf: members in the host's kernel have no VRFs"), "{refused}");
    let spare = errors(&text("kernel", "spare = 1\n"));
    assert!(spare.contains("group.spare: kernel routers have none in this version"), "{spare}");
    let refused = plan.with_spare("core", 1).expect_err("refused").to_string();
    assert_eq!(refused, "group core: spare: kernel routers have none in this version");
    let in_switch = multistage("").replace("\"flow\"", "\"flow\"\nengine = \"kernel\"");
    assert!(
        errors(&in_switch).contains("group.engine: a balancer in our switch cannot reach a kernel router"),
        "{}",
        errors(&in_switch)
    );
}

#[test]
fn a_control_plane_is_the_groups_and_no_balancer_has_one() {
    let text = |more: &str| multistage(&format!("balancer = \"vm\"\ncontrol = {{}}\n{more}"));
    let plan = good(&text(""));
    assert!(plan.members("core").all(|router| router.control.is_some()));
    let balancer = plan.routers.last().expect("there is one");
    assert_eq!((balancer.balancing(), balancer.control.is_some()), (Some(("core", 0)), false));
    assert_eq!(names(plan.controlled().map(|(router, _)| router)), ["core"]);
    let group = &plan.groups[0];
    assert!(group.wanted(&group.pattern.nics[0]).has_control, "urgent frames have a way of their own");
    assert!(group.shares_tables() && good(&multistage("balancer = \"vm\"\n")).groups[0].shares_tables());
    let in_kernel = errors(&text("").replace("\"flow\"", "\"flow\"\nengine = \"kernel\""));
    assert!(in_kernel.contains("group.control: kernel routers in a group have none"), "{in_kernel}");
    let remote = errors(&text("interconnect = \"bridge:br0\"\nremote = 1\n"));
    assert!(remote.contains("group.control: a back end on another host does not learn routes"), "{remote}");
}

#[test]
fn behind_balancers_that_are_machines_members_have_the_link_local_address_of_the_group() {
    let six = |addresses: &str| {
        let all = format!("[\"192.0.2.1/24\", {addresses}]");
        multistage("balancer = \"vm\"\n").replace("\"192.0.2.1/24\"", &all)
    };
    let addresses = |router: &Router| -> Vec<String> {
        router.nics[0].six.addresses.iter().map(ToString::to_string).collect()
    };
    let wan = "\"tap:core-wan\"";
    let with_mac = format!("{wan}\nmac = \"02:00:00:00:43:01\"");
    let plan = good(&six("\"2001:db8::1/64\"").replace(wan, &with_mac));
    for member in plan.members("core") {
        assert_eq!(addresses(member), ["fe80::ff:fe00:4301/64", "2001:db8::1/64"]);
        assert!(member.nics[1].six.addresses.is_empty(), "there it has no IPv6");
    }
    assert_eq!(addresses(&plan.groups[0].pattern), ["2001:db8::1/64"]);
    let balancer = plan.routers.last().expect("there is one");
    assert!(balancer.balancing().is_some() && addresses(balancer).is_empty());
    let given = good(&six("\"2001:db8::1/64\", \"fe80::1/64\""));
    assert_eq!(addresses(&given.routers[0]), ["2001:db8::1/64", "fe80::1/64"]);
    let many = (1..=8).map(|n| format!("\"2001:db8:{n}::1/64\"")).collect::<Vec<_>>().join(", ");
    let told = errors(&six(&many));
    assert!(told.contains("group.nic.address: there is no room for the link-local address"), "{told}");
}

#[test]
fn behind_balancers_that_are_machines_vlans_have_the_link_local_address_of_the_group() {
    let text = |addresses: &str| {
        let wan = "attach = \"tap:core-wan\"";
        let nic =
            multistage("balancer = \"vm\"\n").replace(wan, &format!("{wan}\nmac = \"02:00:00:00:43:01\""));
        let vlan = "[[group.interface]]\nname = \"guests\"\nnic = \"wan\"\nvlan = 7\n";
        format!("{nic}{vlan}address = [{addresses}]\n")
    };
    let plan = good(&text("\"2001:db8:7::1/64\""));
    let addresses = |router: &Router| -> Vec<String> {
        router.forwarding.interfaces[0].six.addresses.iter().map(ToString::to_string).collect()
    };
    for member in plan.members("core") {
        assert_eq!(addresses(member), ["fe80::ff:fe00:4301/64", "2001:db8:7::1/64"]);
    }
    assert_eq!(addresses(&plan.groups[0].pattern), ["2001:db8:7::1/64"]);
    let many = (1..=8).map(|n| format!("\"2001:db8:{n}::1/64\"")).collect::<Vec<_>>().join(", ");
    let told = errors(&text(&many));
    assert!(told.contains("group.interface.address: there is no room for the link-local address"), "{told}");
}

#[test]
fn buffers_of_balancers_that_are_machines_have_room_for_tags() {
    let text = |mtu: u32| {
        let wan = "attach = \"tap:core-wan\"";
        multistage("balancer = \"vm\"\n").replace(wan, &format!("{wan}\nmtu = {mtu}"))
    };
    let vlan = "[[group.interface]]\nname = \"guests\"\nnic = \"wan\"\nvlan = 7\n";
    let balancer = |text: &str| good(text).routers.pop().expect("there is one");
    let most = bootinfo::buffers::PLAIN_MTU;
    for (mtu, is_tagged, is_jumbo) in [
        (most, false, false),
        (most, true, true),
        (most - 7, true, true),
        (most - 8, true, false),
        (9216, true, true),
    ] {
        let text = text(mtu) + if is_tagged { vlan } else { "" };
        assert_eq!(balancer(&text).has_jumbo(), is_jumbo, "{mtu}");
        let group = good(&text).groups.remove(0);
        assert_eq!(group.wanted(&group.pattern.nics[0]).mtu, mtu, "the link's stays");
    }
}

#[test]
fn balancers_are_cut_and_come_again() {
    let plan = good(&multistage("balancers = 2\n"));
    let one = plan.with_balancers("core", 1).expect("it may be");
    assert_eq!(one.groups[0].balancers(), 1);
    assert_eq!(one.groups[0].balancer_threads(), ["core/lb0"]);
    assert_eq!(one.with_balancers("core", 2), Ok(plan.clone()));
    let refused = |plan: &Plan, number| plan.with_balancers("core", number).expect_err("refused").to_string();
    assert_eq!(refused(&plan, 0), "group core: balancers: 0 is out of range; write 1 to 16");
    assert_eq!(refused(&good(PARALLEL), 1), "there is no multistage group \"core\"");
}
