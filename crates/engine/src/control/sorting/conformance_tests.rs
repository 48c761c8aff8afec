//! A source whose frames are sorted out, in the conformance suite that every port passes: the suite's frames are for another station,
//! so none is for the control plane.

use conformance::check_source_behind;
use port::Null;

use super::*;

const OURS: [u8; 6] = [2, 0, 0, 0, 0, 7];

#[test]
fn what_is_for_nobody_here_comes_whether_the_cable_is_in_or_out() {
    for is_unplugged in [false, true] {
        check_source_behind(|source| {
            let punter = Punter {
                mac: OURS,
                virtual_nic: Some(0),
                is_unplugged: Arc::new(move || is_unplugged),
                own: Arc::default(),
                learned: Arc::default(),
                shadow: Arc::new(Null::new()),
                copies: Arc::new(Null::new()),
            };
            Box::new(PuntSource::new(source, punter, Arc::default()))
        });
    }
}
