use super::*;

const FILE: &str = "[switch.core]\n[[router]]\nname = \"edge\"\ncontrol = {}\n\
    [[router.nic]]\nname = \"wan\"\nattach = \"tap:t0\"\naddress = \"192.0.2.1/24\"\n\
    [[router.nic]]\nname = \"core\"\nattach = \"switch:core\"\naddress = \"10.0.0.1/30\"\n";

#[test]
fn a_control_plane_is_told_once_which_nics_lack_a_carrier() {
    let plan = config::parse(FILE, "f.toml").expect("a good file");
    let mut controls = ControlPlanes::default();
    let (handle, orders) = Handle::overheard().expect("descriptors");
    controls.running.insert("edge".to_owned(), handle);
    let told = || match orders.next() {
        Ok(Some(Order::Cables(cables))) => Some(cables),
        Ok(None) => None,
        _ => panic!("another order"),
    };
    controls.show_cables(&plan, |_| (true, None));
    assert_eq!(told(), None, "a shadow begins with a carrier");
    controls.show_cables(&plan, |nic| (nic != "edge.wan", None));
    assert_eq!(told(), Some(Cables { lacking: ["wan".to_owned()].into(), ..Cables::default() }));
    controls.show_cables(&plan, |nic| (nic != "edge.wan", None));
    assert_eq!(told(), None, "nothing has changed");
    controls.show_cables(&plan, |_| (true, None));
    assert_eq!(told(), Some(Cables::default()));
}
