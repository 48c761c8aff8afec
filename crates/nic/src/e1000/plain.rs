//! Registers without side effects: they hold the written value, or have a constant one.

use super::register as r;

/// A range of registers of one kind.
struct Row {
    first: u64,
    count: u64,
    /// Distance of two registers in octets.
    step: u64,
    /// Mask of the bits that software can write; the others are 0.
    writable: u32,
    at_reset: u32,
}

const fn one(first: u64, writable: u32, at_reset: u32) -> Row {
    row(first, 1, 4, writable, at_reset)
}

const fn row(first: u64, count: u64, step: u64, writable: u32, at_reset: u32) -> Row {
    Row { first, count, step, writable, at_reset }
}

/// All such registers. A value that the manual leaves undefined at reset is 0.
const ROWS: [Row; 42] = [
    // Full duplex, 1000 Mbit/s.
    one(r::CTRL, 0x58fc_1be9, 0x0000_0201),
    one(r::CTRL_EXT, 0x00e3_cccf, 0),
    one(r::FLA, 0, 0),
    one(r::FCAL, u32::MAX, 0),
    one(r::FCAH, 0xffff, 0),
    one(r::FCT, 0xffff, 0),
    one(r::VET, 0xffff, 0x8100),
    one(r::RCTL, 0x06df_b3fe, 0),
    one(r::FCTTV, 0xffff, 0),
    one(r::TXCW, u32::MAX, 0),
    one(r::RXCW, 0, 0),
    one(r::TCTL, 0x13bf_fffa, 0),
    one(r::TIPG, 0x3fff_ffff, 0),
    one(r::AIT, 0xffff, 0),
    // LEDs: link, activity (blinking), 100 and 1000 Mbit/s.
    one(r::LEDCTL, 0xcfcf_cfcf, 0x0706_8302),
    // 48 KiB to receive; the upper half, computed on reads, is the rest.
    one(r::PBA, 0xffff, 48),
    one(r::FCRTL, 0x8000_fff8, 0),
    one(r::FCRTH, 0x8000_fff8, 0),
    row(r::RDFH, 5, 8, 0x1fff, 0),
    one(r::RXDCTL, 0x013f_3f3f, 0x0101_0000),
    one(r::RSRPD, 0xfff, 0),
    one(r::TXDMAC, 1, 1),
    row(r::TDFH, 5, 8, 0x1fff, 0),
    one(r::TXDCTL, 0xff3f_3f3f, 0),
    one(r::TSPMT, u32::MAX, 0x0100_0400),
    one(r::RXCSUM, 0x7ff, 0),
    row(r::MTA, 128, 4, u32::MAX, 0),
    row(r::RAL, 16, 8, u32::MAX, 0),
    row(r::RAH, 16, 8, 0x8003_ffff, 0),
    row(r::VFTA, 128, 4, u32::MAX, 0),
    one(r::WUC, 0b1011, 0),
    one(r::WUFC, 0x000f_80ff, 0),
    one(r::WUS, 0, 0),
    one(r::MANC, u32::MAX, 0),
    one(r::IPAV, 0x0001_000f, 0),
    row(r::IP4AT, 4, 8, u32::MAX, 0),
    row(r::IP6AT, 4, 4, u32::MAX, 0),
    one(r::WUPL, 0, 0),
    row(r::WUPM, 32, 4, 0, 0),
    row(r::FFLT, 4, 8, 0x7ff, 0),
    row(r::FFMT, 128, 8, 0xf, 0),
    row(r::FFVT, 128, 8, u32::MAX, 0),
];

/// Current values of the registers.
#[derive(Clone, Debug)]
pub(super) struct StatelessRegisters {
    values: Vec<u32>,
}

impl StatelessRegisters {
    pub(super) fn new() -> Self {
        let values = ROWS.iter().flat_map(|row| (0..row.count).map(|_| row.at_reset));
        Self { values: values.collect() }
    }

    /// Returns the value of a register; `None` if there is none at this offset.
    pub(super) fn read(&self, offset: u64) -> Option<u32> {
        let (index, _) = find(offset)?;
        self.values.get(index).copied()
    }

    /// Returns the value of a register that is known to be one of the rows.
    pub(super) fn get(&self, offset: u64) -> u32 {
        self.read(offset).unwrap_or(0)
    }

    /// Writes the writable bits of a register; returns false if there is none at this offset.
    pub(super) fn write(&mut self, offset: u64, value: u32) -> bool {
        let place = find(offset).and_then(|(index, row)| Some((self.values.get_mut(index)?, row)));
        match place {
            Some((place, row)) => {
                *place = value & row.writable;
                true
            }
            None => false,
        }
    }

    /// Returns the `N` registers of a table, from `first` on.
    pub(super) fn table<const N: usize>(&self, first: u64) -> [u32; N] {
        let start = find(first).map_or(usize::MAX, |(index, _)| index);
        let mut table = [0; N];
        for (place, value) in table.iter_mut().zip(self.values.iter().skip(start)) {
            *place = *value;
        }
        table
    }
}

/// Returns the index of a register's value, and its row.
fn find(offset: u64) -> Option<(usize, &'static Row)> {
    let mut index = 0;
    for row in &ROWS {
        let distance = offset.checked_sub(row.first);
        if let Some(distance) = distance.filter(|d| d.is_multiple_of(row.step) && d / row.step < row.count) {
            return Some(((index + distance / row.step) as usize, row));
        }
        index += row.count;
    }
    None
}
