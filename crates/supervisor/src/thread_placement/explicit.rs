//! Plans whose settings of threads are all explicit.

use config::{Affinity, Allowed, Pin, Plan};

/// Makes explicit what the plan leaves to the kernel: of a router without a schedule only the threads that
/// its file pins are placed. Returns `None` if the file says nothing of threads.
pub(super) fn explicit(plan: &Plan) -> Option<Plan> {
    let mut plan = plan.clone();
    if plan.routers.iter().all(|router| router.pin == Pin::default() && !router.is_scheduled()) {
        return None;
    }
    for router in plan.routers.iter_mut().filter(|router| !router.is_scheduled()) {
        // The affinity set below is not from the file, and must not switch threaded NAPI on.
        let is_threaded = router.is_threaded();
        if let Some(kernel) = &mut router.kernel {
            kernel.threaded = Some(is_threaded);
        }
        let free = |pinned: bool| if pinned { Allowed::Auto } else { Allowed::Free };
        router.affinity =
            Affinity { vcpu: free(router.pin.vcpu.is_some()), vhost: free(router.pin.vhost.is_some()) };
    }
    Some(plan)
}
