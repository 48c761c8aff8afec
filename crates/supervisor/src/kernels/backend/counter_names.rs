//! Names of a kernel router's interface counters in the ledger.

/// Returns the name of an interface counter in the ledger: `rx_frames` becomes `rx.frames`, `drop_rx_missed` becomes `rx.drop_missed`, and
/// `drop_rx`, for which the kernel reports no reason, `rx.drop_other`. As in the kernel, `rx` is the direction towards the router.
pub(super) fn ledger_name(field: &str) -> String {
    for way in ["rx", "tx"] {
        let begins = |begin: String| field.strip_prefix(&begin).map(str::to_owned);
        if let Some(rest) = begins(format!("{way}_")) {
            return format!("{way}.{rest}");
        }
        if let Some(rest) = begins(format!("drop_{way}_")) {
            return format!("{way}.drop_{rest}");
        }
        if field == format!("drop_{way}") {
            return format!("{way}.drop_other");
        }
    }
    format!("link.{field}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_called_as_those_of_each_nic_are() {
        for (field, name) in [
            ("rx_frames", "rx.frames"),
            ("tx_bytes", "tx.bytes"),
            ("drop_rx_missed", "rx.drop_missed"),
            ("drop_tx", "tx.drop_other"),
            ("drop_tx_no_carrier", "tx.drop_no_carrier"),
            ("carrier_changes", "link.carrier_changes"),
        ] {
            assert_eq!(ledger_name(field), name);
        }
    }
}
