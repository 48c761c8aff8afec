use super::kvm_costs;

#[test]
fn costs_are_plausible_or_kvm_is_absent() {
    match kvm_costs() {
        Ok(costs) => {
            assert!(costs.ring0_ns >= 0.1 && costs.ring0_ns < 1e6, "{costs:?}");
            assert!(costs.ring3_ns >= 0.1 && costs.ring3_ns < 1e6, "{costs:?}");
            assert!(costs.mmio_us > 0.1 && costs.kick_us > 0.05 && costs.coalesced_us > 0.05, "{costs:?}");
            // If the host cannot collect, this is an exit.
            assert!(costs.coalesced_us < 3.0 * costs.mmio_us, "{costs:?}");
        }
        Err(error) => {
            assert!(!std::path::Path::new("/dev/kvm").exists() || !is_root(), "{error:#}");
            assert!(!format!("{error:#}").contains('\n'), "{error:#}");
        }
    }
}

fn is_root() -> bool {
    // SAFETY: geteuid has no precondition and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

#[test]
fn a_time_stamp_counter_has_some_ghz() {
    let khz = super::tsc_khz(std::time::Duration::from_millis(20));
    assert!((100_000..20_000_000).contains(&khz), "{khz}");
}
