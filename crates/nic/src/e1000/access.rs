//! Effects of reads and writes of each register.

use super::interrupts::Timer;
use super::phy;
use super::register::{self as r, ctrl};
use super::rings::{RingRegister, WriteEffect};
use super::{E1000, Effect, Interrupts, MEMORY_LEN, PORTS_LEN, cause};

/// Offset of the I/O port that selects a register.
const IOADDR: u64 = 0;
/// Offset of the I/O port for the selected register's value.
const IODATA: u64 = 4;

/// STATUS: positions of SPEED and ASDV.
const SPEED_SHIFT: u32 = 6;
const SPEED_DETECTED_SHIFT: u32 = 8;
/// CTRL: position of SPEED.
const SPEED_FORCED_SHIFT: u32 = 8;
/// STATUS: the transmit clock runs.
const CLOCK: u32 = 1 << 10;
/// CTRL: take speed and duplex from CTRL.
const FORCE_SPEED: u32 = 1 << 11;
const FORCE_DUPLEX: u32 = 1 << 12;
/// CTRL_EXT: reload the EEPROM; clears itself.
const RELOAD: u32 = 1 << 13;
/// PBA: size of the packet buffer in KiB.
const PACKET_BUFFER: u32 = 64;
/// Address bits of a status block, which lies at a multiple of 64.
const BLOCK_LOW: u32 = !0x3f;

/// Direction of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Transmit,
    Receive,
}

/// Accesses of any size.
impl E1000 {
    /// Reads the registers behind BAR 0, at `now` nanoseconds.
    pub fn memory_read(&mut self, offset: u64, data: &mut [u8], interrupts: &mut Interrupts, now: u64) {
        read_octets(offset, data, u64::from(MEMORY_LEN), |at| self.read(at, interrupts, now));
    }

    /// Writes the registers behind BAR 0, at `now` nanoseconds.
    pub fn memory_write(&mut self, offset: u64, data: &[u8], interrupts: &mut Interrupts, now: u64) {
        for (at, value) in self.whole(offset, data) {
            self.write(at, value, interrupts, now);
        }
    }

    /// Reads the I/O ports behind BAR 1, at `now` nanoseconds.
    pub fn port_read(&mut self, offset: u64, data: &mut [u8], interrupts: &mut Interrupts, now: u64) {
        read_octets(offset, data, u64::from(PORTS_LEN), |at| match at {
            IOADDR => self.port_address,
            IODATA => self.selected().map_or(0, |at| self.read(at, interrupts, now)),
            _ => 0,
        });
    }

    /// Writes the I/O ports behind BAR 1, at `now` nanoseconds.
    pub fn port_write(&mut self, offset: u64, data: &[u8], interrupts: &mut Interrupts, now: u64) {
        for (at, value) in self.whole(offset, data) {
            match at {
                IOADDR => self.port_address = value,
                IODATA => {
                    if let Some(at) = self.selected() {
                        self.write(at, value, interrupts, now);
                    }
                }
                _ => self.faults.unknown += 1,
            }
        }
    }

    /// Returns the offset of the register that IOADDR selects.
    fn selected(&mut self) -> Option<u64> {
        let inside = self.port_address < MEMORY_LEN && self.port_address.is_multiple_of(4);
        self.faults.unknown += u64::from(!inside);
        inside.then_some(u64::from(self.port_address))
    }

    /// Splits a write into the one or two whole registers that it covers.
    fn whole(&mut self, offset: u64, data: &[u8]) -> impl Iterator<Item = (u64, u32)> + use<> {
        let (words, rest) = data.as_chunks::<4>();
        let mut values = [None; 2];
        if matches!(words.len(), 1 | 2) && rest.is_empty() && offset.is_multiple_of(4) {
            for (place, word) in values.iter_mut().zip(words) {
                *place = Some(u32::from_le_bytes(*word));
            }
        } else {
            self.faults.partial += 1;
        }
        let offsets = [offset, offset.saturating_add(4)];
        offsets.into_iter().zip(values).filter_map(|(offset, value)| Some((offset, value?)))
    }
}

