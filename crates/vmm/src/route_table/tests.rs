use fib::six::Table;
use fib::{NextHop, Routes6};

use super::*;

const NET: u128 = 0x2001_0db8 << 96;

#[test]
fn both_tables_lie_behind_each_other_and_share_their_epoch() {
    let table = RouteTable::with_six(16, Some(Room6 { nodes: 64, ranges: 1000 })).expect("memory");
    let hop = NextHop::Gateway6 { nic: 1, gateway: NET | 1 };
    let first = table.routes().publish();
    let added = table.change_six(|routes| routes.add(NET, 32, hop).is_ok());
    assert_eq!(added, Some(true));
    assert_eq!(table.routes().epoch(), first + 1);
    // As a guest finds it.
    let base = table.memory().as_ptr();
    // SAFETY: the header of a table that was just created.
    let header = unsafe { &*base.cast::<Header>() };
    let at = header.six_at.load(std::sync::atomic::Ordering::Relaxed) as usize;
    assert!(at >= layout::len(16) && at % PAGE == 0);
    // SAFETY: the table was created there, with this room.
    let parts = unsafe { six_parts(base.add(at), Room6 { nodes: 64, ranges: 1000 }) };
    assert!(parts.header.is_valid());
    let six = Table::new(parts);
    assert_eq!((six.next_hop(six.lookup(NET | 9)), six.epoch()), (hop, first + 1));
    // What is removed stays until the reader has the next epoch, also one of the other table.
    table.change_six(|routes| routes.remove(NET, 32).expect("it is there"));
    table.reclaim_six([first + 1]);
    let retired = || table.change_six(|routes| routes.retired()).expect("a table");
    assert!(retired() > 0);
    let epoch = table.routes().epoch();
    table.reclaim_six([epoch]);
    assert_eq!(retired(), 0);
}

#[test]
fn without_ipv6_there_is_no_second_table() {
    let table = RouteTable::new(16).expect("memory");
    assert_eq!(table.change_six(|_| ()), None);
    assert_eq!(table.memory().len(), layout::len(16).next_multiple_of(PAGE));
}
