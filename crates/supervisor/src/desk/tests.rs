use api::Request;

use super::topic;

#[test]
fn what_lasts_is_told_from_what_does_not() {
    let router = || "edge".to_owned();
    let set = |key: &str| Request::Set { router: router(), key: key.to_owned(), value: "1".to_owned() };
    assert_ne!(topic(&set("pin.vcpu")), topic(&set("pin.vhost")));
    assert_eq!(topic(&Request::Stop { name: router() }), topic(&Request::Start { router: router() }));
    assert!(topic(&set("spin")).is_some());
    assert_eq!(topic(&Request::Restart { router: router() }), None);
    assert_eq!(topic(&Request::Ps {}), None);
}