/// Reads each register below `end` that the octets touch, once.
fn read_octets(offset: u64, data: &mut [u8], end: u64, mut read: impl FnMut(u64) -> u32) {
    data.fill(0);
    let mut skip = (offset & 3) as usize;
    let mut at = offset & !3;
    let mut rest = data;
    while !rest.is_empty() && at < end {
        let octets = read(at).to_le_bytes();
        let touched = octets.get(skip..).unwrap_or_default();
        let n = touched.len().min(rest.len());
        let (here, later) = rest.split_at_mut(n);
        here.copy_from_slice(touched.get(..n).unwrap_or_default());
        (rest, skip, at) = (later, 0, at + 4);
    }
}

/// Register reads.
impl E1000 {
    fn read(&mut self, offset: u64, interrupts: &mut Interrupts, now: u64) -> u32 {
        if let Some((way, register)) = ring_register(offset) {
            return self.ring(way).read(register);
        }
        match offset {
            r::CTRL_DUP => self.plain.get(r::CTRL),
            r::STATUS => self.status(),
            r::EECD => self.eeprom.read_eecd(),
            r::EERD => self.eeprom.read_eerd(),
            r::MDIC => self.phy.mdic(),
            r::ICR => {
                self.effects.push(Effect::LineChanged);
                interrupts.read_icr(now)
            }
            r::ITR => u32::from(interrupts.itr()),
            r::IMS => interrupts.enabled(),
            // Write-only.
            r::ICS | r::IMC => 0,
            r::RDTR => u32::from(interrupts.delays(Timer::Receive).0),
            r::RADV => u32::from(interrupts.delays(Timer::Receive).1),
            r::TIDV => u32::from(interrupts.delays(Timer::Transmit).0),
            r::TADV => u32::from(interrupts.delays(Timer::Transmit).1),
            r::CSBAL if self.offers_block => self.block[0],
            r::CSBAH if self.offers_block => self.block[1],
            r::PBA => {
                let receive = self.plain.get(r::PBA);
                PACKET_BUFFER.saturating_sub(receive) << 16 | receive
            }
            _ => self.read_other(offset),
        }
    }

    fn read_other(&mut self, offset: u64) -> u32 {
        let value = self.plain.read(offset).or_else(|| self.statistics.read(offset));
        self.faults.unknown += u64::from(value.is_none());
        value.unwrap_or(0)
    }

    /// Returns STATUS: link, duplex and speed, forced or negotiated.
    fn status(&self) -> u32 {
        let control = self.plain.get(r::CTRL);
        let found = self.phy.link();
        let (speed, full) = found.map_or((2, true), |link| (link.speed, link.full));
        let speed = if control & FORCE_SPEED != 0 { control >> SPEED_FORCED_SHIFT & 3 } else { speed };
        let full = if control & FORCE_DUPLEX != 0 { control & ctrl::FD != 0 } else { full };
        let detected = found.map_or(0, |link| link.speed) << SPEED_DETECTED_SHIFT;
        let up = if self.link_up() { r::status::LU } else { 0 };
        speed << SPEED_SHIFT | detected | CLOCK | up | if full { r::status::FD } else { 0 }
    }

    fn ring(&mut self, way: Way) -> &mut super::Ring {
        match way {
            Way::Transmit => &mut self.transmit,
            Way::Receive => &mut self.receive,
        }
    }
}

/// Register writes.
impl E1000 {
    fn write(&mut self, offset: u64, value: u32, interrupts: &mut Interrupts, now: u64) {
        if let Some((way, register)) = ring_register(offset) {
            self.write_ring(way, register, value);
        } else if self.write_interrupts(offset, value, interrupts, now) {
            self.effects.push(Effect::LineChanged);
        } else {
            self.write_other(offset, value, interrupts, now);
        }
    }

    fn write_ring(&mut self, way: Way, register: RingRegister, value: u32) {
        let kick = self.block_used.is_some();
        match (self.ring(way).write(register, value, kick), way) {
            (WriteEffect::Held, _) => self.settle(),
            (WriteEffect::Moved, _) => self.restart(way),
            (WriteEffect::Tail, Way::Transmit) => self.effects.push(Effect::TransmitTail),
            (WriteEffect::Tail, Way::Receive) => self.effects.push(Effect::ReceiveTail),
            (WriteEffect::Outside, _) => self.faults.outside += 1,
        }
    }

    fn restart(&mut self, way: Way) {
        if self.ring(way).stop() {
            self.effects.push(match way {
                Way::Transmit => Effect::TransmitStopped,
                Way::Receive => Effect::ReceiveStopped,
            });
        }
        self.settle();
    }

