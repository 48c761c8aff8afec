//! The way out of a NIC that may have addresses of virtual routers, in the conformance suite that every port passes: none of the
//! suite's frames tells an address, so all come as they are.

use config::learned::{LearnedMac, Lesson};
use conformance::check_sink_before;

use super::*;

/// Those at a NIC where the router is the master of this many virtual routers.
fn names(count: u8) -> Arc<Names> {
    let learned = Arc::<Learned>::default();
    let mac = |number| LearnedMac {
        nic: 0,
        mac: [0, 0, 0x5e, 0, 1, number],
        ips: vec![Ipv4Addr::new(192, 0, 2, number).into()],
    };
    learned.take(&Lesson { macs: Some((0..count).map(mac).collect()), ..Lesson::default() });
    Arc::new(Names::new(learned, 0))
}

#[test]
fn a_way_out_with_virtual_routers_and_without_is_a_sink() {
    for (count, speaker) in [(0, Speaker::Router), (2, Speaker::Router), (2, Speaker::Control)] {
        let names = names(count);
        assert_eq!(names.has_some(), count > 0);
        check_sink_before(|sink| naming(sink, Some(&names), speaker));
    }
}
