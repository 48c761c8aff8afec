//! Serial port, a 16550A (National Semiconductor PC16550D data sheet): a state machine without descriptor or
//! clock.
//!
//! Transmitted octets leave at once. Received octets wait in a queue that is longer than the chip's.

use std::collections::VecDeque;

/// Offsets of the registers.
mod register {
    /// Receiver buffer, transmitter holding; low half of the divisor.
    pub(super) const DATA: u16 = 0;
    /// Interrupt enable; high half of the divisor.
    pub(super) const INTERRUPT_ENABLE: u16 = 1;
    /// Interrupt identification (read), FIFO control (written).
    pub(super) const IDENTIFICATION: u16 = 2;
    pub(super) const LINE_CONTROL: u16 = 3;
    pub(super) const MODEM_CONTROL: u16 = 4;
    pub(super) const LINE_STATUS: u16 = 5;
    pub(super) const MODEM_STATUS: u16 = 6;
    pub(super) const SCRATCH: u16 = 7;
}

/// Number of I/O ports.
pub(super) const PORTS: u16 = 8;

const DIVISOR_ACCESS: u8 = 1 << 7;
const LOOPBACK: u8 = 1 << 4;
/// The interrupt output is enabled only if this bit is set.
const OUT2: u8 = 1 << 3;
const RECEIVED: u8 = 1 << 0;
const SENT: u8 = 1 << 1;
/// Holding register and shift register are empty.
const ALL_SENT: u8 = 0b11 << 5;
const FIFOS_ON: u8 = 0b11 << 6;
/// Maximum number of octets that wait for the driver.
const ROOM: usize = 64;

/// The port. Its output is returned by [`Serial::write`].
#[derive(Debug)]
pub(super) struct Serial {
    divisor: u16,
    enabled: u8,
    line: u8,
    modem: u8,
    scratch: u8,
    fifos: bool,
    /// True until the driver has been notified that its output has left.
    sent: bool,
    input: VecDeque<u8>,
}

impl Serial {
    /// Creates the port in its state after a reset.
    pub(super) fn new() -> Self {
        Self {
            divisor: 1,
            enabled: 0,
            line: 0,
            modem: 0,
            scratch: 0,
            fifos: false,
            sent: false,
            input: VecDeque::new(),
        }
    }

    /// Returns true while it asserts its interrupt.
    pub(super) fn interrupts(&self) -> bool {
        self.cause().is_some() && self.modem & OUT2 != 0
    }

    /// Reads a register.
    pub(super) fn read(&mut self, register: u16) -> u8 {
        let divisor = self.line & DIVISOR_ACCESS != 0;
        match register {
            register::DATA if divisor => self.divisor as u8,
            register::DATA => self.input.pop_front().unwrap_or(0),
            register::INTERRUPT_ENABLE if divisor => (self.divisor >> 8) as u8,
            register::INTERRUPT_ENABLE => self.enabled,
            register::IDENTIFICATION => self.identify(),
            register::LINE_CONTROL => self.line,
            register::MODEM_CONTROL => self.modem,
            register::LINE_STATUS => ALL_SENT | u8::from(!self.input.is_empty()),
            register::MODEM_STATUS => self.modem_status(),
            register::SCRATCH => self.scratch,
            _ => 0xff,
        }
    }

    /// Writes a register; returns the octet that is transmitted, if any.
    pub(super) fn write(&mut self, register: u16, value: u8) -> Option<u8> {
        let divisor = self.line & DIVISOR_ACCESS != 0;
        match register {
            register::DATA if divisor => self.divisor = self.divisor & 0xff00 | u16::from(value),
            register::DATA => return self.send(value),
            register::INTERRUPT_ENABLE if divisor => {
                self.divisor = self.divisor & 0xff | u16::from(value) << 8;
            }
            register::INTERRUPT_ENABLE => {
                // A driver that enables the transmit interrupt is notified at once.
                self.sent |= value & !self.enabled & SENT != 0;
                self.enabled = value & 0xf;
            }
            register::IDENTIFICATION => self.fifos = value & 1 != 0,
            register::LINE_CONTROL => self.line = value,
            register::MODEM_CONTROL => self.modem = value & 0x1f,
            register::SCRATCH => self.scratch = value,
            _ => {}
        }
        None
    }

    fn send(&mut self, octet: u8) -> Option<u8> {
        self.sent = true;
        if self.modem & LOOPBACK == 0 {
            return Some(octet);
        }
        if self.input.len() < ROOM {
            self.input.push_back(octet);
        }
        None
    }

    /// Returns the most urgent cause: receive before transmit.
    fn cause(&self) -> Option<u8> {
        if self.enabled & RECEIVED != 0 && !self.input.is_empty() {
            return Some(0b100);
        }
        (self.enabled & SENT != 0 && self.sent).then_some(0b010)
    }

    /// Returns the interrupt identification; reading it acknowledges the transmit interrupt.
    fn identify(&mut self) -> u8 {
        let cause = self.cause();
        if cause == Some(0b010) {
            self.sent = false;
        }
        cause.unwrap_or(1) | if self.fifos { FIFOS_ON } else { 0 }
    }

    /// Returns the modem status: the other end is present; in loopback, our own outputs (data sheet, 8.8).
    fn modem_status(&self) -> u8 {
        if self.modem & LOOPBACK == 0 {
            return 0xb0;
        }
        let (dtr, rts, out1, out2) =
            (self.modem & 1, self.modem >> 1 & 1, self.modem >> 2 & 1, self.modem >> 3 & 1);
        rts << 4 | dtr << 5 | out1 << 6 | out2 << 7
    }
}

#[cfg(test)]
mod tests;
