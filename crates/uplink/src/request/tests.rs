use std::net::Ipv4Addr;

use super::{Name, sockaddr, socket_address};

#[test]
fn names_that_the_kernel_would_not_take_are_refused_with_the_reason() {
    let refused = [
        ("", "empty"),
        ("sixteen-octets-x", "longer than 15"),
        (".", "not allowed"),
        ("..", "not allowed"),
        ("a/b", "not allowed"),
        ("tap%d", "not allowed"),
        ("a b", "not allowed"),
        ("eth0:1", "not allowed"),
        ("a\0b", "not allowed"),
    ];
    for (name, why) in refused {
        let said = Name::new(name).expect_err(name).to_string();
        assert!(said.contains(why) && !said.contains('\n'), "{name:?}: {said}");
    }
    let fifteen = Name::new("fifteen-octets-").unwrap();
    assert_eq!(&fifteen.0, b"fifteen-octets-\0");
}

#[test]
fn a_socket_address_is_family_port_and_address() {
    let octets = socket_address(Ipv4Addr::new(192, 0, 2, 1));
    assert_eq!(octets, [2, 0, 0, 0, 192, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
    let address = sockaddr(octets);
    assert_eq!((address.sa_family, address.sa_data[2]), (2, 192u8 as libc::c_char));
}
