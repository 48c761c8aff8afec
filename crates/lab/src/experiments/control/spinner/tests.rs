use super::*;

#[test]
fn the_neighbour_spins_beside_what_is_promised() {
    let (promise, place) = (promise(12_345.6, 60), super::super::on(1));
    for lines in [format!("{place}{promise}"), format!("{place}{NEVER_IDLES}")] {
        let nics = "[[router.nic]]\nname = \"n\"\nattach = \"tap:t\"\naddress = \"192.0.2.1/24\"\n";
        let text = format!("[[router]]\nname = \"r\"\n{lines}{nics}");
        let plan = config::parse(&text, "lab").unwrap();
        let router = &plan.routers[0];
        let spins = router.role == config::Role::Hostile(config::Misdeed::Spin);
        assert_ne!(router.guarantee.is_some(), spins, "{lines}");
    }
}
