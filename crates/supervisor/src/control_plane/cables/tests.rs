use super::*;
use crate::control_plane::wanted;

/// A router with VLANs on a NIC that takes large packets, and a NIC that takes small ones.
fn router() -> Router {
    let text = "[[router]]\nname = \"edge\"\ncontrol = {}\n\
                [[router.nic]]\nname = \"wan\"\nattach = \"null\"\naddress = \"2001:db8::1/64\"\nmtu = 9000\n\
                [[router.nic]]\nname = \"lan\"\nattach = \"null\"\naddress = \"192.0.2.1/24\"\nmtu = 1000\n\
                [[router.interface]]\nname = \"guests\"\nnic = \"wan\"\nvlan = 7\naddress = \"2001:db8:7::1/64\"\n\
                [[router.interface]]\nname = \"staff\"\nnic = \"wan\"\nvlan = 8\naddress = \"10.0.8.1/24\"\nmtu = 1500\n";
    config::parse(text, "f.toml").expect("a good file").routers.remove(0)
}

/// MTUs of wan, lan, guests and staff where cables have these.
fn fitted(wan: Option<u32>, lan: Option<u32>) -> Vec<u32> {
    let (router, seen) = (router(), |nic: &str| (true, if nic == "edge.wan" { wan } else { lan }));
    let fitted = Cables::of(&router, seen).fit(&router);
    kernel_router::check(&wanted::of(&fitted)).expect("the kernel can have it");
    let nics = fitted.nics.iter().map(|nic| nic.mtu);
    nics.chain(fitted.forwarding.interfaces.iter().map(|own| own.mtu)).collect()
}

#[test]
fn an_interface_takes_what_its_cable_takes_and_never_more_than_the_file_says() {
    let whole = [9000, 1000, 9000, 1500];
    assert_eq!(fitted(None, None), whole, "nothing is known");
    assert_eq!(fitted(Some(9000), Some(1000)), whole);
    assert_eq!(fitted(Some(9216), Some(65535)), whole);
    assert_eq!(fitted(Some(4000), None), [4000, 1000, 4000, 1500]);
    assert_eq!(fitted(Some(1400), None), [1400, 1000, 1400, 1400]);
}

#[test]
fn ipv6_stays_unless_the_file_leaves_no_room_for_it() {
    assert_eq!(fitted(Some(68), Some(68)), [1280, 1000, 1280, 1280]);
    assert_eq!(fitted(Some(0), Some(0)), [1280, 1000, 1280, 1280]);
}

#[test]
fn only_what_a_cable_lacks_is_told() {
    let router = router();
    let cables = Cables::of(&router, |nic| (nic != "edge.wan", Some(1500)));
    let expected = Cables { lacking: ["wan".to_owned()].into(), narrow: [("wan".to_owned(), 1500)].into() };
    assert_eq!(cables, expected);
    assert_eq!(Cables::of(&router, |_| (true, Some(9000))), Cables::default());
}
