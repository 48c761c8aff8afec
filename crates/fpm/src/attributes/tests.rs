use super::*;

fn attribute(number: u16, value: &[u8]) -> Vec<u8> {
    let len = (HEADER + value.len()) as u16;
    let mut octets = [&len.to_ne_bytes()[..], &number.to_ne_bytes(), value].concat();
    octets.resize(octets.len().next_multiple_of(4), 0);
    octets
}

#[test]
fn attributes_are_padded_to_words() {
    let octets = [attribute(1, &[9]), attribute(0x8002, &[1, 2, 3, 4])].concat();
    let found: Vec<_> = attributes(&octets).collect();
    assert_eq!(
        found,
        [Ok((1, [9].as_slice())), Ok((2, [1, 2, 3, 4].as_slice()))],
        "flags are no part of the number"
    );
    let unpadded = &attribute(1, &[9])[..5];
    assert_eq!(attributes(unpadded).collect::<Vec<_>>(), [Ok((1, [9].as_slice()))]);
}

#[test]
fn a_wrong_length_ends_them() {
    for len in [0u16, 3] {
        let mut octets = [attribute(1, &[0; 4]), attribute(2, &[0; 4])].concat();
        octets[..2].copy_from_slice(&len.to_ne_bytes());
        assert_eq!(attributes(&octets).collect::<Vec<_>>(), [Err(BadLength)]);
    }
    let mut long = attribute(1, &[0; 4]);
    long[..2].copy_from_slice(&200u16.to_ne_bytes());
    assert_eq!(attributes(&long).collect::<Vec<_>>(), [Err(BadLength)]);
}

#[test]
fn the_length_tells_the_family() {
    assert_eq!(address(&[192, 0, 2, 1]), Ok(IpAddr::from([192, 0, 2, 1])));
    assert_eq!(address(&Ipv6Addr::LOCALHOST.octets()), Ok(Ipv6Addr::LOCALHOST.into()));
    assert_eq!(address(&[1, 2, 3]), Err(BadLength));
    assert_eq!(via(&[2, 0, 192, 0, 2, 1]), Ok(IpAddr::from([192, 0, 2, 1])));
    assert_eq!(via(&[2]), Err(BadLength));
    assert_eq!((number(&[1, 2, 3]), short(&[1])), (Err(BadLength), Err(BadLength)));
}
