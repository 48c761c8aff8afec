//! The PHY inside an 82540EM: a Marvell 88E1011 as drivers see it through MDIC (82540EM manual, "MDI Control Register",
//! "PHY Registers"; IEEE 802.3, clauses 22, 28 and 40).
//!
//! Its link partner supports all modes up to 1000BASE-T full duplex, except pause. Negotiation takes no time.

/// Address of the PHY.
const ADDRESS: u32 = 1;
const REGISTERS: usize = 32;

/// Register numbers.
pub(super) mod number {
    pub(in crate::e1000) const CONTROL: usize = 0;
    pub(in crate::e1000) const STATUS: usize = 1;
    pub(in crate::e1000) const ID: usize = 2;
    pub(in crate::e1000) const ID_LOW: usize = 3;
    pub(in crate::e1000) const ADVERTISED: usize = 4;
    pub(in crate::e1000) const PARTNER: usize = 5;
    pub(in crate::e1000) const EXPANSION: usize = 6;
    pub(in crate::e1000) const NEXT_PAGE: usize = 7;
    pub(in crate::e1000) const CONTROL_1000: usize = 9;
    pub(in crate::e1000) const STATUS_1000: usize = 10;
    pub(in crate::e1000) const EXTENDED_STATUS: usize = 15;
    pub(in crate::e1000) const SPECIFIC_CONTROL: usize = 16;
    pub(in crate::e1000) const SPECIFIC_STATUS: usize = 17;
    pub(in crate::e1000) const INTERRUPT_ENABLE: usize = 18;
    pub(in crate::e1000) const INTERRUPT_STATUS: usize = 19;
    pub(in crate::e1000) const EXTENDED_CONTROL: usize = 20;
    pub(in crate::e1000) const ERRORS: usize = 21;
    pub(in crate::e1000) const PAGE: usize = 29;
    pub(in crate::e1000) const PAGED: usize = 30;
}

/// Control: reset; clears itself.
pub(super) const RESET: u16 = 1 << 15;
/// Control: loopback.
pub(super) const LOOPBACK: u16 = 1 << 14;
const SPEED_100: u16 = 1 << 13;
/// Control: enable negotiation.
pub(super) const NEGOTIATE: u16 = 1 << 12;
/// Control: powered down.
pub(super) const POWER_DOWN: u16 = 1 << 11;
const ISOLATE: u16 = 1 << 10;
/// Control: restart negotiation; clears itself.
pub(super) const RESTART: u16 = 1 << 9;
const FULL: u16 = 1 << 8;
const SPEED_1000: u16 = 1 << 6;

/// Status: negotiation is complete.
pub(super) const COMPLETE: u16 = 1 << 5;
/// Status: the link is up.
pub(super) const LINK: u16 = 1 << 2;
/// Abilities in the status register: 10 and 100 Mbit/s in both duplexes, extended status, preamble suppression,
/// negotiation, extended registers.
const ABILITIES: u16 = 0x7949;
/// Interrupt status: changes of link, negotiation, speed and duplex.
const CHANGED: u16 = 1 << 10 | 1 << 11 | 1 << 13 | 1 << 14;

/// Advertised: 802.3, and all modes of 10 and 100 Mbit/s.
const ADVERTISED_ALL: u16 = 0x01e1;
/// Advertised: pause, both kinds.
const PAUSE: u16 = 3 << 10;
/// Control of 1000BASE-T: both duplexes.
const ADVERTISED_1000: u16 = 3 << 8;

/// Link parameters in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link {
    /// Speed in the encoding of STATUS.SPEED: 0: 10, 1: 100, 2: 1000 Mbit/s.
    pub(super) speed: u32,
    pub(super) full: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Phy {
    registers: [u16; REGISTERS],
    plugged: bool,
    mdic: u32,
}

/// MDIC: operation write.
pub(super) const WRITE: u32 = 1 << 26;
/// MDIC: operation read.
pub(super) const READ: u32 = 2 << 26;
const OPERATION: u32 = 3 << 26;
/// MDIC: the operation is complete.
pub(super) const READY: u32 = 1 << 28;
/// MDIC: interrupt on completion.
pub(super) const INTERRUPT: u32 = 1 << 29;
/// MDIC: error, no PHY answered.
pub(super) const ERROR: u32 = 1 << 30;

impl Phy {
    pub(super) fn new() -> Self {
        let mut phy = Self { registers: [0; REGISTERS], plugged: true, mdic: READY };
        phy.reset();
        phy
    }

    /// Resets the registers of the PHY.
    pub(super) fn reset(&mut self) {
        self.registers = [0; REGISTERS];
        for (number, value) in [
            (number::CONTROL, NEGOTIATE | FULL | SPEED_1000),
            (number::ADVERTISED, ADVERTISED_ALL | PAUSE),
            (number::NEXT_PAGE, 0x2001),
            (number::CONTROL_1000, ADVERTISED_1000),
            (number::SPECIFIC_CONTROL, 0x0068),
            (number::EXTENDED_CONTROL, 0x0d60),
        ] {
            self.registers[number] = value;
        }
        self.registers[number::INTERRUPT_STATUS] = CHANGED;
    }

    /// Plugs or unplugs the cable.
    pub(super) fn plug(&mut self, plugged: bool) {
        if std::mem::replace(&mut self.plugged, plugged) != plugged {
            self.registers[number::INTERRUPT_STATUS] |= CHANGED;
        }
    }

