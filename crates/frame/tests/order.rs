//! Orders to a balancer: what is written is read, and whatever comes is no reason to panic.

use frame::order::{CHOICES, LONGEST, MOST_MEMBERS, NOBODY, Order, Table};
use frame::{Mac, ethernet};
use proptest::prelude::*;

fn table(members: usize, in_turn: bool, turns: usize, choices: &[u8]) -> Table {
    let mut table = Table { in_turn, members, turns, ..Table::EMPTY };
    for (number, station) in table.stations.iter_mut().take(members).enumerate() {
        *station = Mac([2, 0, 0, 0, 1, number as u8]);
    }
    table.choices.copy_from_slice(choices);
    table
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        generation in any::<u32>(), number in any::<u32>(), known in any::<u32>(), members in 0..=MOST_MEMBERS,
        in_turn in any::<bool>(), turns in 1..=CHOICES, choices in prop::collection::vec(any::<u8>(), CHOICES),
    ) {
        let (order, wanted) = (Order { generation, number, known }, table(members, in_turn, turns, &choices));
        let mut octets = [0xee; LONGEST];
        let len = order.write(Some(&wanted), &mut octets);
        let frame = &octets[..len];
        prop_assert!(Order::is_one(frame));
        prop_assert_eq!(Order::read(frame), Some(order));
        let mut read = Table::EMPTY;
        prop_assert!(Order::read_table(frame, &mut read));
        prop_assert_eq!(&read, &wanted);
        prop_assert!(!Order::read_table(&frame[..len - 1], &mut read), "an octet is missing");
        prop_assert_eq!(&read, &wanted, "nothing has changed");
    }

    #[test]
    fn whatever_comes_is_read_or_not(mut octets in prop::collection::vec(any::<u8>(), 0..LONGEST), is_like in any::<bool>()) {
        if is_like && octets.len() >= 20 {
            let mut like = [0; LONGEST];
            Order::default().write(Some(&Table::EMPTY), &mut like);
            octets[..16].copy_from_slice(&like[..16]);
        }
        let _ = Order::read(&octets);
        let mut table = Table::EMPTY;
        if Order::read_table(&octets, &mut table) {
            prop_assert!(table.members <= MOST_MEMBERS && (1..=CHOICES).contains(&table.turns));
        }
    }
}

#[test]
fn an_order_without_a_table_is_short_and_is_acknowledged_in_its_place() {
    let mut octets = [0xee; LONGEST];
    let order = Order { generation: 7, number: 9, known: 0 };
    let len = order.write(None, &mut octets);
    assert_eq!(len, ethernet::SHORTEST);
    Order::acknowledge(&mut octets[..len], 6);
    assert_eq!(Order::read(&octets[..len]), Some(Order { known: 6, ..order }));
    let mut table = Table::EMPTY;
    assert!(!Order::read_table(&octets[..len], &mut table));
    assert_eq!(table.choices, [NOBODY; CHOICES]);
    octets[0] ^= 4;
    assert!(!Order::is_one(&octets) && Order::read(&octets).is_none(), "it is for somebody else");
    Order::acknowledge(&mut octets[..8], 5);
}
