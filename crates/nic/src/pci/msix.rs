//! MSI-X: capability, vector table and pending bits (PCI Local Bus 3.0, 6.8.2).
//!
//! ```text
//! table, 16 octets a vector:  | address low | address high | data | control (bit 0: masked) |
//! pending bits:               64 vectors a quadword, read-only
//! ```
//!
//! A vector *can be sent* when MSI-X is enabled, neither the function nor the vector is masked, and the function is
//! bus master (a message is a write to memory). Otherwise, while MSI-X is enabled, a signal becomes pending and is
//! sent when the last obstacle is gone.

use super::read_registers;

/// Identifier of the capability.
pub const CAPABILITY: u8 = 0x11;
/// Size of a table entry in octets.
pub const ENTRY_LEN: u64 = 16;
/// Offset of the control register in the capability.
pub const CONTROL: u16 = 2;
/// Bit of the control register: MSI-X enabled.
pub const CONTROL_ENABLE: u16 = 1 << 15;
/// Bit of the control register: all vectors masked.
pub const CONTROL_MASK_ALL: u16 = 1 << 14;
/// Maximum number of vectors of a function.
pub const MAX_VECTORS: u16 = 2048;

const VECTOR_MASKED: u32 = 1;

/// An interrupt message: the value to write, and the address to write it to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Guest-physical address.
    pub address: u64,
    /// Value to write.
    pub data: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Vector {
    address_low: u32,
    address_high: u32,
    data: u32,
    control: u32,
    pending: bool,
}

impl Vector {
    const AT_RESET: Self =
        Self { address_low: 0, address_high: 0, data: 0, control: VECTOR_MASKED, pending: false };

    fn masked(&self) -> bool {
        self.control & VECTOR_MASKED != 0
    }

    fn message(&self) -> Message {
        let address = u64::from(self.address_high) << 32 | u64::from(self.address_low);
        Message { address, data: self.data }
    }

    fn octets(&self) -> [u8; ENTRY_LEN as usize] {
        let low = u64::from(self.address_high) << 32 | u64::from(self.address_low);
        let high = u64::from(self.control) << 32 | u64::from(self.data);
        (u128::from(high) << 64 | u128::from(low)).to_le_bytes()
    }

    /// Writes a double word. Reserved bits stay zero: the low two of the address, all but the mask of the control word.
    fn set(&mut self, double_word: u64, value: u32) {
        match double_word {
            0 => self.address_low = value & !3,
            1 => self.address_high = value,
            2 => self.data = value,
            _ => self.control = value & VECTOR_MASKED,
        }
    }
}

/// MSI-X state of a function.
#[derive(Clone, Debug)]
pub struct Msix {
    vectors: Vec<Vector>,
    enabled: bool,
    open: bool,
}

impl Msix {
    /// Creates `vectors` vectors (1 to [`MAX_VECTORS`]), all masked, with MSI-X disabled.
    pub fn new(vectors: u16) -> Self {
        let vectors = vec![Vector::AT_RESET; usize::from(vectors.clamp(1, MAX_VECTORS))];
        Self { vectors, enabled: false, open: false }
    }

    /// Returns the capability from its third octet on, and the mask of the bits that software may write.
    pub fn capability(&self, bar: u8, table: u32, pending: u32) -> ([u8; 10], [u8; 2]) {
        let bar = u32::from(bar & 7);
        let mut body = [0; 10];
        body[..2].copy_from_slice(&(self.len() - 1).to_le_bytes());
        body[2..6].copy_from_slice(&(table & !7 | bar).to_le_bytes());
        body[6..].copy_from_slice(&(pending & !7 | bar).to_le_bytes());
        (body, (CONTROL_ENABLE | CONTROL_MASK_ALL).to_le_bytes())
    }

    /// Returns the number of vectors.
    pub fn len(&self) -> u16 {
        self.vectors.len() as u16
    }

