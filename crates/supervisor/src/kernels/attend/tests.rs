//! Events about interfaces that have gone.

use super::*;

#[test]
fn only_what_can_be_made_again_is_said_to_be() {
    let text = "[[router]]\nname = \"edge\"\nengine = \"kernel\"\n\
        [[router.nic]]\nname = \"wan\"\nattach = \"veth:rr-wan\"\n\
        [[router.nic]]\nname = \"lan\"\nattach = \"macvlan:eth0\"\n\
        [[router.nic]]\nname = \"far\"\nattach = \"link:eth1\"\n";
    let seen = |is_in: Option<bool>| {
        let nics = ["wan", "lan", "far"].map(|nic| (nic.to_owned(), is_in));
        Seen { nics: nics.into(), ..Seen::default() }
    };
    let made = "its interface was deleted; it is created again as soon as possible";
    let lost = "its interface is no longer in the container; give it its own name on the host, and restart the router";
    for (engine, of_far) in [("kernel", made), ("lxc", lost)] {
        let plan = config::parse(&text.replace("kernel", engine), "x.toml")
            .unwrap_or_else(|errors| panic!("{errors}"));
        let lines = news(&plan.routers[0], &seen(Some(true)), &seen(None));
        let lines: Vec<String> = lines.into_iter().map(|(_, line)| line).collect();
        let expected = [("far", of_far), ("lan", made), ("wan", made)];
        assert_eq!(lines, expected.map(|(nic, what)| format!("NIC {nic}: {what}")));
    }
}

#[test]
fn a_vrf_is_called_one() {
    let text = "[[router]]\nname = \"edge\"\nengine = \"kernel\"\n\
        [[router.nic]]\nname = \"wan\"\nattach = \"veth:rr-wan\"\nvrf = \"red\"\n";
    let plan = config::parse(text, "x.toml").unwrap_or_else(|errors| panic!("{errors}"));
    let seen = |red: Option<bool>| {
        let nics = [("wan", Some(true)), ("red", red)].map(|(nic, is_in)| (nic.to_owned(), is_in));
        Seen { nics: nics.into(), ..Seen::default() }
    };
    let lines = news(&plan.routers[0], &seen(Some(true)), &seen(None));
    let lines: Vec<String> = lines.into_iter().map(|(_, line)| line).collect();
    assert_eq!(lines, ["VRF red: its interface was deleted; it is created again as soon as possible"]);
}
