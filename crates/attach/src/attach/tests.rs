use super::*;

#[test]
fn each_kind_goes_over_the_wire_and_comes_back_as_itself() {
    for kind in ALL {
        let attach =
            Attach { keys: [("socket".to_owned(), "listen".to_owned())].into(), ..Attach::of(&kind.form()) };
        let text = serde_json::to_string(&attach).expect("text");
        assert_eq!(serde_json::from_str::<Attach>(&text).expect("itself"), attach);
        assert_eq!((attach.kind(), attach.name()), (kind.word, kind.behind.unwrap_or_default()));
    }
    assert_eq!(Attach::handed("v.sock").to_string(), "vhost-user-frontend:v.sock");
    assert_eq!(Attach::null().to_string(), "null");
}

#[test]
fn what_stands_on_an_interface_or_a_tap_has_no_napi_of_its_own() {
    let has_napi = |attach: &str| Attach::read(attach).expect("it is read").has_napi();
    for attach in ["veth:a", "tap:a", "bridge:a", "link:a", "vf:a"] {
        assert!(has_napi(attach), "{attach}");
    }
    for attach in ["macvlan:a", "switch:a", "macvtap:a", "xdp:a", "null"] {
        assert!(!has_napi(attach), "{attach}");
    }
}
