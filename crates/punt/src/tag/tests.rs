use proptest::prelude::*;

use super::*;

#[test]
fn a_tag_of_another_version_or_with_senseless_fields_is_none() {
    let tag = Tag { nic: 3, vlan: 100, class: Class::Routing };
    let octets = tag.octets();
    assert_eq!(octets, [1, 3, 1, 0, 0, 100, 0, 0]);
    assert_eq!(Tag::parse(&octets), Some((tag, &[][..])));
    assert_eq!(Tag::parse(&octets[..7]), None);
    for (at, octet) in [(0, 2), (2, 5), (3, 1), (4, 0x10), (6, 1), (7, 1)] {
        let mut wrong = octets;
        wrong[at] = octet;
        assert_eq!(Tag::parse(&wrong), None, "{at}");
    }
}

proptest! {
    #[test]
    fn tags_are_read_as_they_were_written(nic: u8, vlan in 0u16..=4094, class in 0usize..5, frame: [u8; 5]) {
        let tag = Tag { nic, vlan, class: Class::ALL[class] };
        let octets = [&tag.octets()[..], &frame].concat();
        prop_assert_eq!(Tag::parse(&octets), Some((tag, &frame[..])));
    }
}
