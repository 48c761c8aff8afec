//! MSI-X (section 4.1.5.1.2), configuration changes (4.1.5.4), ISR status (4.1.4.5).

use super::driver::message;
use super::*;
use crate::pci::msix;
use register::*;

const LINK: u64 = 0x106;

#[test]
fn vectors_are_told_as_they_become_ready() {
    let mut driver = Driver::probe(nic());
    driver.take_effects();
    driver.set_vector(1, message(1));
    assert_eq!(driver.take_effects(), [Effect::VectorChanged(1)]);
    assert_eq!((driver.nic.message(0), driver.nic.message(1)), (None, Some(message(1))));
    driver.set_config(driver.msix_at + msix::CONTROL, &[0, 0xc0]);
    assert_eq!((driver.take_effects(), driver.nic.message(1)), (vec![Effect::VectorChanged(1)], None));
}

#[test]
fn a_link_change_interrupts_and_shows_in_the_registers() {
    let mut driver = Driver::running(nic());
    let [_, generation] = driver.read(DEVICE_STATUS as u64);
    driver.nic.set_link(false);
    assert_eq!(driver.nic.take_effects(), [Effect::Interrupt { vector: 0, message: message(0) }]);
    assert_eq!(driver.read::<2>(LINK), [0, 0]);
    assert_eq!(driver.read::<2>(DEVICE_STATUS as u64), [0x0f, generation.wrapping_add(1)]);
    driver.nic.set_link(false);
    assert_eq!(driver.nic.take_effects(), [], "no change");
    driver.nic.set_link(true);
    assert_eq!(driver.read::<2>(LINK), [1, 0]);
}

#[test]
fn isr_status_tells_a_configuration_change_once() {
    let mut driver = Driver::running(nic());
    assert_eq!(driver.read::<1>(registers::ISR), [0]);
    driver.nic.set_link(false);
    assert_eq!(driver.read::<4>(registers::ISR), [2, 0, 0, 0]);
    assert_eq!(driver.read::<1>(registers::ISR), [0], "reading clears it");
}

#[test]
fn a_driver_that_is_not_ready_or_did_not_ask_hears_nothing() {
    let mut driver = Driver::probe(nic());
    driver.set_vector(0, message(0));
    driver.set16(CONFIG_MSIX_VECTOR, 0);
    driver.take_effects();
    driver.nic.set_link(false);
    assert_eq!((driver.nic.take_effects(), driver.read::<1>(registers::ISR)), (vec![], [0]), "not ready");
    assert!(driver.negotiate(features::VERSION_1 | features::STATUS));
    driver.set16(CONFIG_MSIX_VECTOR, 0);
    driver.nic.set_link(true);
    assert_eq!((driver.nic.take_effects(), driver.read::<1>(registers::ISR)), (vec![], [0]), "nearly ready");
    assert!(driver.negotiate(features::VERSION_1));
    driver.start(2);
    driver.nic.set_link(false);
    assert_eq!(driver.nic.take_effects(), [], "STATUS was not picked");
}

#[test]
fn a_change_without_a_vector_shows_in_isr_only() {
    let mut driver = Driver::running(nic());
    driver.set16(CONFIG_MSIX_VECTOR, NO_VECTOR);
    driver.nic.set_link(false);
    assert_eq!((driver.nic.take_effects(), driver.read::<1>(registers::ISR)), (vec![], [2]));
}

#[test]
fn an_interrupt_while_masked_comes_when_unmasked() {
    let mut driver = Driver::running(nic());
    let interrupt = Effect::Interrupt { vector: 2, message: message(2) };
    let control = driver.msix_table + 2 * 16 + 12;
    driver.write(control, &[1, 0, 0, 0]);
    driver.nic.signal_queue(1);
    assert_eq!(driver.take_effects(), [Effect::VectorChanged(2)]);
    assert_eq!(driver.read::<8>(registers::MSIX_PENDING), [4, 0, 0, 0, 0, 0, 0, 0]);
    driver.write(registers::MSIX_PENDING, &[0; 8]);
    driver.write(control, &[0; 4]);
    assert_eq!(driver.take_effects(), [Effect::VectorChanged(2), interrupt.clone()]);
    // The same with the function mask.
    driver.set_config(driver.msix_at + msix::CONTROL, &[0, 0xc0]);
    driver.nic.signal_queue(1);
    driver.take_effects();
    driver.set_config(driver.msix_at + msix::CONTROL, &[0, 0x80]);
    let all: Vec<_> = [0, 1, 2].map(Effect::VectorChanged).into_iter().chain([interrupt]).collect();
    assert_eq!(driver.take_effects(), all);
}

#[test]
fn a_function_that_is_not_bus_master_sends_no_message() {
    let mut driver = Driver::running(nic());
    driver.set_config(0x04, &[2, 0]);
    assert_eq!(driver.nic.message(0), None);
    driver.nic.signal_queue(0);
    assert!(!driver.take_effects().iter().any(|effect| matches!(effect, Effect::Interrupt { .. })));
}

#[test]
fn a_running_queues_vector_can_change() {
    let mut driver = Driver::running(nic());
    driver.set16(QUEUE_SELECT, 1);
    driver.set16(QUEUE_MSIX_VECTOR, 0);
    driver.set16(QUEUE_MSIX_VECTOR, 0);
    assert_eq!(
        (driver.take_effects(), driver.nic.queue_vector(1)),
        (vec![Effect::QueueVectorChanged(1)], Some(0))
    );
    driver.set16(QUEUE_MSIX_VECTOR, 77);
    assert_eq!(
        (driver.take_effects(), driver.nic.queue_vector(1)),
        (vec![Effect::QueueVectorChanged(1)], None)
    );
    driver.nic.signal_queue(1);
    driver.nic.signal_queue(9);
    assert_eq!(driver.nic.take_effects(), []);
}

#[test]
fn the_vector_of_a_queue_that_is_not_served_is_nobodys_business() {
    let mut driver = Driver::probe(nic());
    driver.take_effects();
    driver.set16(QUEUE_MSIX_VECTOR, 1);
    assert_eq!((driver.take_effects(), driver.nic.queue_vector(0)), (vec![], Some(1)));
}
