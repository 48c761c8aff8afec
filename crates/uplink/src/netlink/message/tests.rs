use super::*;

#[test]
fn a_request_is_laid_out_as_the_kernel_reads_it() {
    let message = Message::link(libc::RTM_NEWLINK, libc::NLM_F_CREATE, 7, 1)
        .with(libc::IFLA_IFNAME, b"abc\0")
        .with(libc::IFLA_LINKINFO, Attributes::default().with(libc::IFLA_INFO_KIND, b"macvtap").octets());
    let mut expected = Vec::new();
    expected.extend(56u32.to_ne_bytes());
    expected.extend(16u16.to_ne_bytes());
    expected.extend((0x0001u16 | 0x0004 | 0x0400).to_ne_bytes());
    expected.extend([0; 8]);
    expected.extend([0; 4]);
    for word in [7u32, 1, 1] {
        expected.extend(word.to_ne_bytes());
    }
    expected.extend([8, 0, 3, 0, b'a', b'b', b'c', 0]);
    expected.extend([16, 0, 18, 0, 11, 0, 1, 0]);
    expected.extend(b"macvtap\0");
    assert_eq!(message.octets(), expected);
}

#[test]
fn an_acknowledgement_is_an_error_of_0() {
    let datagram = |kind: u16, error: i32| {
        let mut octets = vec![0; HEADER];
        octets[4..6].copy_from_slice(&kind.to_ne_bytes());
        octets.extend(error.to_ne_bytes());
        octets
    };
    assert!(matches!(answer(&datagram(2, 0)), Some(Ok(()))));
    let refused = answer(&datagram(2, -libc::EBUSY)).expect("an answer").expect_err("an error");
    assert_eq!(refused.raw_os_error(), Some(libc::EBUSY));
    assert!(answer(&datagram(16, 0)).is_none(), "news about a link");
    assert!(answer(&datagram(2, 0)[..18]).is_none() && answer(&[]).is_none());
    assert!(answer(&datagram(2, i32::MIN)).is_some_and(|answer| answer.is_err()));
}

#[test]
fn an_attribute_is_found_behind_others() {
    let message =
        Message::link(libc::RTM_NEWLINK, 0, 7, 0).with(libc::IFLA_IFNAME, b"ab\0").with(20, b"ours");
    assert_eq!(attribute(message.octets(), 20), Some(&b"ours"[..]));
    assert_eq!(attribute(message.octets(), 21), None);
    let mut endless = message.octets().to_vec();
    endless[32..34].copy_from_slice(&[0, 0]);
    assert_eq!(attribute(&endless, 20), None, "an attribute without a length");
    assert_eq!(attribute(&message.octets()[..41], 20), None);
}
