use std::net::Ipv4Addr;

use super::{LinkCounters, mask};

const TABLE: &str = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:       0       0    0    0    0     0          0         0        0       0    0    0    0     0       0          0
 tap10: 100 2 0 3 0 0 0 0 400 5 0 6 0 0 0 0
  tap1:7 8 0 9 0 0 0 0 10 11 0 12 0 0 0 0
";

#[test]
fn counters_are_found_by_the_whole_name() {
    let wanted =
        LinkCounters { rx_bytes: 7, rx_frames: 8, rx_drops: 9, tx_bytes: 10, tx_frames: 11, tx_drops: 12 };
    assert_eq!(LinkCounters::find(TABLE, "tap1"), Some(wanted));
    assert_eq!(LinkCounters::find(TABLE, "tap10").map(|c| c.tx_drops), Some(6));
    assert_eq!(LinkCounters::find(TABLE, "tap"), None);
    assert_eq!(LinkCounters::find(TABLE, "ap1"), None);
    assert_eq!(LinkCounters::find("tap1: 1 2 3", "tap1"), None);
    assert_eq!(LinkCounters::find("tap1: 1 2 x 0 0 0 0 0 0 0 0 0 0 0 0 0", "tap1"), None);
}

#[test]
fn netmasks_of_all_kinds() {
    assert_eq!(mask(0).ok(), Some(Ipv4Addr::UNSPECIFIED));
    assert_eq!(mask(1).ok(), Some(Ipv4Addr::new(128, 0, 0, 0)));
    assert_eq!(mask(24).ok(), Some(Ipv4Addr::new(255, 255, 255, 0)));
    assert_eq!(mask(32).ok(), Some(Ipv4Addr::BROADCAST));
    let error = mask(33).expect_err("33 bits").to_string();
    assert_eq!(error, "a prefix length is 33, expected 0 to 32");
}
