use super::*;

/// A port as a driver initialises it: 8 bits, FIFOs, interrupt output enabled.
fn ready() -> Serial {
    let mut serial = Serial::new();
    serial.write(register::LINE_CONTROL, 3);
    serial.write(register::IDENTIFICATION, 7);
    serial.write(register::MODEM_CONTROL, OUT2 | 3);
    serial
}

#[test]
fn what_is_written_leaves() {
    let mut serial = ready();
    assert_eq!(serial.write(register::DATA, b'x'), Some(b'x'));
    assert_eq!(serial.read(register::LINE_STATUS), 0x60);
}

#[test]
fn the_divisor_hides_two_registers() {
    let mut serial = ready();
    serial.write(register::INTERRUPT_ENABLE, 5);
    serial.write(register::LINE_CONTROL, 0x83);
    assert_eq!(serial.write(register::DATA, 12), None);
    serial.write(register::INTERRUPT_ENABLE, 1);
    assert_eq!((serial.read(register::DATA), serial.read(register::INTERRUPT_ENABLE)), (12, 1));
    serial.write(register::LINE_CONTROL, 3);
    assert_eq!(serial.read(register::INTERRUPT_ENABLE), 5);
}

#[test]
fn who_asks_for_room_is_interrupted_once() {
    let mut serial = ready();
    assert!(!serial.interrupts());
    serial.write(register::INTERRUPT_ENABLE, SENT);
    assert!(serial.interrupts());
    assert_eq!(serial.read(register::IDENTIFICATION), 0xc2);
    assert!(!serial.interrupts());
    assert_eq!(serial.read(register::IDENTIFICATION), 0xc1);
    serial.write(register::DATA, b'x');
    assert!(serial.interrupts());
}

#[test]
fn an_interrupt_that_is_not_led_out_stays_inside() {
    let mut serial = ready();
    serial.write(register::MODEM_CONTROL, 3);
    serial.write(register::INTERRUPT_ENABLE, SENT);
    assert!(!serial.interrupts());
    assert_eq!(serial.read(register::IDENTIFICATION), 0xc2, "the cause is there all the same");
}

#[test]
fn in_loopback_it_hears_itself() {
    let mut serial = ready();
    serial.write(register::MODEM_CONTROL, LOOPBACK | 0xa);
    assert_eq!(serial.read(register::MODEM_STATUS), 0x90);
    for octet in 0..100 {
        assert_eq!(serial.write(register::DATA, octet), None);
    }
    serial.write(register::INTERRUPT_ENABLE, RECEIVED);
    assert_eq!(serial.read(register::IDENTIFICATION), 0xc4);
    assert_eq!(serial.read(register::LINE_STATUS), 0x61);
    let heard: Vec<u8> = (0..ROOM).map(|_| serial.read(register::DATA)).collect();
    assert_eq!(heard, (0..ROOM as u8).collect::<Vec<_>>());
    assert_eq!(serial.read(register::LINE_STATUS), 0x60);
}

#[test]
fn it_has_a_scratch_register_and_nothing_behind_it() {
    let mut serial = ready();
    serial.write(register::SCRATCH, 0xa5);
    assert_eq!((serial.read(register::SCRATCH), serial.read(PORTS)), (0xa5, 0xff));
}
