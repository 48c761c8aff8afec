//! Objective: nothing of a neighbour is in the memory of a router's process, and it holds no lock of another one.

use super::*;

/// A tenant with names and numbers that occur nowhere else by chance: a router at two TAPs and a socket, which shares its CPU.
struct Tenant {
    name: &'static str,
    net: &'static str,
    mac: [u8; 6],
}

impl Tenant {
    fn mac(&self) -> String {
        self.mac.map(|octet| format!("{octet:02x}")).join(":")
    }

    fn file(&self, more: &str) -> String {
        let Self { name, net, .. } = self;
        format!(
            "[[router]]\nname = '{name}'\nengine = 'kvm'\nisolate = 'process'\npin = {{ vcpu = '0', vhost = '0' }}\n\
             [[router.nic]]\nname = 'west'\nattach = 'tap:{name}-w'\naddress = '{net}.1/24'\nmac = '{}'\n\
             [[router.nic]]\nname = 'guest'\nattach = 'vhost-user-backend:{name}.sock'\n{more}",
            self.mac()
        )
    }

    /// Data that reveals the tenant, each with a description and its octets in memory.
    fn traces(&self) -> Vec<(String, Vec<u8>)> {
        let Self { name, net, mac } = self;
        let text = |what, text: &str| (format!("{name}: {what}"), text.as_bytes().to_vec());
        vec![
            text("name", name),
            text("address", &format!("{net}.1")),
            text("socket", &format!("{name}.sock")),
            text("MAC as text", &self.mac()),
            (format!("{name}: MAC"), mac.to_vec()),
        ]
    }
}

/// Names under `/run/ringroad` on which a process holds a lock.
fn locks(pid: u32) -> Vec<String> {
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("it runs").flatten();
    let paths = open.filter_map(|entry| std::fs::read_link(entry.path()).ok()?.to_str().map(str::to_owned));
    paths.filter_map(|path| path.strip_prefix("/run/ringroad/").map(str::to_owned)).collect()
}

mod all {
    use super::*;

    #[test]
    fn it_has_nothing_of_a_neighbour_in_its_memory() {
        support::needs!(Root, Kvm);
        let tenants = [
            Tenant { name: "jxqz-one", net: "10.227.31", mac: [0x02, 0x9b, 0x5e, 0xc7, 0x31, 0xd4] },
            Tenant { name: "vkwf-two", net: "10.193.57", mac: [0x06, 0xe3, 0x8d, 0x7a, 0xf5, 0xb9] },
        ];
        let [one, two] = &tenants;
        let mut stage = Stage::start(RINGROAD, &(one.file("") + &two.file(""))).expect("it starts");
        stage.run().wait_for_line(PATIENCE, |line| line.contains("counters")).expect("it comes up");
        for tenant in &tenants {
            wait_until(&stage, tenant.name, |now| now["state"] == "running");
            // Information requested about one tenant does not reach the other.
            ask(&stage, &["show", tenant.name]);
            ask(&stage, &["top", tenant.name, "--once", "--json"]);
            // A setting that differs from the file would be undone by `apply`, so it is set back.
            for word in ["spin=20us", "spin=50us"] {
                ask(&stage, &["set", tenant.name, word]);
            }
        }
        let routed = |tenant: &Tenant| {
            tenant.file(&format!("[[router.route]]\nto = '203.0.113.0/24'\nvia = '{}.2'\n", tenant.net))
        };
        std::fs::write(stage.path("next.toml"), routed(one) + &routed(two)).expect("written");
        let told = ask(&stage, &["apply", "next.toml"]);
        let all: Vec<_> = tenants.iter().flat_map(Tenant::traces).collect();
        let all: Vec<_> = all.iter().map(|(what, octets)| (what.as_str(), octets.clone())).collect();
        let held = |process: u32| Process::look(process).expect("it runs").holds(&all).expect("its memory");
        let plane = number(&status(&stage, one.name), "data_plane");
        // The plan is transmitted as octets.
        let known = |what: &str| held(plane).contains(what) || what.ends_with("MAC as text");
        assert!(all.iter().all(|(what, _)| known(what)), "whoever serves both knows both: {:?}", held(plane));
        assert_eq!(locks(plane).len(), 4, "{:?}", locks(plane));
        for (own, other) in [(one, two), (two, one)] {
            let Tenant { name, .. } = own;
            assert!(told.contains(&format!("router {name}: route 203.0.113.0/24")), "{told}");
            let process = process_of(&stage, name);
            let held = held(process);
            for what in ["name", "MAC"] {
                assert!(held.contains(format!("{name}: {what}").as_str()), "{held:?}");
            }
            assert!(
                !held.iter().any(|what| what.starts_with(other.name)),
                "in the process of {name}: {held:?}"
            );
            assert_eq!(locks(process), [format!("routers/{name}")]);
        }
        stage.finish_troubled(Vec::new()).expect("nothing is left");
    }
}
