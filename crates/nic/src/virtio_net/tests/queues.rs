//! Queues: setup, start, kicks; commands of the control queue (section 5.1.6.5).

use ring::split;

use super::driver::layout;
use super::*;
use features::*;
use register::*;

fn started(effects: Vec<Effect>) -> Start {
    let start = effects.into_iter().find_map(|effect| match effect {
        Effect::Started(start) => Some(start),
        _ => None,
    });
    start.expect("the device started")
}

fn roles(start: &Start) -> Vec<(u16, QueueRole)> {
    start.queues.iter().map(|queue| (queue.index, queue.role)).collect()
}

#[test]
fn driver_ok_starts_the_enabled_queues_as_they_were_set_up() {
    let mut driver = Driver::probe(nic());
    let offered = driver.offered();
    assert!(driver.negotiate(offered));
    driver.take_effects();
    driver.start(2);
    let start = started(driver.take_effects());
    let features = split::Features { event_idx: true, indirect: true, in_order: true };
    assert_eq!((start.features, start.ring(), start.mergeable()), (offered, features, true));
    let queue =
        |index, role| QueueSetup { index, role, layout: layout(index), features, vector: Some(index + 1) };
    assert_eq!(start.queues, [queue(0, QueueRole::Receive(0)), queue(1, QueueRole::Transmit(0))]);
}

#[test]
fn queues_that_are_not_enabled_are_not_started() {
    let mut driver = Driver::probe(nic());
    assert!(driver.negotiate(VERSION_1));
    driver.set_queue_up(1, &layout(1));
    driver.set16(QUEUE_SELECT, 0);
    driver.set16(QUEUE_ENABLE, 0);
    driver.set16(QUEUE_ENABLE, 2);
    driver.set_status(0x0f);
    let start = started(driver.take_effects());
    assert_eq!(roles(&start), [(1, QueueRole::Transmit(0))]);
    assert_eq!((start.ring(), start.mergeable()), (split::Features::default(), false));
}

/// Section 5.1.2: the position of the control queue depends on the number of pairs that both sides know.
#[test]
fn the_control_queue_moves_with_the_number_of_pairs() {
    use QueueRole::*;
    let pairs = [(0, Receive(0)), (1, Transmit(0)), (2, Receive(1)), (3, Transmit(1))];
    let cases = [
        (CTRL_VQ | MQ, [&pairs[..], &[(4, Control)]].concat()),
        (CTRL_VQ, [&pairs[..2], &[(2, Control)]].concat()),
        (0, pairs[..2].to_vec()),
    ];
    for (picked, expected) in cases {
        let mut driver = Driver::probe(nic_with_pairs(2));
        assert!(driver.negotiate(VERSION_1 | picked));
        driver.start(5);
        assert_eq!(roles(&started(driver.take_effects())), expected);
    }
}

#[test]
fn an_enabled_queue_keeps_its_layout() {
    let mut driver = Driver::probe(nic());
    driver.set_queue_up(0, &layout(0));
    let before: [u8; 64] = driver.read(0);
    driver.set16(QUEUE_SIZE, 64);
    driver.set16(QUEUE_ENABLE, 0);
    for register in [QUEUE_DESC, QUEUE_DRIVER, QUEUE_DEVICE] {
        driver.set64(register, 0x1000);
    }
    assert_eq!(driver.read::<64>(0), before);
}

#[test]
fn no_queue_is_enabled_while_the_device_runs() {
    let mut driver = Driver::probe(nic());
    assert!(driver.negotiate(VERSION_1));
    driver.start(1);
    driver.take_effects();
    driver.set16(QUEUE_SELECT, 1);
    driver.set16(QUEUE_ENABLE, 1);
    assert_eq!((driver.get16(QUEUE_ENABLE), driver.take_effects()), (0, vec![]));
}

/// Addresses are validated by the code that maps the memory; the device only passes them on.
#[test]
fn nonsense_addresses_reach_the_one_who_starts_the_queues() {
    let mut driver = Driver::probe(nic());
    assert!(driver.negotiate(VERSION_1));
    let nonsense = split::Layout { size: 256, descriptors: u64::MAX, available: 1, used: 3 };
    driver.set_queue_up(0, &nonsense);
    driver.set_status(0x0f);
    assert_eq!(started(driver.take_effects()).queues[0].layout, nonsense);
    driver.nic.fail();
    assert_eq!(driver.status() & status::DEVICE_NEEDS_RESET, status::DEVICE_NEEDS_RESET);
}

