//! Kernel threads that work for a data plane (vhost) and are placed like its own.

use sched::ThreadIdentity;

/// Kernel threads found for it that have not ended.
#[derive(Debug, Default)]
pub(super) struct VhostThreads(Vec<VhostThread>);

#[derive(Debug)]
struct VhostThread {
    thread: ThreadIdentity,
    name: String,
    /// Thread of the data plane on whose behalf the kernel started it.
    owner: ThreadIdentity,
}

impl VhostThreads {
    /// Records the vhost thread with this number, if it is one that works for `owner`, and forgets those that
    /// have ended. Returns true if it is recorded. `proc` reads what [`sched::stat`] does.
    pub(super) fn add(
        &mut self,
        proc: impl Fn(i32, i32) -> Option<String>,
        thread: i32,
        owner: ThreadIdentity,
    ) -> bool {
        self.0.retain(|lent| lent.is_in(&proc));
        let name = format!("vhost-{}", owner.tid);
        let Some(thread) = ThreadIdentity::of_kernel(&proc, thread, &name, &owner) else { return false };
        if self.0.iter().all(|lent| lent.thread != thread) {
            self.0.push(VhostThread { thread, name, owner });
        }
        true
    }

    /// Returns the thread with this number, if it was lent and the number was not reused.
    pub(super) fn get(
        &self,
        proc: impl Fn(i32, i32) -> Option<String>,
        thread: i32,
    ) -> Option<ThreadIdentity> {
        let lent = self.0.iter().find(|lent| lent.thread.tid == thread && lent.is_in(&proc))?;
        Some(lent.thread)
    }
}

impl VhostThread {
    /// Returns true if the thread still exists with the same name and parent.
    fn is_in(&self, proc: impl Fn(i32, i32) -> Option<String>) -> bool {
        ThreadIdentity::of_kernel(proc, self.thread.tid, &self.name, &self.owner) == Some(self.thread)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    use super::*;

    /// Fake `/proc`: the stat lines of threads, by number.
    #[derive(Default)]
    struct Table(RefCell<BTreeMap<i32, String>>);

    impl Table {
        fn set(&self, number: i32, name: &str, parent: i32, start: u64) {
            let [before, after] = [17, 16].map(|fields| "0 ".repeat(fields));
            let text = format!("{number} ({name}) S {parent} {before}{start} {after}1\n");
            self.0.borrow_mut().insert(number, text);
        }

        fn stat(&self) -> impl Fn(i32, i32) -> Option<String> {
            |_, number| self.0.borrow().get(&number).cloned()
        }
    }

    #[test]
    fn a_number_that_another_thread_has_by_now_is_nobodys() {
        let table = Table::default();
        table.set(107, "edge/vhost", 90, 5000);
        table.set(200, "vhost-107", 2, 5001);
        table.set(300, "vhost-107", 2, 5001);
        table.set(400, "sshd", 1, 5001);
        let owner = ThreadIdentity::look_in(table.stat(), 100, 107).expect("it is there");
        let mut lent = VhostThreads::default();
        assert!(lent.add(table.stat(), 200, owner) && lent.add(table.stat(), 300, owner));
        assert!(!lent.add(table.stat(), 400, owner) && !lent.add(table.stat(), 500, owner));
        assert!(lent.get(table.stat(), 200).is_some_and(|thread| (thread.pid, thread.tid) == (200, 200)));
        assert_eq!(lent.get(table.stat(), 400), None);
        // One has ended and another user's program has its number; the other number belongs to another run's
        // thread now.
        table.set(200, "sshd", 1, 9000);
        table.set(300, "vhost-107", 2, 9000);
        assert_eq!([200, 300].map(|number| lent.get(table.stat(), number)), [None, None]);
        // They are forgotten at the next call.
        table.set(500, "vhost-107", 2, 9001);
        assert!(lent.add(table.stat(), 500, owner) && lent.add(table.stat(), 500, owner));
        assert_eq!(lent.0.len(), 1);
    }
}
