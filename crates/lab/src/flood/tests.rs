use super::*;

#[test]
fn the_frame_is_for_the_router_and_behind_it_for_whom_it_was_meant() {
    let to = Ipv4Addr::new(198, 51, 100, 9);
    let target = Target { interface: "x".to_owned(), mac: [2, 0, 0, 0, 0, 7], to, rate: None };
    let octets = frame_of(&target).unwrap();
    assert_eq!((octets.len(), &octets[..6], &octets[30..34]), (FRAME, &target.mac[..], &to.octets()[..]));
}