#[test]
fn each_queue_has_a_doorbell_of_its_own() {
    let mut driver = Driver::running(nic_with_pairs(2));
    for queue in 0..5 {
        let address = driver.nic.doorbell(queue).unwrap();
        assert_eq!(address, BAR_AT + 0x1000 + 4 * u64::from(queue));
        for data in [&[9_u8, 9][..], &[1, 2, 3, 4], &[0]] {
            driver.write(address - BAR_AT, data);
            assert_eq!(driver.take_effects(), [Effect::Kicked(queue)], "the address says which queue");
        }
    }
    assert_eq!(driver.nic.doorbell(5), None);
    for offset in [0x1001, 0x1002, 0x1014, 0x1ffc] {
        driver.write(offset, &[0, 0]);
        assert_eq!(driver.take_effects(), [], "no bell at {offset:#x}");
    }
    driver.set_status(0);
    driver.take_effects();
    driver.write(0x1000, &[0, 0]);
    assert_eq!(driver.take_effects(), [], "not running");
}

/// Without MQ a device of two pairs serves only queues 0 and 1, whatever its driver enables.
#[test]
fn queues_that_are_not_served_have_no_bell() {
    let mut driver = Driver::probe(nic_with_pairs(2));
    assert!(driver.negotiate(VERSION_1));
    driver.set_queue_up(1, &layout(1));
    driver.set_queue_up(3, &layout(3));
    driver.set_status(0x0f);
    driver.take_effects();
    for (queue, effects) in [(0, vec![]), (1, vec![Effect::Kicked(1)]), (3, vec![])] {
        driver.write(0x1000 + 4 * queue, &[0, 0]);
        assert_eq!(driver.take_effects(), effects, "queue {queue}");
    }
}

#[test]
fn doorbells_move_with_the_bar() {
    let mut driver = Driver::probe(nic());
    assert_eq!(driver.take_effects(), [Effect::BarsMoved]);
    driver.set_config(0x10, &0xe123_4567_u32.to_le_bytes());
    assert_eq!(driver.take_effects(), [Effect::BarsMoved]);
    assert_eq!(driver.nic.doorbell(1), Some(0xe123_4000 + 0x1004));
    driver.set_config(0x10, &0xe123_4000_u32.to_le_bytes());
    assert_eq!(driver.take_effects(), [], "not moved");
    driver.set_config(0x04, &[4, 0]);
    assert_eq!((driver.take_effects(), driver.nic.doorbell(1)), (vec![Effect::BarsMoved], None));
}

#[test]
fn the_driver_sets_how_many_pairs_it_uses() {
    let mut driver = Driver::running(nic_with_pairs(4));
    let set = |pairs: u16| [CLASS_MQ, MQ_VQ_PAIRS_SET, pairs as u8, (pairs >> 8) as u8];
    for (pairs, ack, active) in
        [(4, Ack::Ok, 4), (0, Ack::Error, 4), (5, Ack::Error, 4), (0x0101, Ack::Error, 4), (2, Ack::Ok, 2)]
    {
        assert_eq!(
            (driver.nic.control(&set(pairs)), driver.nic.active_pairs()),
            (ack, active),
            "{pairs} pairs"
        );
    }
    assert_eq!(driver.nic.take_effects(), [Effect::PairsChanged(4), Effect::PairsChanged(2)]);
    for command in
        [&[][..], &[4], &[4, 0], &[4, 0, 1], &[4, 0, 1, 0, 0], &[4, 1, 1, 0], &[0, 0, 1, 0], &[0xff; 5]]
    {
        assert_eq!(driver.nic.control(command), Ack::Error, "{command:?}");
    }
}

#[test]
fn without_several_pairs_there_is_no_command() {
    let mut driver = Driver::probe(nic_with_pairs(4));
    assert!(driver.negotiate(VERSION_1 | CTRL_VQ));
    driver.start(3);
    assert_eq!(driver.nic.control(&[CLASS_MQ, MQ_VQ_PAIRS_SET, 1, 0]), Ack::Error);
}

#[test]
fn a_device_that_does_not_run_executes_no_command() {
    let mut driver = Driver::running(nic_with_pairs(2));
    driver.nic.fail();
    assert_eq!(driver.nic.control(&[CLASS_MQ, MQ_VQ_PAIRS_SET, 2, 0]), Ack::Error);
    assert_eq!(driver.nic.active_pairs(), 1);
}
