//! Namespaces of kernel routers that killed runs have left.

use config::Plan;
use kernel_router::Leftover;
use netns::Namespace;

use crate::run_lock::RunLock;

/// Removes what killed runs have left of the kernel routers of a plan, and returns the host's interfaces in it: for the checks of the plan
/// they would be missing, and pairs would be in the way. The cleaner of a killed run does so too, unless it was killed as well or is
/// late. Routers that are running are left alone. Waits for the remains of killed runs as long as [`RunLock::take`] does.
///
/// Errors are ignored: what is still missing or in the way is reported when it is needed.
pub(crate) fn remove(plan: &Plan) {
    let Ok(home) = Namespace::current() else { return };
    let is_left = |name: &&str| matches!(Leftover::find(name, &home), Ok(Some(_)));
    for name in plan.in_kernel().map(|router| router.name.as_str()).filter(is_left) {
        // While its name is held, no run has the router.
        let Ok(_held) = RunLock::take([name]) else { continue };
        if let Ok(Some(left)) = Leftover::find(name, &home) {
            let _ = left.remove(&home);
        }
    }
}
