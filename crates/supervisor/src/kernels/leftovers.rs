//! Namespaces of kernel routers that killed runs have left.

use api::folder::base;
use config::Plan;
use kernel_router::Leftover;
use netns::Namespace;
use rustix::process::geteuid;

use crate::run_lock::RunLock;

/// Removes what killed runs have left of the kernel routers of a plan, and returns the host's interfaces in it: for the checks of the plan
/// they would be missing, and pairs would be in the way. The cleaner of a killed run does so too, unless it was killed as well or is
/// late. Routers that are running are left alone. Waits for the remains of killed runs, for all routers together as long as a start does.
///
/// Errors are ignored: what is still missing or in the way is reported when it is needed.
pub(crate) fn remove(plan: &Plan) {
    // The locks of another user are in another folder: they would not tell that a run of root has a router.
    if !geteuid().is_root() {
        return;
    }
    let (Ok(home), Ok(base)) = (Namespace::current(), base()) else { return };
    let find = |name: &str| Leftover::find(name, &home).ok().flatten();
    let names = plan.in_kernel().map(|router| router.name.as_str()).filter(|name| find(name).is_some());
    RunLock::unguarded(&base).each_free(names, |name| {
        // Looked for again: while its name is held, no run has the router.
        if let Some(left) = find(name) {
            let _ = left.remove(&home);
        }
    });
}
