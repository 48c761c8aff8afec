//! Tests of the small value types.

use std::net::Ipv4Addr;

use proptest::prelude::*;

use crate::{CpuSet, Mac, Prefix};

#[test]
fn cpu_sets_are_shown_as_the_kernel_does() {
    for (text, shown) in [("0", "0"), ("0-1,3", "0-1,3"), ("3,1,2,1", "1-3"), ("1023", "1023")] {
        assert_eq!(text.parse::<CpuSet>().map(|set| set.to_string()), Ok(shown.to_owned()));
    }
    for text in ["", "a", "1-", "-1", "2-1", "1,,2", "1024", "0-4294967295", "+1"] {
        assert!(text.parse::<CpuSet>().is_err(), "{text}");
    }
    let of_kernel = CpuSet::from_kernel("0-1,1024-1030\n").map(|set| set.to_string());
    assert_eq!(of_kernel, Ok("0-1,1024-1030".to_owned()), "the kernel knows higher numbers");
    assert!(CpuSet::from_kernel("0-4294967295").is_err());
}

#[test]
fn cpus_are_dealt_out_in_turn() {
    let set: CpuSet = "1,4".parse().expect("a CPU set");
    assert_eq!([set.deal(0), set.deal(1), set.deal(2)], [1, 4, 1]);
}

#[test]
fn macs() {
    let text = "02:ab:00:00:00:0f";
    assert_eq!(text.parse::<Mac>().map(|mac| mac.to_string()), Ok(text.to_owned()));
    for text in [
        "",
        "02:ab:00:00:00",
        "02:ab:00:00:00:00:00",
        "2:ab:00:00:00:00",
        "02-ab-00-00-00-00",
        "+2:ab:00:00:00:00",
    ] {
        assert!(text.parse::<Mac>().is_err(), "{text}");
    }
}

proptest! {
    #[test]
    fn derived_macs_are_local_stations(router in "[a-z0-9-]{1,14}", nic in "[a-z0-9-]{1,14}") {
        let mac = Mac::derived(&router, &nic);
        prop_assert!(!mac.is_group() && mac.0[0] & 2 != 0);
        prop_assert_ne!(mac, Mac::derived(&nic, &format!("{router}x")));
    }

    #[test]
    fn prefixes_overlap_where_they_share_an_address(a: u32, b: u32, la in 0_u8..=32, lb in 0_u8..=32) {
        let (a, b) = (Prefix::containing(Ipv4Addr::from_bits(a), la), Prefix::containing(Ipv4Addr::from_bits(b), lb));
        let shared = a.contains(b.network) || b.contains(a.network);
        prop_assert_eq!(a.overlaps(b), shared);
        prop_assert_eq!(b.overlaps(a), shared);
        prop_assert!(a.contains(a.last()) && a.contains(a.network));
    }
}
