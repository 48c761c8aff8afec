use std::cell::RefCell;
use std::collections::BTreeMap;
use std::process::Command;

use super::*;

/// Fake `/proc`: stat lines of threads, by process and number.
#[derive(Default)]
struct Table(RefCell<BTreeMap<(i32, i32), String>>);

impl Table {
    fn set(&self, (pid, tid): (i32, i32), name: &str, parent: i32, start: u64) {
        // Fields 5 to 21, and fields 23 to 38, which precede the processor.
        let [before, after] = [17, 16].map(|fields| "0 ".repeat(fields));
        let text = format!("{tid} ({name}) S {parent} {before}{start} {after}1\n");
        self.0.borrow_mut().insert((pid, tid), text);
    }

    fn end(&self, pid: i32, tid: i32) {
        self.0.borrow_mut().remove(&(pid, tid));
    }

    fn stat(&self) -> impl Fn(i32, i32) -> Option<String> {
        |pid, tid| self.0.borrow().get(&(pid, tid)).cloned()
    }
}

/// Performs an action on a thread. Returns whether it counts as done, and the thread numbers it was applied
/// to.
fn touched(task: &ThreadIdentity, table: &Table) -> (bool, Vec<i32>) {
    let mut touched = Vec::new();
    let done = task.act_in(table.stat(), |tid| {
        touched.push(tid);
        Ok(())
    });
    (done.is_ok(), touched)
}

#[test]
fn who_has_its_number_later_is_not_touched() {
    let table = Table::default();
    table.set((100, 107), "edge/vcpu0", 90, 5000);
    let task = ThreadIdentity::look_in(table.stat(), 100, 107).expect("it is there");
    assert_eq!(touched(&task, &table), (true, vec![107]));
    // It has ended, and a thread of another process has its number.
    table.end(100, 107);
    assert_eq!(touched(&task, &table), (false, vec![]));
    table.set((500, 107), "edge/vcpu0", 90, 6000);
    assert_eq!(touched(&task, &table), (false, vec![]));
    // Or another thread of its own process, or of a process that reused that number as well.
    table.set((100, 107), "edge/vcpu0", 90, 6000);
    assert_eq!(touched(&task, &table), (false, vec![]));
    assert_ne!(ThreadIdentity::look_in(table.stat(), 100, 107), Some(task));
}

#[test]
fn what_was_done_to_one_that_ended_meanwhile_is_not_done() {
    let table = Table::default();
    table.set((100, 107), "edge) R (/vcpu0", 90, 5000);
    let task = ThreadIdentity::look_in(table.stat(), 100, 107).expect("it is there");
    let done = task.act_in(table.stat(), |_| {
        table.set((100, 107), "sshd", 1, 6000);
        Ok(())
    });
    assert_eq!(done.expect_err("another one").raw_os_error(), Some(libc::ESRCH));
}

#[test]
fn a_thread_of_the_kernel_is_known_by_its_name_its_parent_and_for_whom_it_works() {
    let table = Table::default();
    table.set((100, 107), "edge/wan-kernel0", 90, 5000);
    table.set((200, 200), "vhost-107", 2, 5001);
    let owner = ThreadIdentity::look_in(table.stat(), 100, 107).expect("it is there");
    let found = |name: &str| ThreadIdentity::of_kernel(table.stat(), 200, name, &owner);
    assert_eq!(found("vhost-107"), ThreadIdentity::look_in(table.stat(), 200, 200));
    assert_eq!(found("vhost-108"), None);
    for (name, parent, start) in [
        ("vhost-107", 1, 5001),
        // Thread of an earlier owner of the number.
        ("vhost-107", 2, 4999),
        ("kworker/0:1", 2, 5001),
    ] {
        table.set((200, 200), name, parent, start);
        assert_eq!(found("vhost-107"), None, "{name} {parent} {start}");
    }
}

#[test]
fn a_thread_of_the_kernel_that_works_for_nobody_of_ours_is_known_by_its_name_and_its_parent() {
    let table = Table::default();
    table.set((300, 300), "napi/wan-8193", 2, 5000);
    table.set((301, 301), "napi/wan-8194", 1, 5000);
    let found = |tid, name: &str| ThreadIdentity::named_in_kernel(table.stat(), tid, name);
    assert_eq!(found(300, "napi/wan-8193"), ThreadIdentity::look_in(table.stat(), 300, 300));
    assert_eq!(found(300, "napi/wan-8194"), None);
    assert_eq!(found(301, "napi/wan-8194"), None, "a program may call its thread so");
    assert_eq!(found(302, "napi/wan-8193"), None);
}

#[test]
fn what_the_kernel_shows_is_read() {
    let own = std::process::id().cast_signed();
    let mut child = Command::new("cat").stdin(std::process::Stdio::piped()).spawn().expect("cat");
    let pid = child.id().cast_signed();
    let text = stat(pid, pid).expect("it is there");
    let facts = Facts::read(&text).expect("a line of the kernel");
    assert_eq!((facts.name, facts.parent), ("cat", own));
    let task = ThreadIdentity::look(pid, pid).expect("it is there");
    assert!(task.is_there() && task.last_cpu().is_some());
    child.kill().expect("killed");
    child.wait().expect("it ends");
    assert!(!task.is_there() && task.last_cpu().is_none());
    assert_eq!(task.act(|_| Ok(())).expect_err("it has ended").raw_os_error(), Some(libc::ESRCH));
    for odd in ["", "1 (a", "1 (a) S", "1 (a) S 2 3"] {
        assert!(Facts::read(odd).is_none(), "{odd}");
    }
}
