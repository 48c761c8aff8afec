use super::LinkCounters;

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
