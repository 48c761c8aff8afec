//! Opens in a test what only the supervisor may open.

use std::collections::HashMap;

use attach::HandedOver;

/// Opens the attachments of a plan outside this process as the supervisor does, by NIC (`edge.wan`).
pub(crate) fn opened(plan: &config::Plan) -> HashMap<String, HandedOver> {
    let open = |(router, nic): (&config::Router, &config::Nic)| {
        let wanted = router.wanted(nic);
        let opened = wanted.open().expect("opened")?;
        Some((wanted.label(), HandedOver::of(opened.hand_over()).expect("descriptors")))
    };
    plan.nics().filter_map(open).collect()
}
