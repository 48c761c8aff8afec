//! Hosts are told of a router that is stopped, not of one that is restarted.

use engine::Plugs;
use port::pair::{PairPort, pair};
use port::{Frame, Source};

use crate::known::Known;
use crate::traffic::alone;

const FILE: &str = "[[router]]\nname = 'edge'\n[[router.nic]]\nname = 'lan'\nattach = 'null'\n\
                    address = '2001:db8:1::1/64'\n[router.nic.ra]\n";
/// Frames in the wire.
const WIRE: u32 = 1024;
/// Type of router advertisements, and where in a frame it is; then the lifetime of the router (RFC 4861, 4.2).
const ADVERT: (usize, [u8; 1]) = (54, [134]);
const LAST: (usize, [u8; 2]) = (60, [0, 0]);

/// Reads what has come; returns true if a last advertisement is among it.
fn is_told(far: &mut PairPort) -> bool {
    let is_last = |frame: &Frame<'_>| {
        let octets = frame.octets();
        octets.read(12) == Some([0x86, 0xdd])
            && octets.read(ADVERT.0) == Some(ADVERT.1)
            && octets.read(LAST.0) == Some(LAST.1)
    };
    let mut is_told = false;
    let mut take = |frames: &[Frame<'_>]| is_told |= frames.iter().any(is_last);
    while far.source.drain(64, &mut take) > 0 {}
    is_told
}

#[test]
fn a_router_that_is_stopped_says_so_and_one_that_is_restarted_does_not() {
    let _turn = alone();
    let Some(known) = Known::new() else { return };
    let (near, mut far) = pair(WIRE).expect("a wire");
    let plugs = Plugs::from([("edge.lan".to_owned(), attach::port(Box::new(near.source), near.sink))]);
    let mut instance = known.start(FILE, plugs);
    instance.restart_router("edge").expect("it starts again");
    assert!(!is_told(&mut far), "it is still their router");
    instance.stop_router("edge").expect("it stops");
    assert!(is_told(&mut far));
}
