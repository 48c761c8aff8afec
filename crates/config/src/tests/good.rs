//! Valid files: defaults, and the examples of the repository.

use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use crate::{
    Attach, Deliver, Itr, Mac, NicModel, Pin, QueueLen, Spin, TransmitMode, VhostThreads, load, parse,
};

#[test]
fn defaults() {
    let text = "[[router]]\nname='a'\n[[router.nic]]\nname='x'\nattach='null'\n";
    let plan = parse(text, "dir/small.toml").expect("a good file");
    assert_eq!(plan.name, "small");
    let router = &plan.routers[0];
    assert_eq!((router.engine, router.vcpus, router.memory), (None, 1, 32 << 20));
    assert_eq!((router.vhost, &router.pin), (VhostThreads::Shared, &Pin::default()));
    assert_eq!(router.spin, Spin::For(Duration::from_micros(50)));
    let nic = &router.nics[0];
    assert_eq!(
        (nic.model, &nic.attach, nic.deliver),
        (NicModel::VirtioNet, &Attach::null(), Deliver::Queued)
    );
    assert_eq!((nic.mode, nic.itr), (TransmitMode::Csb, Itr::Every(0)));
    assert_eq!((nic.combine, nic.combine_above), (0, 0));
    assert_eq!((nic.queues, nic.queue_len.most(), nic.mtu, nic.ring), (1, 1000, 1500, 1024));
    assert_eq!(nic.mac, Mac::derived("a", "x"));
    assert!(nic.addresses.is_empty());
}

#[test]
fn example_one_router() {
    let plan = load(&examples().join("one-router.toml")).expect("a good file");
    assert_eq!(plan.name, "one-router");
    let attachments: Vec<String> = plan.nics().map(|(_, nic)| nic.attach.to_string()).collect();
    assert_eq!(attachments, ["tap:rr-left", "tap:rr-right"]);
    assert_eq!(plan.memory(), 32 << 20);
}

#[test]
fn example_two_routers() {
    let plan = load(&examples().join("two-routers.toml")).expect("a good file");
    assert_eq!(plan.switches[0].ageing, Duration::from_secs(300));
    let [west, east] = plan.routers.as_slice() else { panic!("two routers") };
    assert_eq!(west.routes[0].via, Some(Ipv4Addr::new(203, 0, 113, 2)));
    assert_eq!((west.routes[0].nic, east.routes[0].nic), (1, 0));
    let [six, _] = [west, east].map(|router| router.forwarding.routes6[0].to.to_string());
    assert_eq!(six, "::/0");
    assert_eq!(west.nics[1].attach.switch(), Some(plan.switches[0].name.as_str()));
    let threads: Vec<String> = west.threads().into_iter().map(|(name, _)| name).collect();
    assert_eq!(threads, ["west/vcpu0", "west/lan", "west/core"]);
}

#[test]
fn example_e1000() {
    let plan = load(&examples().join("e1000.toml")).expect("a good file");
    let [left, right] = plan.routers[0].nics.as_slice() else { panic!("two NICs") };
    assert_eq!((left.model, left.mode, left.itr), (NicModel::E1000, TransmitMode::Csb, Itr::Every(0)));
    assert_eq!((right.mode, right.itr), (TransmitMode::SendCombining, Itr::Every(100)));
    assert_eq!((right.combine, right.combine_above), (32, 20_000));
}

fn examples() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples"))
}

#[test]
fn neighbours_and_routes_find_their_nic() {
    let text = "[[router]]\nname='a'\nvhost='split'\n\
        [[router.nic]]\nname='x'\nattach='null'\naddress='10.0.0.1/24'\n\
        [[router.nic]]\nname='y'\nattach='null'\naddress=['10.0.1.1/24','10.0.2.0/31']\n\
        [[router.route]]\nto='10.9.0.0/16'\nvia='10.0.2.1'\n\
        [[router.route]]\nto='10.8.0.0/16'\nnic='x'\n\
        [[router.neighbour]]\naddress='10.0.1.7'\nmac='02:00:00:00:00:07'\n";
    let plan = parse(text, "f.toml").expect("a good file");
    let router = &plan.routers[0];
    assert_eq!((router.routes[0].nic, router.routes[1].nic, router.routes[1].via), (1, 0, None));
    assert_eq!((router.neighbours[0].nic, router.neighbours[0].mac), (1, Mac([2, 0, 0, 0, 0, 7])));
    assert_eq!((router.vhost_threads(), router.threads().len()), (4, 5));
}

