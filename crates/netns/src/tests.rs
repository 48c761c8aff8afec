use super::*;

#[test]
fn a_name_is_that_of_a_file() {
    let longest = "n".repeat(255);
    for name in ["edge", "lab.edge-1", "a", longest.as_str()] {
        assert_eq!(check_name(name), Ok(()), "{name}");
    }
    let too_long = "n".repeat(256);
    for name in ["", ".", "..", "a/b", "a b", "a\n", too_long.as_str()] {
        assert!(check_name(name).is_err(), "{name}");
        assert!(matches!(Namespace::open_named(name), Err(Error::Name { .. })), "{name}");
    }
}

#[test]
fn errors_are_one_line_that_says_what_to_do() {
    let missing = Namespace::open_named("ringroad-none-such").expect_err("none").to_string();
    assert!(missing.contains("`ip netns add ringroad-none-such`"), "{missing}");
    let refused = Namespace::open("/no/such/file").expect_err("none").to_string();
    assert!(refused.contains("/no/such/file") && !refused.contains('\n'), "{refused}");
    let denied = Error::system("doing it", rustix::io::Errno::PERM).to_string();
    assert_eq!(denied, "doing it: not permitted; run as root (CAP_SYS_ADMIN and CAP_NET_ADMIN)");
}

#[test]
fn what_tells_namespaces_apart_can_be_written_down() {
    let id = Id { device: 4, inode: 4_026_532_000 };
    let text = serde_json::to_string(&id).expect("JSON");
    assert_eq!(serde_json::from_str::<Id>(&text).expect("an id"), id);
}
