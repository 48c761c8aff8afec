//! Finds the kernel threads that work for a process, by their names.

use std::fs;

/// Returns the vhost-net thread that was created for thread `owner` of process `process`: a kernel thread up
/// to Linux 6.3, later a thread of the process itself. `None` if there is none, or more than one.
pub fn of_vhost(process: u32, owner: i32) -> Option<i32> {
    let name = format!("vhost-{owner}");
    let own = format!("/proc/{process}/task");
    if let Some(found) = named(&own, &name, |_| true) {
        return Some(found);
    }
    named("/proc", &name, |id| parent_of(id) == Some(KTHREADD))
}

/// The parent of all kernel threads.
const KTHREADD: i32 = 2;

/// Returns the only task in a folder of `/proc` with this name for which `wanted` returns true.
fn named(folder: &str, name: &str, wanted: impl Fn(i32) -> bool) -> Option<i32> {
    let entries = fs::read_dir(folder).ok()?;
    let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let is = |id: &i32| {
        fs::read_to_string(format!("{folder}/{id}/comm")).is_ok_and(|comm| comm.trim_end() == name)
    };
    let mut found = ids.filter(is).filter(|id| wanted(*id));
    match (found.next(), found.next()) {
        (Some(only), None) => Some(only),
        _ => None,
    }
}

/// Parses `pid (comm) state ppid ...`; a name may contain any character, but ends with the last bracket.
fn parent_of(id: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.split(' ').nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_of_a_process_is_found_by_its_name() {
        let (tell, told) = std::sync::mpsc::channel();
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::Builder::new().name("vhost-4711".to_owned()).spawn(move || {
            // SAFETY: only returns a number.
            tell.send(unsafe { libc::gettid() }).unwrap();
            let _ = wait.recv();
        });
        let tid = told.recv().unwrap();
        assert_eq!(of_vhost(std::process::id(), 4711), Some(tid));
        assert_eq!(of_vhost(std::process::id(), 4712), None);
        drop(go);
        thread.unwrap().join().unwrap();
    }

    #[test]
    fn the_parent_of_this_process_is_known() {
        assert_eq!(parent_of(std::process::id() as i32), Some(std::os::unix::process::parent_id() as i32));
    }
}
