use crate::parse;
use crate::tests::errors_of;

/// A file whose only NIC has these lines.
fn file(lines: &str) -> String {
    format!("[[router]]\nname = 'a'\n[[router.nic]]\nname = 'x'\nattach = 'null'\n{lines}")
}

#[test]
fn a_nic_has_addresses_of_both_families() {
    let text = file("address = ['192.0.2.1/24', '2001:db8::1/64', 'fe80::1/64']\n");
    let plan = parse(&text, "f.toml").expect("a good file");
    let nic = &plan.routers[0].nics[0];
    assert_eq!(nic.addresses.len(), 1);
    let six: Vec<String> = nic.six.addresses.iter().map(ToString::to_string).collect();
    assert_eq!(six, ["2001:db8::1/64", "fe80::1/64"]);
    assert_eq!(nic.six.advertise, None);
}

#[test]
fn what_cannot_be_an_own_address() {
    let cases = [
        ("2001:db8::1", "is not an IPv6 address with a prefix length"),
        ("2001:db8::1/129", "is not an IPv6 address with a prefix length"),
        ("::1/128", "cannot be a router's own address"),
        ("ff02::1/64", "cannot be a router's own address"),
        ("::ffff:10.0.0.1/128", "cannot be a router's own address"),
        ("2001:db8::1/0", "is every network at once"),
        ("fe80::1/10", "the prefix of a link-local address has 64 bits"),
        ("2001:db8::/64", "is the address of all routers of its network"),
    ];
    for (address, expected) in cases {
        let errors = errors_of(&file(&format!("address = '{address}'\n")));
        assert!(
            errors.starts_with("f.toml:6: router.nic.address: ") && errors.contains(expected),
            "{errors}"
        );
    }
    for address in ["2001:db8::/127", "2001:db8::/128", "2001:db8::1/127"] {
        assert!(parse(&file(&format!("address = '{address}'\n")), "f.toml").is_ok(), "{address}");
    }
    let errors = errors_of(&file("mtu = 1200\naddress = '2001:db8::1/64'\n"));
    assert!(errors.contains("1200 is too small for IPv6"), "{errors}");
}

#[test]
fn router_advertisements_have_defaults() {
    let text = file("address = ['2001:db8::1/64', '2001:db8:1::1/48']\n[router.nic.ra]\n");
    let plan = parse(&text, "f.toml").expect("a good file");
    let wanted = plan.routers[0].nics[0].six.advertise.clone().expect("it advertises");
    assert_eq!((wanted.interval, wanted.least_interval(), wanted.lifetime), (600, 200, 1800));
    assert_eq!((wanted.valid, wanted.preferred, wanted.hop_limit), (86_400, 14_400, 64));
    assert_eq!((wanted.managed, wanted.other, wanted.mtu), (false, false, true));
    let prefixes: Vec<String> = wanted.prefixes.iter().map(ToString::to_string).collect();
    assert_eq!(prefixes, ["2001:db8::/64"], "hosts form addresses in 64 bits");
}

#[test]
fn router_advertisements_as_the_file_says() {
    let ra = "[router.nic.ra]\ninterval = 30\nlifetime = 0\nmanaged = true\nmtu = false\nprefix = '2001:db8:9::/64'\n\
              valid = 100\npreferred = 50\ndns = ['2001:db8::53', '2001:db8::54']\n";
    let plan = parse(&file(&format!("address = '2001:db8::1/64'\n{ra}")), "f.toml").expect("a good file");
    let wanted = plan.routers[0].nics[0].six.advertise.clone().expect("it advertises");
    let expected = "interval 30 lifetime 0 hop_limit 64 managed prefix 2001:db8:9::/64 valid 100 preferred 50 \
                    dns 2001:db8::53 dns 2001:db8::54";
    assert_eq!(wanted.to_string(), expected);
}

#[test]
fn wrong_router_advertisements() {
    let cases = [
        ("", "", "router.nic.ra: the NIC has no IPv6 address to advertise"),
        ("address = '2001:db8::1/64'\n", "intervall = 5\n", "did you mean \"interval\"?"),
        ("address = '2001:db8::1/64'\n", "interval = 3\n", "3 is out of range; write 4 to 1800"),
        ("address = '2001:db8::1/64'\n", "lifetime = 5\n", "5 s are over before the next advertisement"),
        ("address = '2001:db8::1/64'\n", "valid = 5\npreferred = 6\n", "6 s are more than the 5 s"),
        ("address = '2001:db8::1/64'\n", "prefix = '2001:db8::1/64'\n", "is not an IPv6 prefix"),
        ("address = '2001:db8::1/64'\n", "dns = '192.0.2.1'\n", "is not an IPv6 address"),
    ];
    for (address, ra, expected) in cases {
        let errors = errors_of(&file(&format!("{address}[router.nic.ra]\n{ra}")));
        assert!(errors.contains(expected), "{errors}");
    }
}
