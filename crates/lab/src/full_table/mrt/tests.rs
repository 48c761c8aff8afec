use super::*;

/// A record: its subtype, and what follows its header.
fn records(octets: &[u8]) -> Vec<(u16, &[u8])> {
    let (mut found, mut rest) = (Vec::new(), octets);
    while let Some((head, body)) = rest.split_first_chunk::<12>() {
        let [_, _, _, _, kind, version, high, low, a, b, c, d] = *head;
        assert_eq!(u16::from_be_bytes([kind, version]), TABLE_DUMP_V2);
        let (own, next) = body.split_at(u32::from_be_bytes([a, b, c, d]) as usize);
        found.push((u16::from_be_bytes([high, low]), own));
        rest = next;
    }
    assert!(rest.is_empty());
    found
}

fn written(routes: &[TableRoute], hops: &[IpAddr]) -> io::Result<Vec<u8>> {
    let mut octets = Vec::new();
    Dump { routes, hops, transit: 2 }.write(&mut octets)?;
    Ok(octets)
}

#[test]
fn a_dump_is_a_table_of_peers_and_a_record_for_each_route() {
    let routes = [
        TableRoute { to: [198, 51, 96, 0].into(), len: 20, hop: 1 },
        TableRoute { to: IpAddr::from([0x2400, 7, 0, 0, 0, 0, 0, 0]), len: 32, hop: 3 },
    ];
    let hops: [IpAddr; 3] =
        [[10, 0, 1, 2].into(), [10, 0, 1, 3].into(), IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 2])];
    let octets = written(&routes, &hops).expect("written");
    let [(PEER_INDEX_TABLE, peers), (RIB_IPV4_UNICAST, four), (RIB_IPV6_UNICAST, six)] = records(&octets)[..]
    else {
        panic!("{octets:02x?}")
    };
    assert_eq!(peers.len(), 4 + 2 + 2 + 1 + 4 + 4 + 4);
    // Sequence number, prefix, one path by peer 0.
    assert_eq!(four[..4 + 4 + 4], [0, 0, 0, 0, 20, 198, 51, 96, 0, 1, 0, 0]);
    let attributes = &four[12 + 4 + 2..];
    assert_eq!(attributes.len(), 4 + (3 + 2 + 3 * 4) + 7);
    assert_eq!(attributes[..4], [0x40, 1, 1, 0], "origin");
    assert_eq!(attributes[4..9], [0x40, 2, 14, 2, 3], "a path of three");
    assert_eq!(attributes[attributes.len() - 7..], [0x40, 3, 4, 10, 0, 1, 3], "the second next hop");
    assert_eq!(six[..9], [0, 0, 0, 1, 32, 0x24, 0, 0, 7]);
    let reach = &six[six.len() - 24..];
    assert_eq!(reach[..7], [0x80, 14, 21, 0, 2, 1, 16]);
    assert_eq!((reach[7], reach[22], reach[23]), (0x20, 2, 0));
}

#[test]
fn a_family_without_a_next_hop_is_refused() {
    let route = TableRoute { to: [198, 51, 96, 0].into(), len: 20, hop: 0 };
    let six = [IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 2])];
    assert_eq!(written(&[route], &six).expect_err("no way").kind(), ErrorKind::InvalidInput);
}