#[test]
fn attachments_of_every_kind() {
    let nic = |attach: &str| {
        let text = format!("[[router]]\nname = \"r\"\n[[router.nic]]\nname = \"n\"\n{attach}\n");
        let plan = parse(&text, "r.toml").expect("good");
        plan.routers[0].nics[0].clone()
    };
    let said = |attach: &Attach| format!("{attach}{}", attach.detail());
    assert_eq!(said(&nic("attach = \"bridge:br0\"").attach), "bridge:br0");
    assert_eq!(nic("attach = \"ovs:br0\"\nqueue_len = \"auto\"").queue_len, QueueLen::Auto);
    let vepa = nic("attach = \"macvtap:eth0\"\nmacvtap_mode = \"vepa\"\noffload = false");
    assert_eq!((said(&vepa.attach).as_str(), vepa.attach.lower()), ("macvtap:eth0 (vepa)", Some("eth0")));
    assert_eq!(said(&nic("attach = \"macvtap:eth0\"").attach), "macvtap:eth0 (bridge)");
    assert!(!vepa.offload && nic("attach = \"xdp:eth0\"").offload);
    let replay = nic("attach = \"pcap:out.pcap\"\nreplay = \"in.pcap\"").attach;
    assert_eq!(said(&replay), "pcap:out.pcap (replays in.pcap, fast)");
    assert_eq!(said(&nic("attach = \"pcap:out.pcap\"").attach), "pcap:out.pcap");
    let slow = nic("attach = \"pcap:out.pcap\"\nreplay = \"in.pcap\"\nreplay_pace = \"recorded\"").attach;
    assert_eq!(slow.detail(), " (replays in.pcap, recorded)");
    let back = nic("attach = \"vhost-user-backend:/run/vm.sock\"").attach;
    assert_eq!(said(&back), "vhost-user-backend:/run/vm.sock (listen)");
    let machine =
        |more: &str| nic(&format!("attach = \"vhost-user-backend:/run/vm.sock\"\n{more}")).memory_max;
    assert_eq!([machine(""), machine("memory_max = \"1G\"")], [64 << 30, 1 << 30]);
    let front = nic("attach = \"vhost-user-frontend:/run/ovs.sock\"").attach;
    assert_eq!(said(&front), "vhost-user-frontend:/run/ovs.sock (connect)");
    let listens = nic("attach = \"vhost-user-frontend:/run/ovs.sock\"\nsocket = \"listen\"").attach;
    assert_eq!(listens.detail(), " (listen)");
    let tunnel = nic("attach = \"udp:192.0.2.1:4789-198.51.100.1:4789\"").attach;
    assert_eq!(said(&tunnel), "udp:192.0.2.1:4789-198.51.100.1:4789");
}

#[test]
fn a_nic_wants_what_its_file_says() {
    let text = "[[router]]\nname = \"r\"\nvhost = \"kernel\"\nspin = \"always\"\nvcpus = 2\n\
        [[router.nic]]\nname = \"n\"\nattach = \"macvtap:eth0\"\nhash = \"symmetric\"\nmtu = 1400\nqueues = 1\n\
        mac = \"02:00:00:00:00:07\"\noffload = false\nqueue_len = 64\n";
    let plan = parse(text, "r.toml").expect("good");
    let router = &plan.routers[0];
    let wanted = router.wanted(&router.nics[0]);
    assert_eq!((wanted.label(), wanted.attach.lower()), ("r.n".to_owned(), Some("eth0")));
    assert_eq!((wanted.queues, wanted.pairs, wanted.mtu, wanted.queue_len), (2, 1, 1400, 64));
    assert_eq!((wanted.mac, wanted.hash), ([2, 0, 0, 0, 0, 7], port::steer::Hash::Symmetric));
    assert!(wanted.by_kernel && wanted.is_polled && !wanted.offload && !wanted.is_tuned && !wanted.is_direct);
    let part = crate::parse(&text.replace("kernel", "shared"), "r.toml").expect("good");
    let wanted = part.routers[0].wanted(&part.routers[0].nics[0]);
    assert!(wanted.queues == 1 && !wanted.by_kernel);
}
