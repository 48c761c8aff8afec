//! The reverse-path filter, on the slow and on the hot path.

use router::ReversePath;

use crate::world::*;

fn lab(reverse_path: ReversePath) -> Lab {
    let mut lab = Lab::wanted(table(), &Wanted { reverse_path, ..USUAL });
    (0..3).for_each(|nic| drop(lab.world.sent(nic)));
    lab
}

#[test]
fn a_source_needs_a_way_back() {
    let to = ip(192, 168, 1, 1);
    // Sources behind NIC 0, behind NIC 2, without a route, and whose route refuses packets.
    let sources = [ip(10, 0, 0, 2), ip(172, 16, 0, 9), ip(11, 1, 1, 1), ip(22, 1, 0, 1)];
    for (wanted, passing) in [(ReversePath::Off, 4), (ReversePath::Loose, 2), (ReversePath::Strict, 1)] {
        let mut lab = lab(wanted);
        // Twice: at first the header is not prepared.
        for _ in 0..2 {
            for source in sources {
                lab.push(0, ipv4_frame(0, udp_header(source, to, 18), &datagram(18)));
            }
            assert_eq!(lab.world.sent(1).len(), passing, "{wanted:?}");
        }
        lab.only_drop("drop_reverse_path", 2 * (4 - passing as u64));
        assert!((0..3).all(|nic| lab.world.sent(nic).is_empty()), "no one is told");
    }
}
