//! A kernel router between a host and a plain router: FRR runs where the kernel forwards.

use super::*;

/// A file with FRR's configuration, and the file of the run. The outer ends of both pairs are moved to their hosts later.
fn file(engine: &str, name: &str, folder: &std::path::Path, frr: &str) -> String {
    let path = folder.join("frr.conf");
    fs::write(&path, frr).expect("written");
    let nic = |nic: &str, four: &str, six: &str| {
        format!(
            "[[router.nic]]\nname = \"{nic}\"\nattach = \"veth:{name}{nic}\"\naddress = [\"{four}\"{six}]\n"
        )
    };
    let six = |address: &str| if frr.contains("ospf6") { format!(", \"{address}\"") } else { String::new() };
    let control = format!("control = {{ frr = \"{}\" }}", path.display());
    format!("[[router]]\nname = \"{name}\"\nengine = \"{engine}\"\n{control}\n")
        + &nic("west", "192.0.2.1/24", &six("2001:db8:1::1/64"))
        + &nic("east", "10.0.23.1/30", &six("2001:db8:23::1/64"))
}

/// A host without IPv6, so that it sends nothing by itself.
fn host(name: &str) -> Namespace {
    Namespace::add_silent(name).expect("a namespace")
}

/// The run, and those at both ends of its router.
struct World {
    stage: Stage,
    name: &'static str,
    near: Namespace,
    plain: Namespace,
    _files: tempfile::TempDir,
}

impl World {
    fn start(engine: &str, name: &'static str) -> Self {
        Self::start_with(engine, name, &ospf(1, &["east"], &["west"]))
    }

    /// With this configuration of FRR.
    fn start_with(engine: &str, name: &'static str, frr: &str) -> Self {
        let files = tempfile::tempdir().expect("a folder");
        let text = file(engine, name, files.path(), frr);
        let hosts = |_: &Namespace| Ok((host(&format!("{name}-near")), host(&format!("{name}-plain"))));
        let started = match engine {
            "lxc" => Stage::start_with_groups_after(RINGROAD, &text, &["--json"], hosts),
            _ => Stage::start_with_names_after(RINGROAD, &text, &["--json"], hosts),
        };
        let (stage, (near, plain)) = started.expect("it starts");
        Self { stage, name, near, plain, _files: files }
    }

    fn client(&self) -> Client {
        wait_for("the run", || self.stage.client().ok())
    }

    /// Name of the outer end of a pair.
    fn end(&self, nic: &str) -> String {
        format!("{}{nic}", self.name)
    }

    /// Moves the outer ends of the pairs to the hosts.
    fn plug_in(&self) {
        for (nic, host, address) in
            [("west", &self.near, "192.0.2.2/24"), ("east", &self.plain, "10.0.23.2/30")]
        {
            let link = self.end(nic);
            wait_for("the end of a pair", || {
                self.stage.home().ip(&["link", "set", &link, "netns", host.name()]).ok()
            });
            host.ip(&["address", "add", address, "dev", &link]).expect("an address");
            host.ip(&["link", "set", &link, "up"]).expect("up");
            host.set(&format!("net.ipv4.neigh.{link}.mcast_solicit"), "60").expect("set");
        }
        self.near.ip(&["route", "add", "default", "via", "192.0.2.1"]).expect("a route");
        self.plain.ip(&["address", "add", &format!("{FAR}/32"), "dev", "lo"]).expect("added");
    }

    /// Waits until both routers know the way.
    fn converges(&self, client: &mut Client) -> ControlRoute {
        self.converges_by(client, "ospf")
    }

    fn converges_by(&self, client: &mut Client, protocol: &str) -> ControlRoute {
        let found = wait_for_route(client, self.name, (FAR, protocol));
        wait_for("the plain router's way back", || {
            let routes = self.plain.ip(&["route", "show"]).expect("routes");
            routes.contains("192.0.2.0/24").then_some(())
        });
        // One that had a way to the former router loses it for a moment when it hears of the new one.
        (0..3).for_each(|_| wait_for_answer(&self.near, FAR));
        found
    }

    fn finish(self) {
        let Self { stage, near, plain, .. } = self;
        // Restarts are told.
        stage.finish_troubled(vec![near, plain]).expect("nothing is left");
    }
}

fn said(words: &[&str]) -> String {
    let done = run(Command::new(RINGROAD).args(words), PATIENCE).expect("it ends");
    assert!(done.status.success(), "{words:?}: {}", done.stderr);
    done.stdout
}

/// BGP with a neighbour that BFD watches, by bfdd itself; this network is told. Silence is what lasts ten seconds.
fn bgp(own: u16, (peer, number): (&str, u16), network: &str) -> String {
    format!(
        "bfd\n profile slow\n  detect-multiplier 10\n  receive-interval 1000\n  transmit-interval 1000\n exit\nexit\n\
         router bgp {own}\n no bgp ebgp-requires-policy\n neighbor {peer} remote-as {number}\n \
         neighbor {peer} timers connect 1\n neighbor {peer} bfd\n neighbor {peer} bfd profile slow\n \
         address-family ipv4 unicast\n  network {network}\n exit-address-family\nexit\n"
    )
}

mod all {
    use super::super::six::{FAR6, ospf6};
    use super::*;

