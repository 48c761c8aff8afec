//! Routes and groups of zebra for which there is no room.

use super::*;

#[test]
fn routes_for_which_there_is_no_room_are_refused_until_zebra_sends_them_again() {
    let (mut rib, mut told, mut stream) = (Rib::with_room(8, 100), Told::default(), Stream::default());
    (0..10).for_each(|net| _ = stream.add(ten(net), By::Hop(hop(A, 1))));
    takes(&mut rib, &stream);
    told.update(&mut rib);
    assert_eq!((rib.len(), told.routes.len(), rib.is_short()), (8, 8, true));
    // Those that are there may change.
    takes(&mut rib, Stream::default().replace(ten(0), By::Hop(hop(B, 1))));
    takes(&mut rib, Stream::default().add(ten(1), By::Hop(hop(B, 1))));
    told.update(&mut rib);
    assert_eq!([0, 1].map(|net| told.hops(ten(net))), [Some(vec![hop(B, 1)]), Some(vec![hop(B, 1)])]);
    takes(&mut rib, Stream::default().delete(ten(0)));
    assert!(!rib.has_room_again(), "one more is too few to have everything sent again");
    takes(&mut rib, Stream::default().delete(ten(1)));
    assert!(rib.has_room_again());
    rib.mark();
    let mut stream = Stream::default();
    (2..10).for_each(|net| _ = stream.add(ten(net), By::Hop(hop(A, 1))));
    takes(&mut rib, &stream);
    told.update(&mut rib);
    assert_eq!((rib.len(), told.routes.len(), rib.stale(), rib.is_short()), (8, 8, 0, false));
    // Those of the kernel have nothing to do with it.
    rib.add_local(&kernel_route(ten(20), 0, 4, &[hop(B, 2)]));
    told.update(&mut rib);
    assert_eq!((rib.len(), told.hops(ten(20))), (8, Some(vec![hop(B, 2)])));
}

#[test]
fn a_destination_is_unreachable_while_there_is_no_room_for_its_next_hops() {
    let (mut rib, mut told, mut stream) = (Rib::with_room(100, 2), Told::default(), Stream::default());
    stream.add(ten(1), By::Hop(hop(A, 1))).hop(7, hop(B, 1)).add(ten(2), By::Group(7));
    stream.hop(8, hop(B, 2)).add(ten(3), By::Hop(hop(A, 2))).add(ten(4), By::Group(8));
    // These groups are there.
    stream.add(ten(5), By::Hop(hop(A, 1))).add(ten(6), By::Group(7));
    takes(&mut rib, &stream);
    told.update(&mut rib);
    let refused = Target::Refused(Refused::Room);
    assert_eq!([3, 4].map(|net| told.routes[&key(ten(net))]), [refused, refused]);
    assert_eq!([5, 6].map(|net| told.hops(ten(net))), [Some(vec![hop(A, 1)]), Some(vec![hop(B, 1)])]);
    assert!(rib.is_short() && !rib.has_room_again());
    takes(&mut rib, Stream::default().delete(ten(1)).delete(ten(5)));
    told.update(&mut rib);
    assert!(rib.has_room_again());
    takes(&mut rib, Stream::default().add(ten(3), By::Hop(hop(A, 2))));
    told.update(&mut rib);
    assert_eq!(told.hops(ten(3)), Some(vec![hop(A, 2)]));
}

#[test]
fn groups_of_the_former_session_take_no_room() {
    let (mut rib, mut told, mut stream) = (Rib::with_room(100, 2), Told::default(), Stream::default());
    stream.hop(7, hop(A, 1)).hop(8, hop(B, 1)).add(ten(1), By::Group(7)).add(ten(2), By::Group(8));
    takes(&mut rib, &stream);
    told.update(&mut rib);
    rib.mark();
    takes(&mut rib, &stream);
    told.update(&mut rib);
    assert_eq!((rib.is_short(), told.routes_changed, told.groups_changed), (false, 0, 0));
}
