//! A link whose other end is down.

use super::*;

mod all {
    use super::*;

    /// The network of a link that has no carrier is reached by nobody. That the neighbour behind it is silent would not tell.
    #[test]
    fn the_network_of_a_link_without_carrier_is_withdrawn_until_it_has_one() {
        needs!(Root, Tun, Program("ip"), Program("busybox"), Program("vtysh"));
        let (west, east, link) = ("t45-w9", "t45-e9", "10.0.23.2");
        let quick = |id, links: &[&str], passive: &[&str]| ospf(id, links, passive) + QUICK;
        let chain =
            Chain::start((west, &quick(1, &["core"], &["lan"])), (east, &quick(2, &["core", "out"], &[])));
        let plain = Plain::start(&chain.plain, &quick(3, &[east], &["lo"]));
        let mut client = chain.client();
        wait_for_route(&mut client, west, (FAR, "ospf"));
        wait_for_route(&mut client, west, (link, "ospf"));
        chain.plain.ip(&["link", "set", east, "down"]).expect("set");
        wait_for("the withdrawal", || route(&mut client, west, link).is_none().then_some(()));
        wait_for("that of what is behind it", || route(&mut client, west, FAR).is_none().then_some(()));
        chain.plain.ip(&["link", "set", east, "up"]).expect("set");
        wait_for_route(&mut client, west, (FAR, "ospf"));
        wait_for_answer(&chain.near, FAR);
        drop(plain);
        chain.stage.finish_troubled(vec![chain.near, chain.plain]).expect("nothing is left");
    }
}
