use kernel_router::RouterConfig;

use super::*;
use crate::tests::fake_backend::FakeBackend;

fn wanted(name: &str, ttl: u32) -> Spec {
    let mut wanted = RouterConfig::new(name, Vec::new());
    wanted.sysctls.insert("net/ipv4/ip_default_ttl".to_owned(), ttl.to_string());
    Spec {
        wanted,
        container: None,
        functions: Vec::new(),
        limit: None,
        drop_reasons: false,
        adverts: Vec::new(),
    }
}

/// The calls that were made, such as `make a`.
fn done(played: &FakeBackend) -> Vec<String> {
    played.done()
}

#[test]
fn those_that_go_go_first_and_those_that_stay_are_left_alone() {
    let (played, mut backend) = FakeBackend::new();
    let from = [wanted("a", 1), wanted("b", 1), wanted("c", 1)];
    let to = [wanted("d", 1), wanted("b", 1), wanted("a", 2)];
    change(&mut *backend, &[], &from).expect("nothing refuses");
    played.forget();
    change(&mut *backend, &from, &to).expect("nothing refuses");
    assert_eq!(done(&played), ["end c", "make d", "make a"]);
    assert_eq!(played.running(), ["a", "b", "d"]);
}

#[test]
fn what_one_refuses_takes_everything_back() {
    let (played, mut backend) = FakeBackend::new();
    let from = [wanted("a", 1), wanted("b", 1), wanted("c", 1)];
    change(&mut *backend, &[], &from).expect("nothing refuses");
    let before = played.state();
    played.refuse("make e");
    let to = [wanted("a", 2), wanted("d", 1), wanted("e", 1)];
    let refusal = change(&mut *backend, &from, &to).expect_err("e is refused");
    assert_eq!(refusal.to_string(), "make e is refused");
    assert_eq!(played.state(), before);
}

#[test]
fn what_does_not_go_back_is_told() {
    let (played, mut backend) = FakeBackend::new();
    let from = [wanted("a", 1)];
    change(&mut *backend, &[], &from).expect("nothing refuses");
    for what in ["make b", "make a"] {
        played.refuse(what);
    }
    let refusal = change(&mut *backend, &from, &[wanted("b", 1)]).expect_err("b is refused");
    assert_eq!(refusal.to_string(), "make b is refused; and it could not be undone: make a is refused");
    assert_eq!(played.running(), [""; 0]);
}