    /// Returns true if the PHY loops transmitted frames back.
    pub(super) fn loopback(&self) -> bool {
        self.control() & LOOPBACK != 0
    }

    /// Returns the link parameters, if there is a link.
    pub(super) fn link(&self) -> Option<Link> {
        let control = self.control();
        if !self.plugged && !self.loopback() || control & (POWER_DOWN | ISOLATE) != 0 {
            return None;
        }
        if control & NEGOTIATE != 0 {
            return self.negotiated();
        }
        let speed = match (control & SPEED_1000 != 0, control & SPEED_100 != 0) {
            (false, false) => 0,
            (false, true) => 1,
            (true, _) => 2,
        };
        Some(Link { speed, full: control & FULL != 0 })
    }

    /// Returns the best of the advertised modes.
    fn negotiated(&self) -> Option<Link> {
        let advertised = self.registers[number::ADVERTISED];
        let gigabit = self.registers[number::CONTROL_1000];
        let best = [
            (gigabit, 1 << 9, 2, true),
            (gigabit, 1 << 8, 2, false),
            (advertised, 1 << 8, 1, true),
            (advertised, 1 << 7, 1, false),
            (advertised, 1 << 6, 0, true),
            (advertised, 1 << 5, 0, false),
        ];
        let found = best.into_iter().find(|(register, bit, ..)| register & bit != 0);
        found.map(|(_, _, speed, full)| Link { speed, full })
    }

    fn control(&self) -> u16 {
        self.registers[number::CONTROL]
    }

    /// Reads MDIC.
    pub(super) fn mdic(&self) -> u32 {
        self.mdic
    }

    /// Resets MDIC together with the device; the PHY's registers are not reset.
    pub(super) fn reset_mdic(&mut self) {
        self.mdic = READY;
    }

    /// Executes a write to MDIC; returns true if the PHY negotiates again.
    pub(super) fn write_mdic(&mut self, value: u32) -> bool {
        let number = (value >> 16 & 0x1f) as usize;
        self.mdic = value & !(READY | ERROR) & 0x3fff_ffff | READY;
        let operation = value & OPERATION;
        if value >> 21 & 0x1f != ADDRESS {
            self.mdic |= ERROR;
            // No PHY pulls the line down, so a read yields ones.
            self.mdic |= if operation == READ { 0xffff } else { 0 };
        } else if operation == READ {
            self.mdic = self.mdic & !0xffff | u32::from(self.read(number));
        } else if operation == WRITE {
            self.write(number, value as u16);
            return number == number::CONTROL && value as u16 & (RESET | RESTART) != 0;
        } else {
            self.mdic |= ERROR;
        }
        false
    }

    pub(super) fn read(&mut self, number: usize) -> u16 {
        let link = self.link();
        match number {
            number::STATUS => ABILITIES | self.status(link),
            number::ID => 0x0141,
            number::ID_LOW => 0x0c20,
            number::PARTNER if self.partner_seen(link) => 0x4000 | ADVERTISED_ALL,
            number::EXPANSION if self.partner_seen(link) => 0b11,
            number::STATUS_1000 if self.partner_seen(link) => 0x3c00,
            // 1000BASE-T in both duplexes.
            number::EXTENDED_STATUS => 0x3000,
            number::SPECIFIC_STATUS => specific_status(link),
            number::INTERRUPT_STATUS => std::mem::take(&mut self.registers[number]),
            number::ERRORS => 0,
            _ => self.registers.get(number).copied().unwrap_or(0),
        }
    }

    fn status(&self, link: Option<Link>) -> u16 {
        let complete = if self.partner_seen(link) { COMPLETE } else { 0 };
        let up = if link.is_some() { LINK } else { 0 };
        complete | up
    }

    fn partner_seen(&self, link: Option<Link>) -> bool {
        link.is_some() && self.control() & NEGOTIATE != 0
    }

    pub(super) fn write(&mut self, number: usize, value: u16) {
        match number {
            number::CONTROL if value & RESET != 0 => {
                // The negotiation settings survive a software reset.
                let kept = [number::ADVERTISED, number::CONTROL_1000, number::SPECIFIC_CONTROL];
                let kept = kept.map(|number| (number, self.registers[number]));
                self.reset();
                kept.into_iter().for_each(|(number, value)| self.registers[number] = value);
                self.registers[number::CONTROL] = value & !(RESET | RESTART);
            }
            number::CONTROL => {
                self.registers[number] = value & !RESTART & 0xffc0;
                self.registers[number::INTERRUPT_STATUS] |= CHANGED;
            }
            number::ADVERTISED
            | number::NEXT_PAGE
            | number::CONTROL_1000
            | number::SPECIFIC_CONTROL
            | number::INTERRUPT_ENABLE
            | number::EXTENDED_CONTROL
            | 22..=28
            | number::PAGE
            | number::PAGED => self.registers[number] = value,
            _ => {}
        }
    }
}

/// Returns the specific status: speed, duplex, both resolved, link; a short cable.
fn specific_status(link: Option<Link>) -> u16 {
    let Some(link) = link else { return 0 };
    let full = if link.full { 1 << 13 } else { 0 };
    (link.speed as u16) << 14 | full | 1 << 11 | 1 << 10
}
