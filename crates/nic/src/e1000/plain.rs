//! Registers that hold what is written to them and do nothing by themselves, or that say what never changes.

use super::register as r;

/// A row of registers of one kind.
struct Row {
    first: u64,
    count: u64,
    /// Octets from one to the next.
    step: u64,
    /// Bits that software can write; the others are 0.
    writable: u32,
    at_reset: u32,
}

const fn one(first: u64, writable: u32, at_reset: u32) -> Row {
    row(first, 1, 4, writable, at_reset)
}

const fn row(first: u64, count: u64, step: u64, writable: u32, at_reset: u32) -> Row {
    Row { first, count, step, writable, at_reset }
}

/// Where the manual leaves a value at reset open it is 0.
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
    // Link, activity (blinking), 100 and 1000 Mbit/s.
    one(r::LEDCTL, 0xcfcf_cfcf, 0x0706_8302),
    // 48 KiB to receive; the upper half is what is left.
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

/// The values of them all.
#[derive(Clone, Debug)]
pub(super) struct Plain {
    values: Vec<u32>,
}

impl Plain {
    pub(super) fn new() -> Self {
        let values = ROWS.iter().flat_map(|row| (0..row.count).map(|_| row.at_reset));
        Self { values: values.collect() }
    }

    /// The value of a register; `None` if there is none there.
    pub(super) fn read(&self, offset: u64) -> Option<u32> {
        let (index, _) = find(offset)?;
        self.values.get(index).copied()
    }

    /// The value of a register that is one of the rows.
    pub(super) fn get(&self, offset: u64) -> u32 {
        self.read(offset).unwrap_or(0)
    }

    /// Writes what software can write; false if there is no register there.
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

    /// The registers of a table, `count` from `first` on.
    pub(super) fn table<const N: usize>(&self, first: u64) -> [u32; N] {
        let start = find(first).map_or(usize::MAX, |(index, _)| index);
        let mut table = [0; N];
        for (place, value) in table.iter_mut().zip(self.values.iter().skip(start)) {
            *place = *value;
        }
        table
    }
}

/// Where a register's value lies, and its row.
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
