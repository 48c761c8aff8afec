use super::*;

fn router(text: &str) -> Router {
    config::parse(text, "f.toml").expect("a good file").routers.remove(0)
}

#[test]
fn a_namespace_has_what_the_file_says_and_does_not_forward() {
    let router = router(
        "[[router]]\nname = \"edge\"\ncontrol = {}\n\
         [[router.nic]]\nname = \"wan\"\nattach = \"null\"\nmac = \"02:00:00:00:00:01\"\n\
         address = [\"192.0.2.1/24\", \"2001:db8::1/64\"]\nmtu = 1400\n\
         [[router.nic]]\nname = \"lan\"\nattach = \"null\"\naddress = [\"10.0.0.1/24\", \"fe80::9/64\"]\n\
         [[router.interface]]\nname = \"guests\"\nnic = \"lan\"\nvlan = 7\naddress = \"10.0.7.1/24\"\n\
         [[router.route]]\nto = \"198.51.100.0/24\"\nvia = \"192.0.2.9\"\n\
         [[router.route]]\nto = \"203.0.113.0/24\"\nvia = [\"192.0.2.8\"]\n\
         [[router.route]]\nto = \"203.0.112.0/24\"\nvia = [\"192.0.2.8\", \"192.0.2.9\"]\n\
         [[router.neighbour]]\naddress = \"10.0.0.2\"\nmac = \"02:00:00:00:00:02\"\n",
    );
    let wanted = of(&router);
    assert_eq!(wanted.published.as_deref(), Some("edge"));
    assert_eq!(wanted.sysctls.get("net/ipv4/ip_forward").map(String::as_str), Some("0"));
    let [wan, lan, vlan] = wanted.interfaces.as_slice() else { panic!("{:?}", wanted.interfaces) };
    let addresses: Vec<String> = wan.addresses.iter().map(ToString::to_string).collect();
    assert_eq!(addresses, ["192.0.2.1/24", "2001:db8::1/64"]);
    assert_eq!((wan.mac, wan.mtu, wan.up), (Some([2, 0, 0, 0, 0, 1]), Some(1400), true));
    assert_eq!((lan.name.as_str(), vlan.name.as_str(), vlan.mac), ("lan", "guests", None));
    let routes: Vec<String> = wanted.routes.iter().map(ToString::to_string).collect();
    assert_eq!(routes, ["198.51.100.0/24 via 192.0.2.9 dev wan", "203.0.113.0/24 via 192.0.2.8 dev wan"]);
    assert_eq!(wanted.neighbours[0].interface, "lan");
    kernel_router::check(&wanted).expect("the kernel can have it");
}

#[test]
fn the_namespace_of_a_group_has_its_vlans_and_the_routes_by_them() {
    let file = "[[group]]\nname = \"core\"\nkind = \"parallel\"\nmembers = 2\nengine = \"process\"\ncontrol = {}\n\
                [[group.nic]]\nname = \"wan\"\nattach = \"tap:rr-wan\"\n\
                [[group.interface]]\nname = \"guests\"\nnic = \"wan\"\nvlan = 7\naddress = \"10.0.7.1/24\"\n\
                [[group.route]]\nto = \"198.51.100.0/24\"\nvia = \"10.0.7.9\"\n";
    let plan = config::parse(file, "f.toml").expect("a good file");
    let group = plan.shadowed().next().expect("a control plane");
    let wanted = of(group);
    assert_eq!(wanted.published.as_deref(), Some("core"));
    let [wan, vlan] = wanted.interfaces.as_slice() else { panic!("{:?}", wanted.interfaces) };
    assert_eq!((wan.name.as_str(), vlan.name.as_str()), ("wan", "guests"));
    assert_eq!(vlan.addresses.iter().map(ToString::to_string).collect::<Vec<_>>(), ["10.0.7.1/24"]);
    let routes: Vec<String> = wanted.routes.iter().map(ToString::to_string).collect();
    assert_eq!(
        routes,
        ["198.51.100.0/24 via 10.0.7.9 dev guests"],
        "none of those by which members are probed"
    );
    kernel_router::check(&wanted).expect("the kernel can have it");
}

#[test]
fn an_interface_derives_its_link_local_address_unless_the_file_gives_one() {
    let router = router(
        "[[router]]\nname = \"edge\"\ncontrol = {}\n\
         [[router.nic]]\nname = \"wan\"\nattach = \"null\"\naddress = \"2001:db8::1/64\"\n\
         [[router.nic]]\nname = \"lan\"\nattach = \"null\"\naddress = [\"2001:db8:1::1/64\", \"fe80::9/64\"]\n",
    );
    let modes: Vec<(String, String)> = own_link_local(&router).into_iter().collect();
    let mode = |name: &str, mode: &str| (format!("net/ipv6/conf/{name}/addr_gen_mode"), mode.to_owned());
    assert_eq!(modes, [mode("lan", "1"), mode("wan", "0")]);
}
