//! Files with one fault, and the exact error line of each.

use super::bad::{GOOD, errors};

/// (what is replaced, replacement, error line)
const ONE_LINE: &[(&str, &str, &str)] = &[
    (
        r#"engine = "kvm""#,
        r#"engine = "jail""#,
        r#"f.toml:6: router.engine: "jail" is no engine; engines: kvm, process, linux, kernel, lxc"#,
    ),
    (
        r#"engine = "kvm""#,
        r#"engine = "vmx""#,
        r#"f.toml:6: router.engine: "vmx" is no engine; engines: kvm, process, linux, kernel, lxc"#,
    ),
    (
        r#"engine = "kvm""#,
        r#"engin = "kvm""#,
        r#"f.toml:6: router.engin: unknown key; did you mean "engine"?"#,
    ),
    (
        r#"engine = "kvm""#,
        r#"colour = "red""#,
        r#"f.toml:6: router.colour: unknown key; keys: name, engine, role, misdeed, restart, state, vcpus, memory, vhost, spin, isolate, kernel, initrd, append, console, forwarding, rp_filter, proxy_arp, threaded, drop_reasons, rootfs, init, pin, affinity, sched, guarantee, limit, neighbours, long_routes, redirects, control, nic, route, neighbour, interface"#,
    ),
    (
        r#"engine = "kvm""#,
        r#""a b" = 1"#,
        r#"f.toml:6: router."a b": unknown key; keys: name, engine, role, misdeed, restart, state, vcpus, memory, vhost, spin, isolate, kernel, initrd, append, console, forwarding, rp_filter, proxy_arp, threaded, drop_reasons, rootfs, init, pin, affinity, sched, guarantee, limit, neighbours, long_routes, redirects, control, nic, route, neighbour, interface"#,
    ),
    (r#"engine = "kvm""#, "vcpus = 1", "f.toml:7: vcpus: is there twice; remove one"),
    ("vcpus = 1", "vcpus = 17", "f.toml:7: router.vcpus: 17 is out of range; write 1 to 16"),
    ("vcpus = 1", "vcpus = 0", "f.toml:7: router.vcpus: 0 is out of range; write 1 to 16"),
    ("vcpus = 1", "vcpus = -1", "f.toml:7: router.vcpus: -1 is out of range; write 1 to 16"),
    (
        "vcpus = 1",
        "vcpus = 99999999999999999999",
        "f.toml:7: router.vcpus: 99999999999999999999 is out of range; write 1 to 16",
    ),
    (
        "vcpus = 1",
        r#"vcpus = "1""#,
        "f.toml:7: router.vcpus: a string where a whole number from 1 to 16 is expected",
    ),
    (
        "vcpus = 1",
        "vcpus = 1.5",
        "f.toml:7: router.vcpus: a float where a whole number from 1 to 16 is expected",
    ),
    (
        r#"memory = "32M""#,
        r#"memory = "33M""#,
        r#"f.toml:8: router.memory: "33M" is not a multiple of 2M; write "32M" or "34M""#,
    ),
    (
        r#"memory = "32M""#,
        r#"memory = "8M""#,
        r#"f.toml:8: router.memory: "8M" is out of range; write "16M" to "1G""#,
    ),
    (
        r#"memory = "32M""#,
        r#"memory = "2G""#,
        r#"f.toml:8: router.memory: "2G" is out of range; write "16M" to "1G""#,
    ),
    (
        r#"memory = "32M""#,
        r#"memory = "lots""#,
        r#"f.toml:8: router.memory: "lots" is not a size; write e.g. "32M" or "1G""#,
    ),
    (
        r#"memory = "32M""#,
        "memory = 32",
        r#"f.toml:8: router.memory: an integer where a string such as "32M" is expected"#,
    ),
    (
        r#"vhost = "shared""#,
        r#"vhost = "many""#,
        r#"f.toml:9: router.vhost: "many" is no way to cut vhost threads; ways: shared, per-nic, split, per-queue, kernel, vmm"#,
    ),
    (
        r#"vhost = "shared""#,
        r#"vhost = "kernel""#,
        r#"f.toml:25: router.nic.attach: vhost-net serves TAPs and macvtaps; write "tap:NAME", "bridge:NAME", "ovs:NAME" or "macvtap:NAME", or another vhost"#,
    ),
    (
        r#"vcpu = "1""#,
        r#"vcpu = "1-""#,
        r#"f.toml:10: router.pin.vcpu: "1-" is not a list of CPUs; write e.g. "1" or "0-1,3""#,
    ),
    (r#"vcpu = "1""#, r#"cpu = "1""#, r#"f.toml:10: router.pin.cpu: unknown key; did you mean "vcpu"?"#),
    (
        r#"pin = { vcpu = "1", vhost = "0" }"#,
        r#"pin = "1""#,
        r#"f.toml:10: router.pin: a string where a table such as { vcpu = "1", vhost = "0" } is expected"#,
    ),
    (
        r#"spin = "50us""#,
        r#"spin = "50""#,
        r#"f.toml:11: router.spin: "50" is not a time; write e.g. "50us", or "always" to never sleep"#,
    ),
    (
        r#"spin = "50us""#,
        r#"spin = "2s""#,
        r#"f.toml:11: router.spin: "2s" is out of range; write "0us" to "1s", or "always" to never sleep"#,
    ),
    (r#"name = "edge""#, "", r#"f.toml:4: router.name: missing; write e.g. name = "edge""#),
    (
        r#"name = "edge""#,
        r#"name = "Edge""#,
        r#"f.toml:5: router.name: "Edge" is not a name; use 1 to 14 of a-z, 0-9 and -, a letter or digit first"#,
    ),
    (
        r#"name = "edge""#,
        r#"name = "fifteen-letters""#,
        r#"f.toml:5: router.name: "fifteen-letters" is not a name; use 1 to 14 of a-z, 0-9 and -, a letter or digit first"#,
    ),
    (
        r#"name = "edge""#,
        r#"name = "../x""#,
        r#"f.toml:5: router.name: "../x" is not a name; use 1 to 14 of a-z, 0-9 and -, a letter or digit first"#,
    ),
    (
        r#"name = "edge""#,
        r#"name = "a\nb""#,
        r#"f.toml:5: router.name: "a\nb" is not a name; use 1 to 14 of a-z, 0-9 and -, a letter or digit first"#,
    ),
    (
        r#"name = "edge""#,
        r#"name = "switch""#,
        r#"f.toml:5: router.name: the counters of switches begin with "switch"; choose another"#,
    ),
    (
        r#"name = "lan""#,
        r#"name = "vcpu0""#,
        r#"f.toml:24: router.nic.name: "vcpu0" has a meaning in the names of counters; choose another"#,
    ),
    (
        r#"name = "lan""#,
        r#"name = "exit""#,
        r#"f.toml:24: router.nic.name: "exit" has a meaning in the names of counters; choose another"#,
    ),
    (
        r#"name = "lan""#,
        r#"name = "balancer""#,
        r#"f.toml:24: router.nic.name: "balancer" has a meaning in the names of counters; choose another"#,
    ),
    ("ageing = 300", "ageing = 0", "f.toml:2: switch.lan.ageing: 0 is out of range; write 1 to 1000000"),
    (
        "[switch.lan]",
        "[switch.LAN]",
        "f.toml:1: switch.LAN: \"LAN\" is not a name; use 1 to 14 of a-z, 0-9 and -, a letter or digit first\nf.toml:25: router.nic.attach: there is no switch \"lan\"; add [switch.lan], or use one of: LAN",
    ),
    (
        r#"model = "virtio-net""#,
        r#"model = "e1001""#,
        r#"f.toml:15: router.nic.model: "e1001" is no NIC model; models: virtio-net, e1000"#,
    ),
    (
        r#"attach = "tap:tap0""#,
        "",
        r#"f.toml:13: router.nic.attach: missing; write e.g. attach = "tap:tap0""#,
    ),
    (
        r#"attach = "tap:tap0""#,
        r#"attach = "hub:lan""#,
        r#"f.toml:16: router.nic.attach: "hub:lan" is no attachment; forms: switch:NAME, tap:INTERFACE, bridge:INTERFACE, ovs:BRIDGE, macvtap:INTERFACE, xdp:INTERFACE, veth:INTERFACE, macvlan:INTERFACE, link:INTERFACE, vf:INTERFACE, udp:LOCAL-REMOTE, pcap:FILE, vhost-user-backend:SOCKET, vhost-user-frontend:SOCKET, null"#,
    ),
    (
        r#"attach = "tap:tap0""#,
        r#"attach = "wire""#,
        r#"f.toml:16: router.nic.attach: "wire" is no attachment; forms: switch:NAME, tap:INTERFACE, bridge:INTERFACE, ovs:BRIDGE, macvtap:INTERFACE, xdp:INTERFACE, veth:INTERFACE, macvlan:INTERFACE, link:INTERFACE, vf:INTERFACE, udp:LOCAL-REMOTE, pcap:FILE, vhost-user-backend:SOCKET, vhost-user-frontend:SOCKET, null"#,
    ),
    (
        r#"attach = "tap:tap0""#,
        r#"attach = "tap:a/b""#,
        r#"f.toml:16: router.nic.attach: "a/b" is not an interface name; use 1 to 15 visible ASCII characters except / : %"#,
    ),
    (
        r#"attach = "tap:tap0""#,
        r#"attach = "tap:sixteen-letters-""#,
        r#"f.toml:16: router.nic.attach: "sixteen-letters-" is not an interface name; use 1 to 15 visible ASCII characters except / : %"#,
    ),
    (
        r#"attach = "tap:tap0""#,
        r#"attach = "pcap:""#,
        r#"f.toml:16: router.nic.attach: "pcap:" names no file; write e.g. "pcap:wan.pcap""#,
    ),
    (
        r#"attach = "switch:lan""#,
        r#"attach = "switch:wan""#,
        r#"f.toml:25: router.nic.attach: there is no switch "wan"; add [switch.wan], or use one of: lan"#,
    ),
    (
        r#"attach = "switch:lan""#,
        r#"attach = "tap:tap0""#,
        "f.toml:25: router.nic.attach: \"tap:tap0\" is taken in line 16 already; choose another\nf.toml:27: router.nic.deliver: only a NIC on a switch has it; remove it, or write attach = \"switch:NAME\"",
    ),
    (
        r#"mac = "02:00:00:00:00:01""#,
        r#"mac = "02:00:00""#,
        r#"f.toml:17: router.nic.mac: "02:00:00" is not an Ethernet address; write e.g. "02:00:00:00:00:01""#,
    ),
    (
        r#"mac = "02:00:00:00:00:01""#,
        r#"mac = "01:00:00:00:00:01""#,
        r#"f.toml:17: router.nic.mac: "01:00:00:00:00:01" names a group of stations; write e.g. "02:00:00:00:00:01""#,
    ),
    (
        r#"mac = "02:00:00:00:00:01""#,
        r#"mac = "00:00:00:00:00:00""#,
        r#"f.toml:17: router.nic.mac: "00:00:00:00:00:00" names no station; write e.g. "02:00:00:00:00:01""#,
    ),
    (
        r#"name = "lan""#,
        "name = \"lan\"\nmac = \"02:00:00:00:00:01\"",
        "f.toml:25: router.nic.mac: 02:00:00:00:00:01 is taken in line 17 already; choose another",
    ),
    (
        r#""192.0.2.1/24""#,
        r#""192.0.2.1/33""#,
        "f.toml:18: router.nic.address: \"192.0.2.1/33\" is not an IPv4 prefix; write e.g. \"192.0.2.1/24\"\nf.toml:31: router.route.via: 192.0.2.254 is in none of the router's networks: 198.51.100.0/24\nf.toml:34: router.neighbour.address: 192.0.2.254 is in none of the router's networks: 198.51.100.0/24",
    ),
    (
        r#""198.51.100.1/24""#,
        r#""198.51.100.1""#,
        r#"f.toml:26: router.nic.address: "198.51.100.1" is not an IPv4 prefix; write e.g. "192.0.2.1/24""#,
    ),
    (
        r#""198.51.100.1/24""#,
        r#""198.51.100.1/024""#,
        r#"f.toml:26: router.nic.address: "198.51.100.1/024" is not an IPv4 prefix; write e.g. "192.0.2.1/24""#,
    ),
    (
        r#""198.51.100.1/24""#,
        r#""198.51.100.0/24""#,
        r#"f.toml:26: router.nic.address: "198.51.100.0/24" is the network itself, not an address in it; write e.g. "192.0.2.1/24""#,
    ),
    (
        r#""198.51.100.1/24""#,
        r#""198.51.100.255/24""#,
        r#"f.toml:26: router.nic.address: "198.51.100.255/24" is the broadcast address of 198.51.100.0/24; write e.g. "192.0.2.1/24""#,
    ),
    (
        r#""198.51.100.1/24""#,
        r#""224.0.0.5/24""#,
        r#"f.toml:26: router.nic.address: "224.0.0.5/24" cannot be a router's own address; write e.g. "192.0.2.1/24""#,
    ),
    (
        r#""198.51.100.1/24""#,
        r#""198.51.100.1/0""#,
        r#"f.toml:26: router.nic.address: "198.51.100.1/0" is every network at once; write e.g. "192.0.2.1/24""#,
    ),
    (
        r#""198.51.100.1/24""#,
        r#""192.0.2.129/25""#,
        r#"f.toml:26: router.nic.address: 192.0.2.129/25 overlaps 192.0.2.0/24 of NIC "wan"; use a network of its own"#,
    ),
    (
        r#""198.51.100.1/24""#,
        "7",
        r#"f.toml:26: router.nic.address: an integer where a string such as "192.0.2.1/24" is expected"#,
    ),
    (
        r#"["192.0.2.1/24"]"#,
        r#"["192.0.2.1/24", "192.0.2.1/24"]"#,
        r#"f.toml:18: router.nic.address: "192.0.2.1/24" is there twice; remove one"#,
    ),
    ("queues = 1", "queues = 17", "f.toml:19: router.nic.queues: 17 is out of range; write 1 to 16"),
    ("queues = 1", "queue_len = 0", "f.toml:19: router.nic.queue_len: 0 is out of range; write 1 to 65536"),
    (
        r#"deliver = "queued""#,
        r#"queue_len = "auto""#,
        r#"f.toml:27: router.nic.queue_len: "auto" does not work here: only the queue of a TAP or macvtap can be tuned (tap:, bridge:, ovs:, macvtap:); write a number such as 1000"#,
    ),
    (
        "queues = 1",
        "socket = \"listen\"",
        r#"f.toml:19: router.nic.socket: only a NIC with attach = "vhost-user-backend:SOCKET" has it; remove it"#,
    ),
    (
        "queues = 1",
        "memory_max = \"1G\"",
        r#"f.toml:19: router.nic.memory_max: only a NIC with attach = "vhost-user-backend:SOCKET" has it; remove it"#,
    ),
    ("mtu = 1500", "mtu = 9217", "f.toml:20: router.nic.mtu: 9217 is out of range; write 68 to 9216"),
    (
        "ring = 1024",
        "ring = 300",
        "f.toml:21: router.nic.ring: 300 is not a power of two; write 256, 512 or 1024",
    ),
    ("ring = 1024", "ring = 128", "f.toml:21: router.nic.ring: 128 is out of range; write 256 to 1024"),
    (
        r#"deliver = "queued""#,
        r#"deliver = "now""#,
        r#"f.toml:27: router.nic.deliver: "now" is no way to deliver; ways: queued, direct"#,
    ),
    (
        r#"name = "lan""#,
        r#"name = "wan""#,
        r#"f.toml:24: router.nic.name: "wan" is taken in line 14 already; choose another"#,
    ),
    (
        r#"to = "0.0.0.0/0""#,
        r#"to = "10.0.0.1/8""#,
        r#"f.toml:30: router.route.to: "10.0.0.1/8" has bits behind its prefix; write "10.0.0.0/8""#,
    ),
    (
        r#"to = "0.0.0.0/0""#,
        r#"to = "0.0.0.0/8""#,
        r#"f.toml:30: router.route.to: "0.0.0.0/8" lies in 0.0.0.0/8, "this network", which no router forwards; write e.g. "198.51.100.0/24""#,
    ),
    (
        r#"to = "0.0.0.0/0""#,
        r#"to = "127.0.0.1/32""#,
        r#"f.toml:30: router.route.to: "127.0.0.1/32" lies in 127.0.0.0/8, loopback, which no router forwards; write e.g. "198.51.100.0/24""#,
    ),
    (
        r#"to = "0.0.0.0/0""#,
        r#"to = "239.1.0.0/16""#,
        r#"f.toml:30: router.route.to: "239.1.0.0/16" lies in 224.0.0.0/4, multicast, which no router forwards; write e.g. "198.51.100.0/24""#,
    ),
    (
        r#"to = "0.0.0.0/0""#,
        r#"to = "255.255.255.255/32""#,
        r#"f.toml:30: router.route.to: "255.255.255.255/32" lies in 240.0.0.0/4, reserved and broadcast, which no router forwards; write e.g. "198.51.100.0/24""#,
    ),
    (
        r#"to = "0.0.0.0/0""#,
        r#"to = "default""#,
        r#"f.toml:30: router.route.to: "default" is not an IPv4 prefix; write e.g. "198.51.100.0/24""#,
    ),
    (r#"to = "0.0.0.0/0""#, "", r#"f.toml:29: router.route.to: missing; write e.g. to = "198.51.100.0/24""#),
    (
        r#"to = "0.0.0.0/0""#,
        r#"to = "192.0.2.0/24""#,
        r#"f.toml:30: router.route.to: 192.0.2.0/24 is the network of NIC "wan", which needs no route"#,
    ),
    (
        r#"to = "0.0.0.0/0""#,
        r#"to = "198.51.100.1/32""#,
        "f.toml:30: router.route.to: 198.51.100.1/32 is the router's own address, which needs no route",
    ),
    (r#"via = "192.0.2.254""#, "", r#"f.toml:29: router.route.via: missing; write e.g. via = "192.0.2.254""#),
    (
        r#"via = "192.0.2.254""#,
        r#"via = "192.0.2""#,
        r#"f.toml:31: router.route.via: "192.0.2" is not an IPv4 address; write e.g. "192.0.2.254""#,
    ),
    (
        r#"via = "192.0.2.254""#,
        r#"via = "203.0.113.1""#,
        "f.toml:31: router.route.via: 203.0.113.1 is in none of the router's networks: 192.0.2.0/24, 198.51.100.0/24",
    ),
    (
        r#"via = "192.0.2.254""#,
        r#"via = "192.0.2.1""#,
        "f.toml:31: router.route.via: 192.0.2.1 is the router's own address; write its neighbour's",
    ),
    (
        r#"via = "192.0.2.254""#,
        r#"via = "192.0.2.255""#,
        "f.toml:31: router.route.via: 192.0.2.255 is no station of 192.0.2.0/24 but its network or broadcast address",
    ),
    (
        r#"via = "192.0.2.254""#,
        r#"nic = "dmz""#,
        r#"f.toml:31: router.route.nic: the router has no NIC "dmz"; its NICs: wan, lan"#,
    ),
    (
        r#"via = "192.0.2.254""#,
        "via = \"192.0.2.254\"\nnic = \"lan\"",
        r#"f.toml:31: router.route.via: 192.0.2.254 is behind NIC "wan", not "lan"; remove nic"#,
    ),
    (
        "[[router.neighbour]]",
        "[[router.route]]\nto = \"0.0.0.0/0\"\nnic = \"lan\"\n[[router.neighbour]]",
        "f.toml:34: router.route.to: 0.0.0.0/0 is routed in line 30 already; write several gateways as one route: via = [\"GATEWAY\", \"GATEWAY\"]",
    ),
    (
        r#"mac = "02:00:00:00:00:99""#,
        "",
        r#"f.toml:33: router.neighbour.mac: missing; write e.g. mac = "02:00:00:00:00:01""#,
    ),
    (
        r#"[switch.lan]"#,
        "name = \"a/b\"\n[switch.lan]",
        r#"f.toml:1: name: "a/b" is not a name; use 1 to 31 of a-z, 0-9 and -, a letter or digit first"#,
    ),
];

#[test]
fn one_fault_one_line() {
    for (old, new, expected) in ONE_LINE {
        assert!(GOOD.contains(old), "{old:?} is not in the good file");
        assert_eq!(errors(&GOOD.replacen(old, new, 1)), *expected, "{old} -> {new}");
    }
}
