//! Device status (section 2.1), negotiation (3.1.1), reset.

use super::*;
use features::*;
use status::*;

#[test]
fn features_that_are_not_acceptable_are_not_confirmed() {
    let base = VERSION_1 | super::features::MAC;
    let cases = [
        ("all that is offered", base | CTRL_VQ | MQ | EVENT_IDX, true),
        ("few of them", VERSION_1, true),
        ("a control queue without several pairs", base | CTRL_VQ, true),
        ("the legacy interface", super::features::MAC, false),
        ("nothing", 0, false),
        ("several pairs without a control queue", base | MQ, false),
        ("IN_ORDER, which is not offered", base | IN_ORDER, false),
        ("a checksum offload, which is not offered", base | 1, false),
        ("a bit that nobody knows", base | 1 << 63, false),
    ];
    for (name, picked, agreed) in cases {
        let mut driver = Driver::probe(nic_with_pairs(2));
        assert_eq!(driver.negotiate(picked), agreed, "{name}");
        driver.set_status(ACKNOWLEDGE | DRIVER | DRIVER_OK);
        assert_eq!(driver.nic.running(), agreed, "{name}: DRIVER_OK needs FEATURES_OK");
        assert_eq!(driver.status() & DRIVER_OK != 0, agreed, "{name}");
    }
}

#[test]
fn after_a_refusal_the_driver_may_pick_again() {
    let mut driver = Driver::probe(nic());
    assert!(!driver.negotiate(0));
    driver.pick(VERSION_1);
    driver.set_status(ACKNOWLEDGE | DRIVER | FEATURES_OK);
    assert_eq!(driver.status(), ACKNOWLEDGE | DRIVER | FEATURES_OK);
}

#[test]
fn features_are_settled_by_features_ok() {
    let mut driver = Driver::probe(nic());
    assert!(driver.negotiate(VERSION_1));
    driver.pick(VERSION_1 | EVENT_IDX);
    assert_eq!(driver.nic.picked_features(), VERSION_1);
}

#[test]
fn status_bits_are_added_and_never_cleared_by_a_write() {
    let mut driver = Driver::probe(nic());
    driver.set_status(ACKNOWLEDGE);
    driver.set_status(DRIVER);
    assert_eq!(driver.status(), ACKNOWLEDGE | DRIVER);
    driver.set_status(DEVICE_NEEDS_RESET | 0x30);
    assert_eq!(driver.status(), ACKNOWLEDGE | DRIVER, "bits that are not the driver's");
}

#[test]
fn one_write_may_take_all_steps() {
    let mut driver = Driver::probe(nic());
    driver.pick(VERSION_1);
    driver.set_queue_up(0, &driver::layout(0));
    driver.set_status(0x0f);
    assert!(driver.nic.running());
}

#[test]
fn giving_up_stops_the_queues_once() {
    let mut driver = Driver::running(nic());
    driver.set_status(0x0f | FAILED);
    assert_eq!(driver.take_effects(), [Effect::Stopped]);
    driver.set_status(0x0f | FAILED);
    driver.set_status(0);
    assert_eq!(driver.take_effects(), []);
}

#[test]
fn a_failed_driver_does_not_start() {
    let mut driver = Driver::probe(nic());
    assert!(driver.negotiate(VERSION_1));
    driver.take_effects();
    driver.set_status(FAILED);
    driver.set_status(DRIVER_OK);
    assert_eq!((driver.take_effects(), driver.nic.running()), (vec![], false));
}

#[test]
fn a_broken_device_says_so_once_with_an_interrupt() {
    let mut driver = Driver::running(nic());
    driver.nic.fail();
    let interrupt = Effect::Interrupt { vector: 0, message: driver::message(0) };
    assert_eq!(driver.nic.take_effects(), [Effect::Stopped, interrupt]);
    assert_eq!(driver.status(), 0x0f | DEVICE_NEEDS_RESET);
    driver.nic.fail();
    driver.set_status(0x0f);
    assert_eq!(driver.take_effects(), []);
    assert_eq!(driver.status(), 0x0f | DEVICE_NEEDS_RESET, "only a reset helps");
    driver.set_status(0);
    assert_eq!(driver.status(), 0);
    driver.negotiate(VERSION_1);
    driver.start(2);
    assert!(driver.nic.running());
}

#[test]
fn a_device_that_fails_before_the_driver_is_ready_stays_silent_and_does_not_start() {
    let mut driver = Driver::probe(nic());
    assert!(driver.negotiate(VERSION_1));
    driver.nic.fail();
    driver.set_status(DRIVER_OK);
    assert_eq!((driver.nic.running(), driver.take_effects()), (false, vec![Effect::BarsMoved]));
}

#[test]
fn reset_stops_the_queues_and_restores_the_power_on_state() {
    let mut driver = Driver::running(nic_with_pairs(2));
    driver.nic.control(&[CLASS_MQ, MQ_VQ_PAIRS_SET, 2, 0]);
    driver.nic.fail();
    driver.nic.take_effects();
    driver.set_status(0);
    driver.set_status(0);
    let fresh = nic_with_pairs(2);
    assert_eq!(driver.nic.common, fresh.common);
    assert_eq!((driver.nic.isr, driver.nic.active_pairs()), (0, 1));
    assert_eq!(
        driver.nic.doorbell(0),
        Some(BAR_AT + 0x1000),
        "configuration space is not the driver's to reset"
    );
}

#[test]
fn reset_of_a_running_device_tells_to_stop() {
    let mut driver = Driver::running(nic());
    driver.set_status(0);
    assert_eq!(driver.take_effects(), [Effect::Stopped]);
}
