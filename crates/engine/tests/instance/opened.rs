//! What only the supervisor may open, opened by a test.

use std::collections::HashMap;

use attach::Handed;

/// Attachments of a plan outside of this process, opened as the supervisor opens them, by NIC (`edge.wan`).
pub(crate) fn opened(plan: &config::Plan) -> HashMap<String, Handed> {
    let open = |(router, nic): (&config::Router, &config::Nic)| {
        let wanted = router.wanted(nic);
        let opened = wanted.open().expect("opened")?;
        Some((wanted.label(), Handed::of(opened.hand_over()).expect("descriptors")))
    };
    plan.nics().filter_map(open).collect()
}