    /// Handles a write of an interrupt register; returns false if the register is not one.
    fn write_interrupts(&mut self, offset: u64, value: u32, interrupts: &mut Interrupts, now: u64) -> bool {
        match offset {
            r::ICR => interrupts.write_icr(value, now),
            r::ITR => interrupts.set_itr(value as u16),
            r::ICS => interrupts.set_causes(value, now),
            r::IMS => interrupts.enable(value),
            r::IMC => interrupts.disable(value),
            r::RDTR => interrupts.set_packet_delay(Timer::Receive, value as u16),
            r::RADV => interrupts.set_absolute_delay(Timer::Receive, value as u16),
            r::TIDV => interrupts.set_packet_delay(Timer::Transmit, value as u16),
            r::TADV => interrupts.set_absolute_delay(Timer::Transmit, value as u16),
            _ => return false,
        }
        if value & r::FLUSH != 0 {
            match offset {
                r::RDTR => interrupts.flush(Timer::Receive, now),
                r::TIDV => interrupts.flush(Timer::Transmit, now),
                _ => {}
            }
        }
        true
    }

    fn write_other(&mut self, offset: u64, value: u32, interrupts: &mut Interrupts, now: u64) {
        match offset {
            r::CTRL | r::CTRL_DUP => return self.write_control(value, interrupts, now),
            r::EECD => return self.eeprom.write_eecd(value),
            r::EERD => return self.eeprom.write_eerd(value),
            r::MDIC => return self.write_mdic(value, interrupts, now),
            r::CSBAL if self.offers_block => return self.write_block(value),
            r::CSBAH if self.offers_block => self.block[1] = value,
            r::CTRL_EXT if value & RELOAD != 0 => {
                self.plain.write(offset, value);
                self.load_address();
            }
            // Read-only.
            r::STATUS => {}
            _ => {
                let exists = self.plain.write(offset, value) || super::statistics::exists(offset);
                self.faults.unknown += u64::from(!exists);
            }
        }
        self.settle();
    }

    fn write_control(&mut self, value: u32, interrupts: &mut Interrupts, now: u64) {
        if value & ctrl::PHY_RST != 0 {
            self.phy.reset();
        }
        if value & ctrl::RST != 0 {
            return self.reset(interrupts);
        }
        self.plain.write(r::CTRL, value);
        self.settle();
        self.settle_link(interrupts, now);
    }

    fn write_mdic(&mut self, value: u32, interrupts: &mut Interrupts, now: u64) {
        let negotiated = self.phy.write_mdic(value);
        if value & phy::INTERRUPT != 0 {
            interrupts.raise(cause::MDAC, 0, now);
            self.effects.push(Effect::LineChanged);
        }
        self.settle();
        // Negotiation takes the link down; clearing `link` makes `settle_link` report that it is up again, if
        // it is.
        self.link &= !negotiated || !self.link_up();
        self.settle_link(interrupts, now);
    }

    /// Writes the block's address; a write of the low half puts both halves into use.
    fn write_block(&mut self, value: u32) {
        self.block[0] = value & BLOCK_LOW;
        let address = u64::from(self.block[1]) << 32 | u64::from(self.block[0]);
        let block = (address != 0).then_some(address);
        if std::mem::replace(&mut self.block_used, block) != block {
            self.restart(Way::Transmit);
            self.restart(Way::Receive);
        }
    }
}

fn ring_register(offset: u64) -> Option<(Way, RingRegister)> {
    Some(match offset {
        r::TDT => (Way::Transmit, RingRegister::Tail),
        r::RDT => (Way::Receive, RingRegister::Tail),
        r::TDH => (Way::Transmit, RingRegister::Head),
        r::RDH => (Way::Receive, RingRegister::Head),
        r::TDBAL => (Way::Transmit, RingRegister::AddressLow),
        r::RDBAL => (Way::Receive, RingRegister::AddressLow),
        r::TDBAH => (Way::Transmit, RingRegister::AddressHigh),
        r::RDBAH => (Way::Receive, RingRegister::AddressHigh),
        r::TDLEN => (Way::Transmit, RingRegister::Length),
        r::RDLEN => (Way::Receive, RingRegister::Length),
        _ => return None,
    })
}
