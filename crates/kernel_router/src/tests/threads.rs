//! Kernel threads found by their PIDs, or by their names.

use netlink::Napi;

use crate::NapiThread;
use crate::napi::{by_name, by_pid};

fn all() -> Vec<(i32, String)> {
    [(7, "napi/wan-8193"), (8, "napi/wan-8200"), (9, "napi/a-b-8201"), (10, "napi/x")]
        .map(|(tid, name)| (tid, name.to_owned()))
        .to_vec()
}

fn thread(interface: &str, napi: u32, tid: i32, name: &str) -> NapiThread {
    NapiThread { interface: interface.to_owned(), napi, tid, name: name.to_owned() }
}

#[test]
fn without_numbers_a_name_has_to_be_the_only_one() {
    assert_eq!(by_name("a-b", &all()).expect("one"), [thread("a-b", 8201, 9, "napi/a-b-8201")]);
    assert!(by_name("lan", &all()).expect("none").is_empty());
    let refused = by_name("wan", &all()).expect_err("two").to_string();
    assert!(refused.contains("2 threads named napi/wan-"), "{refused}");
}

#[test]
fn a_thread_is_found_by_its_pid_whatever_its_name_says() {
    let napi = |id, thread| Napi { id, index: 2, thread };
    let called = |tid| match tid {
        12 => Some("bash".to_owned()),
        _ => all().into_iter().find(|(known, _)| *known == tid).map(|(_, name)| name),
    };
    // The interface was renamed and given another number meanwhile; one of its NAPI instances has no thread.
    let lan = [napi(9193, Some(7)), napi(8200, None)];
    assert_eq!(by_pid("lan", &lan, called), [thread("lan", 9193, 7, "napi/wan-8193")]);
    // In another PID namespace the number denotes another process, or none.
    for other in [11, 12] {
        assert!(by_pid("wan", &[napi(8193, Some(other))], called).is_empty(), "{other}");
    }
}
