//! Static neighbours that somebody enters in the namespace of a control plane.

use std::net::Ipv4Addr;

use super::*;

const ROUTER: &str = "t45-n";
/// Address of a host that answers no question for it.
const SILENT: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 77);

/// Changes the neighbours of the namespace, once it is there.
fn neighbour(words: &[&str]) {
    wait_for(&format!("ip neighbour {}", words.join(" ")), || {
        let mut command = Command::new(RINGROAD);
        let command = command.args(["exec", ROUTER, "--", "ip", "neighbour"]).args(words);
        run(command, PATIENCE).expect("it ends").status.success().then_some(())
    });
}

/// Ethernet address of a host.
fn mac_of(host: &Namespace, link: &str) -> String {
    let shown = host.ip(&["-o", "link", "show", link]).expect("its link");
    let (_, rest) = shown.split_once("link/ether ").expect("an Ethernet address");
    rest.split_whitespace().next().expect("an Ethernet address").to_owned()
}

/// Returns true if the silent host answers one ping.
fn answers(host: &Namespace) -> bool {
    support::answers(host.command("busybox"), &[&SILENT.to_string()])
}

/// Sends pings until the router has given up one more neighbour that it has asked for.
fn one_more_fails(stage: &Stage, host: &Namespace) {
    let failed = || {
        let counters = stage.wait_for_counters(|_| true).expect("counters");
        counters.get(&format!("{ROUTER}.vcpu0.neighbours_failed"))
    };
    let before = failed();
    wait_for("it asks in vain", || {
        answers(host);
        (failed() > before).then_some(())
    });
}

fn a_neighbour_that_is_entered_is_the_routers_until_it_is_removed(engine: &str) {
    let text = format!(
        "[[router]]\nname = \"{ROUTER}\"\nengine = \"{engine}\"\ncontrol = {{}}\n\
         [[router.nic]]\nname = \"west\"\nattach = \"tap:t45-nw\"\naddress = \"192.0.2.1/24\"\n\
         [[router.nic]]\nname = \"east\"\nattach = \"tap:t45-ne\"\naddress = \"198.51.100.1/24\"\n"
    );
    let mut stage = Stage::start(RINGROAD, &text).expect("it starts");
    let west = stage.host("t45-nw", "192.0.2.2/24", "192.0.2.1").expect("west");
    let east = stage.host("t45-ne", "198.51.100.2/24", "198.51.100.1").expect("east");
    east.set("net.ipv4.conf.all.arp_ignore", "1").expect("set");
    let silent = SILENT.to_string();
    east.ip(&["address", "add", &format!("{silent}/32"), "dev", "lo"]).expect("an address");
    one_more_fails(&stage, &west);
    assert!(!answers(&west), "nobody has said where it is");
    let mac = mac_of(&east, "t45-ne");
    neighbour(&["replace", &silent, "lladdr", &mac, "nud", "permanent", "dev", "east"]);
    wait_for_answer(&west, &silent);
    neighbour(&["delete", &silent, "dev", "east"]);
    one_more_fails(&stage, &west);
    stage.finish_troubled(vec![west, east]).expect("nothing is left");
}

mod all {
    use super::*;

    #[test]
    fn a_process_has_the_static_neighbours_of_its_namespace() {
        needs!(Root, Tun, Program("ip"), Program("busybox"));
        a_neighbour_that_is_entered_is_the_routers_until_it_is_removed("process");
    }

    #[test]
    fn a_virtual_machine_has_the_static_neighbours_of_its_namespace() {
        needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
        a_neighbour_that_is_entered_is_the_routers_until_it_is_removed("kvm");
    }
}
