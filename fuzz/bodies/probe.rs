//! Arbitrary frames of a member where the probes of a group come back. Finds panics, probes that are not known again, and frames that are probes
//! of two runs.
//!
//! The input is a probe in eight octets (member, NIC, NIC that it leaves by, number; an odd number is that of a probe through a strict
//! filter), then pairs of octets: a place of its frame, and the bits that change there. It is also taken as a frame itself.

use frame::ipv4;
use group::probe::{BACK, LEN, SOURCE, strict_source};
use group::{Member, Probes, Through};

/// Octets of the IPv4 header that change with each hop: time to live, protocol, checksum.
const HOP: usize = 22;

/// Runs one input.
pub(crate) fn run(input: &[u8]) {
    let (ours, theirs) = (Probes::new(1), Probes::new(2));
    assert!(ours.read(input).is_none() || theirs.read(input).is_none());
    let Some((&[m0, m1, nic, out, n0, n1, n2, n3], changes)) = input.split_first_chunk() else { return };
    let (member, number) = (Member(u16::from_be_bytes([m0, m1])), u32::from_be_bytes([n0, n1, n2, n3]));
    let through = Through { member, nic, number };
    let source = if number % 2 == 1 { strict_source(nic) } else { SOURCE };
    let mut octets = forwarded(ours.frame(through, source, out, BACK));
    assert_eq!((ours.read(&octets), theirs.read(&octets)), (Some(through), None));
    for &[at, bits] in changes.as_chunks::<2>().0 {
        octets[usize::from(at) % LEN] ^= bits;
        assert!(ours.read(&octets).is_none() || theirs.read(&octets).is_none());
    }
}

/// What a router makes of a probe: it has gone another hop.
fn forwarded(mut octets: [u8; LEN]) -> [u8; LEN] {
    let words = [octets[HOP], octets[HOP + 1], octets[HOP + 2], octets[HOP + 3]];
    octets[HOP..HOP + 4].copy_from_slice(&ipv4::age(words));
    octets
}
