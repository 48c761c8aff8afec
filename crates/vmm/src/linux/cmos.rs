//! Real-time clock of a PC (Motorola MC146818 data sheet): it shows the time in UTC and cannot be set. Its
//! memory is empty, and its alarms never fire.

use std::time::{SystemTime, UNIX_EPOCH};

/// Register A: a time base of 32,768 Hz, and no update in progress.
const A: u8 = 0x26;
/// Register B: 24 hours, BCD.
const B: u8 = 0x02;
/// Register D: the battery is good.
const D: u8 = 0x80;
/// Register of the century on PCs.
const CENTURY: u8 = 0x32;

/// The clock, with its current index register.
#[derive(Debug, Default)]
pub(super) struct Cmos {
    index: u8,
}

impl Cmos {
    /// Selects a register; the highest bit is the NMI mask and does not belong to the clock.
    pub(super) fn choose(&mut self, index: u8) {
        self.index = index & 0x7f;
    }

    /// Reads the selected register.
    pub(super) fn read(&self) -> u8 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        register(self.index, since)
    }
}

/// Returns a register's value at this many seconds after the beginning of 1970.
fn register(index: u8, seconds: u64) -> u8 {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    match index {
        0 => bcd(second % 60),
        2 => bcd(second / 60 % 60),
        4 => bcd(second / 3600),
        // 1 is Sunday; 1970 began on a Thursday.
        6 => bcd((days + 4) % 7 + 1),
        7 => bcd(day),
        8 => bcd(month),
        9 => bcd(year % 100),
        0xa => A,
        0xb => B,
        0xd => D,
        CENTURY => bcd(year / 100),
        _ => 0,
    }
}

/// Returns year, month and day of the month, at this many days after 1 January 1970.
fn date(mut days: u64) -> (u64, u64, u64) {
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in lengths {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

fn bcd(value: u64) -> u8 {
    ((value / 10) << 4 | (value % 10)) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(seconds: u64) -> Vec<u8> {
        [CENTURY, 9, 8, 7, 6, 4, 2, 0].map(|index| register(index, seconds)).to_vec()
    }

    #[test]
    fn it_tells_the_time() {
        assert_eq!(read(0), [0x19, 0x70, 1, 1, 5, 0, 0, 0]);
        // 29 February 2000, a Tuesday, 23:59:59.
        assert_eq!(read(951_868_799), [0x20, 0, 2, 0x29, 3, 0x23, 0x59, 0x59]);
        // 1 March 2100: no leap year. A Monday.
        assert_eq!(read(4_107_542_400), [0x21, 0, 3, 1, 2, 0, 0, 0]);
    }

    #[test]
    fn its_state_is_that_of_a_running_clock() {
        let mut cmos = Cmos::default();
        let mut read = |index| {
            cmos.choose(index);
            cmos.read()
        };
        assert_eq!((read(0x8a), read(0xb), read(0xd), read(0x7f)), (A, B, D, 0));
    }
}