    #[test]
    fn frr_runs_where_a_kernel_router_forwards() {
        needs!(Root, Program("ip"), Program("busybox"), Program("nsenter"), Program("vtysh"));
        let world = World::start("kernel", "t45k");
        world.plug_in();
        let plain = Plain::start(&world.plain, &ospf(3, &[&world.end("east")], &["lo"]));
        let mut client = world.client();
        let found = world.converges(&mut client);
        let [hop] = found.hops.as_slice() else { panic!("{found:?}") };
        assert_eq!((hop.via, hop.link.as_str()), (Some([10, 0, 23, 2].into()), "east"));
        each_question_has_one_answer(
            |program| world.near.command(program),
            (&world.end("west"), "192.0.2.1"),
        );
        let full = wait_for("an adjacency", || {
            let all = adjacencies(&mut client, world.name);
            (all.len() == 1 && all.iter().all(|one| one.up)).then_some(all)
        });
        assert_eq!(full[0].protocol, "ospf");
        assert!(forwarded_by_kernel(world.name) > 0, "the kernel forwards there");
        assert!(said(&["cli", world.name, "-c", "show ip ospf neighbor"]).contains("10.255.0.3"));
        let neighbours = said(&["show", "neighbours", "--vrf", world.name]);
        assert!(neighbours.contains("192.0.2.2 is ") && neighbours.contains("behind west"), "{neighbours}");
        let counters = world.stage.wait_for_counters(|_| true).expect("counters");
        let ours =
            |name: &str| name.contains(".punt.") || name.contains(".fpm.") || name.contains(".shadow.");
        assert_eq!(counters.named(ours).len(), 0, "there is nothing between it and its links");
        // A daemon that ends is started again, and the kernel forwards meanwhile.
        let first = process("zebra", world.name).expect("zebra runs");
        let pid = i32::try_from(first).ok().and_then(Pid::from_raw).expect("a process");
        kill_process(pid, Signal::KILL).expect("killed");
        ping(world.near.command("busybox"), 5, &[FAR]).expect("answered");
        wait_for("another zebra", || process("zebra", world.name).filter(|id| *id != first));
        world.converges(&mut client);
        // The router in a new namespace: FRR follows it there.
        let before = process("zebra", world.name).expect("zebra runs");
        assert!(said(&["restart", world.name]).contains("was started anew"));
        wait_for("FRR in the new namespace", || process("zebra", world.name).filter(|id| *id != before));
        world.converges(&mut client);
        // Without the router there is no control plane.
        said(&["stop", world.name]);
        wait_for("the end of FRR", || process("zebra", world.name).is_none().then_some(()));
        drop(plain);
        world.finish();
    }

    #[test]
    fn kernel_routers_have_bgp_and_the_bfd_of_bfdd() {
        needs!(Root, Program("ip"), Program("busybox"), Program("nsenter"), Program("vtysh"));
        let own = bgp(65001, ("10.0.23.2", 65003), "192.0.2.0/24");
        let world = World::start_with("kernel", "t45b", &own);
        world.plug_in();
        let other = bgp(65003, ("10.0.23.1", 65001), &format!("{FAR}/32"));
        let plain = Plain::start(&world.plain, &other);
        let mut client = world.client();
        world.converges_by(&mut client, "bgp");
        wait_for("both protocols", || {
            let all = adjacencies(&mut client, world.name);
            let has = |name: &str| all.iter().any(|one| one.protocol == name && one.up);
            (has("bgp") && has("bfd")).then_some(())
        });
        let counters = world.stage.wait_for_counters(|_| true).expect("counters");
        assert_eq!(counters.named(|name| name.contains(".bfd.")).len(), 0, "its sessions are bfdd's");
        drop(plain);
        wait_for("the withdrawal", || route(&mut client, world.name, FAR).is_none().then_some(()));
        world.finish();
    }

    #[test]
    fn kernel_routers_have_ospf_for_ipv6() {
        needs!(Root, Program("ip"), Program("busybox"), Program("nsenter"), Program("vtysh"));
        let world = World::start_with("kernel", "t45s", &ospf6(1, &["east"]));
        world.plug_in();
        world.near.add_six(&world.end("west"), "2001:db8:1::2/64", "2001:db8:1::1").expect("IPv6");
        world.plain.add_six(&world.end("east"), "2001:db8:23::2/64", "2001:db8:23::1").expect("IPv6");
        world.plain.ip(&["-6", "route", "delete", "default"]).expect("deleted");
        world.plain.ip(&["address", "add", &format!("{FAR6}/128"), "dev", "lo"]).expect("added");
        world.plain.set("net.ipv6.conf.all.forwarding", "1").expect("a parameter");
        let plain = Plain::start(&world.plain, &ospf6(3, &[&world.end("east")]));
        let mut client = world.client();
        wait_for_route(&mut client, world.name, (FAR6, "ospf"));
        wait_for_answer(&world.near, FAR6);
        drop(plain);
        world.finish();
    }
}

/// Containers are in control groups of the host, which other tests would take for their own.
mod alone {
    mod all {
        use super::super::*;

        #[test]
        fn frr_runs_beside_a_container_that_forwards() {
            needs!(
                Root,
                Program("ip"),
                Program("busybox"),
                Program("nsenter"),
                Program("vtysh"),
                Program("lxc-start")
            );
            let world = World::start("lxc", "t45x");
            let mut client = world.client();
            wait_for("the container", || process("zebra", world.name));
            world.plug_in();
            let plain = Plain::start(&world.plain, &ospf(3, &[&world.end("east")], &["lo"]));
            world.converges(&mut client);
            let near = |program: &str| world.near.command(program);
            each_question_has_one_answer(near, (&world.end("west"), "192.0.2.1"));
            assert!(forwarded_by_kernel(world.name) > 0, "the kernel forwards there");
            drop(plain);
            world.finish();
        }
    }
}
