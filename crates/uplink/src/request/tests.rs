use super::Name;

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
