use super::{of_router, settings, show_nic};

const FILE: &str = "[switch.lan]\n[[router]]\nname = \"edge\"\nvcpus = 2\npin = { vcpu = \"0-1\" }\n\
                    restart = \"never\"\nvhost = \"per-nic\"\n[[router.nic]]\nname = \"wan\"\n\
                    attach = \"switch:lan\"\naddress = \"192.0.2.1/24\"\nmtu = 1400\n";

#[test]
fn a_router_is_shown_as_it_would_be_written() {
    let plan = config::parse(FILE, "x.toml").expect("a good file");
    let shown = settings(&plan.routers[0]);
    let get = |key: &str| shown.get(key).map(String::as_str);
    assert_eq!(get("vcpus"), Some("2"));
    assert_eq!(get("pin.vcpu"), Some("0-1"));
    assert_eq!(get("pin.vhost"), Some("any"));
    assert_eq!(get("restart"), Some("never"));
    assert_eq!(get("vhost"), Some("per-nic"));
    assert_eq!(get("misdeed"), None);
    let nic = show_nic(&plan, &plan.routers[0].nics[0]);
    assert_eq!(nic.attach, "switch:lan");
    assert_eq!(nic.addresses, ["192.0.2.1/24"]);
    assert_eq!(nic.settings.get("mtu").map(String::as_str), Some("1400"));
}

#[test]
fn the_counters_of_one_router_are_told_from_those_of_others() {
    let names =
        ["edge.wan.rx.frames", "edge2.wan.rx.frames", "edge/wan.passes", "switch.lan.edge.wan.in_frames"];
    let others = ["switch.edge.core.wan.in_frames", "ringroad/clock"];
    let all = names.iter().chain(&others).map(|name| ((*name).to_owned(), 1)).collect();
    let cpu_ns = [("edge/vcpu0".to_owned(), 1), ("edge2/vcpu0".to_owned(), 1)].into();
    let counters = of_router(api::Counters { at_ns: 5, counters: all, cpu_ns, ..Default::default() }, "edge");
    assert_eq!(
        counters.counters.keys().map(String::as_str).collect::<Vec<_>>(),
        ["edge.wan.rx.frames", "edge/wan.passes", "switch.lan.edge.wan.in_frames"]
    );
    assert_eq!(counters.cpu_ns.keys().collect::<Vec<_>>(), ["edge/vcpu0"]);
}