    /// Returns false: there is at least one vector.
    pub fn is_empty(&self) -> bool {
        self.vectors.is_empty()
    }

    /// Applies the capability's control register and the function's bus master bit. Returns true if this changes
    /// whether vectors that are not masked individually can be sent. Disabling MSI-X clears all pending bits.
    pub fn set_control(&mut self, control: u16, bus_master: bool) -> bool {
        self.enabled = control & CONTROL_ENABLE != 0;
        let before = self.open;
        self.open = self.enabled && control & CONTROL_MASK_ALL == 0 && bus_master;
        if !self.enabled {
            self.vectors.iter_mut().for_each(|vector| vector.pending = false);
        }
        self.open != before
    }

    /// Returns true if MSI-X is enabled.
    pub fn enabled(&self) -> bool {
        self.enabled
    }

    /// Returns the vectors that are not masked individually.
    pub fn unmasked(&self) -> impl Iterator<Item = u16> + '_ {
        (0..self.len()).filter(|&n| !self.vectors[usize::from(n)].masked())
    }

    /// Returns the message that a vector would send now; `None` if it cannot be sent, or there is no such vector.
    pub fn message(&self, vector: u16) -> Option<Message> {
        let vector = self.vectors.get(usize::from(vector))?;
        (self.open && !vector.masked()).then(|| vector.message())
    }

    /// Signals a vector: returns the message to send now, if any. If it cannot be sent, it becomes pending.
    pub fn signal(&mut self, vector: u16) -> Option<Message> {
        let message = self.message(vector);
        if message.is_none()
            && self.enabled
            && let Some(vector) = self.vectors.get_mut(usize::from(vector))
        {
            vector.pending = true;
        }
        message
    }

    /// Returns the message of a vector that is pending and can be sent, and clears its pending bit.
    pub fn take_pending(&mut self, vector: u16) -> Option<Message> {
        let message = self.message(vector)?;
        let vector = self.vectors.get_mut(usize::from(vector))?;
        std::mem::take(&mut vector.pending).then_some(message)
    }

    /// Reads the table; zeros beyond its end.
    pub fn table_read(&self, offset: u64, data: &mut [u8]) {
        data.fill(0);
        let first = offset / ENTRY_LEN;
        let skip = offset % ENTRY_LEN;
        // An access of up to 8 octets touches at most two entries.
        let mut entries = [0; 2 * ENTRY_LEN as usize];
        for (n, place) in (first..).zip(entries.as_chunks_mut::<{ ENTRY_LEN as usize }>().0) {
            if let Some(vector) = usize::try_from(n).ok().and_then(|n| self.vectors.get(n)) {
                *place = vector.octets();
            }
        }
        read_registers(&entries, skip, data);
    }

    /// Writes the table: one or two aligned double words. Other accesses are undefined by the specification and are
    /// ignored here. Returns the vector if the message that it would send now has changed.
    pub fn table_write(&mut self, offset: u64, data: &[u8]) -> Option<u16> {
        let (words, rest) = data.as_chunks::<4>();
        if !matches!(words.len(), 1 | 2) || !rest.is_empty() || !offset.is_multiple_of(data.len() as u64) {
            return None;
        }
        let n = u16::try_from(offset / ENTRY_LEN).ok()?;
        let before = self.message(n);
        let vector = self.vectors.get_mut(usize::from(n))?;
        for (word, value) in (offset % ENTRY_LEN / 4..).zip(words) {
            vector.set(word, u32::from_le_bytes(*value));
        }
        (self.message(n) != before).then_some(n)
    }

    /// Reads the pending bits; zeros beyond their end.
    pub fn pending_read(&self, offset: u64, data: &mut [u8]) {
        let mut bits = [0_u8; MAX_VECTORS as usize / 8];
        for (n, vector) in self.vectors.iter().enumerate() {
            bits[n / 8] |= u8::from(vector.pending) << (n % 8);
        }
        read_registers(&bits, offset, data);
    }
}

#[cfg(test)]
mod tests;
