//! Kernel threads found by their names.

use netlink::Napi;

use crate::NapiThread;
use crate::napi::{at_once, by_name, by_number};

fn all() -> Vec<(i32, String)> {
    [(7, "napi/wan-8193"), (8, "napi/wan-8200"), (9, "napi/a-b-8201"), (10, "napi/x")]
        .map(|(tid, name)| (tid, name.to_owned()))
        .to_vec()
}

fn thread(interface: &str, napi: u32, tid: i32, name: &str) -> NapiThread {
    NapiThread { interface: interface.to_owned(), napi, tid, name: name.to_owned() }
}

#[test]
fn the_number_tells_whose_a_thread_is() {
    let napi = |id, thread| Napi { id, index: 2, thread };
    // The interface was renamed meanwhile, and one of its NAPI instances has no thread.
    let napis = [napi(8200, Some(123)), napi(8193, None), napi(9000, Some(124))];
    assert_eq!(by_number("lan", &napis, &all()), [thread("lan", 8200, 8, "napi/wan-8200")]);
}

#[test]
fn without_numbers_a_name_has_to_be_the_only_one() {
    assert_eq!(by_name("a-b", &all()).expect("one"), [thread("a-b", 8201, 9, "napi/a-b-8201")]);
    assert!(by_name("lan", &all()).expect("none").is_empty());
    let refused = by_name("wan", &all()).expect_err("two").to_string();
    assert!(refused.contains("2 threads named napi/wan-"), "{refused}");
}

#[test]
fn where_the_kernel_s_numbers_are_ours_nobody_else_is_looked_at() {
    let napi = |id, thread| Napi { id, index: 2, thread };
    let called = |tid| all().into_iter().find(|(known, _)| *known == tid).map(|(_, name)| name);
    let wan = [napi(8193, Some(7)), napi(8200, None)];
    assert_eq!(at_once("wan", &wan, called), Some(vec![thread("wan", 8193, 7, "napi/wan-8193")]));
    assert_eq!(at_once("wan", &[], called), Some(vec![]));
    // In another PID namespace the number denotes another thread, or none.
    for other in [8, 10, 11] {
        assert_eq!(at_once("wan", &[napi(8193, Some(other))], called), None, "{other}");
    }
}
