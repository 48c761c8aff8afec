//! VLAN tags (IEEE 802.1Q and 802.1ad), in a frame or as metadata beside it.
//!
//! ```text
//!   | destination 6 | source 6 | TPID 2 | PCP 3 bits, DEI 1, VID 12 | ethertype 2 | ...
//!                              \_______________ tag _______________/
//! ```

use crate::{
    Error, ethernet,
    octets::{array, be16},
};

/// Length of a tag in octets.
pub const TAG: usize = 4;
/// Ethertype of a customer tag (802.1Q).
pub const CUSTOMER: u16 = 0x8100;
/// Ethertype of a service tag (802.1ad), the outer one of QinQ.
pub const SERVICE: u16 = 0x88a8;
/// Maximum number of tags of a frame that are read.
pub const MOST: usize = 2;
/// Largest number of a VLAN; 0 marks a frame that has only a priority, 4095 is reserved.
pub const LARGEST_ID: u16 = 4094;
/// Offset of the first tag in a frame.
pub const AT: usize = ethernet::HEADER - 2;

/// Returns true if this ethertype announces a tag.
#[inline(always)]
pub const fn is_tag(ethertype: u16) -> bool {
    matches!(ethertype, CUSTOMER | SERVICE)
}

/// Returns the numbers of the VLANs that these tags name, in their order: a tag that only has a priority names none.
pub fn ids(tags: &[Tag]) -> impl Iterator<Item = u16> + Clone {
    tags.iter().map(|tag| tag.id()).filter(|id| *id != 0)
}

/// A tag: the TPID and the TCI, as Linux reports them beside a frame (`tp_vlan_tpid` and `tp_vlan_tci` of packet(7)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tag {
    /// [`CUSTOMER`] or [`SERVICE`].
    pub tpid: u16,
    /// Priority, drop eligible indicator and number of the VLAN.
    pub tci: u16,
}

impl Tag {
    /// Creates the tag of a VLAN, without priority.
    pub const fn new(tpid: u16, id: u16) -> Self {
        Self { tpid, tci: id & 0xfff }
    }

    /// Returns the number of the VLAN; 0: the frame is in none, the tag only has a priority.
    pub const fn id(self) -> u16 {
        self.tci & 0xfff
    }

    /// Encodes the tag.
    pub const fn octets(self) -> [u8; TAG] {
        let [a, b] = self.tpid.to_be_bytes();
        let [c, d] = self.tci.to_be_bytes();
        [a, b, c, d]
    }
}

/// The tags of a frame, the outer one first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tags {
    tags: [Tag; MOST],
    count: usize,
    /// Ethertype after the tags.
    pub ethertype: u16,
}

impl Tags {
    /// Reads the tags of a frame. A third tag is left as the ethertype.
    ///
    /// # Errors
    /// [`Error::Short`] if the frame ends before the ethertype.
    pub fn parse(frame: &[u8]) -> Result<Self, Error> {
        let mut read = Self::default();
        loop {
            let at = AT + read.count * TAG;
            read.ethertype = be16::<2>(&array(frame, at)?, 0);
            if !is_tag(read.ethertype) || read.count == MOST {
                return Ok(read);
            }
            read.tags[read.count] = Tag { tpid: read.ethertype, tci: be16::<2>(&array(frame, at + 2)?, 0) };
            read.count += 1;
        }
    }

    /// Returns the tags, the outer one first.
    pub fn tags(&self) -> &[Tag] {
        &self.tags[..self.count]
    }

    /// Returns the length of the Ethernet header with its tags, in octets.
    pub const fn header(&self) -> usize {
        ethernet::HEADER + self.count * TAG
    }
}

/// Removes the outer tag of a frame by moving what follows it; returns the tag. The frame is then [`TAG`] octets shorter.
///
/// # Errors
/// [`Error::Kind`] if there is no tag, [`Error::Short`] if it is not complete.
pub fn remove(frame: &mut [u8]) -> Result<Tag, Error> {
    let [a, b, c, d] = array(frame, AT)?;
    let tag = Tag { tpid: u16::from_be_bytes([a, b]), tci: u16::from_be_bytes([c, d]) };
    if !is_tag(tag.tpid) {
        return Err(Error::Kind);
    }
    frame.copy_within(AT + TAG.., AT);
    Ok(tag)
}

/// Inserts an outer tag into a frame, whose last [`TAG`] octets are free and are overwritten.
///
/// # Errors
/// [`Error::Short`] if there is no room.
pub fn insert(frame: &mut [u8], tag: Tag) -> Result<(), Error> {
    let end = frame.len().checked_sub(TAG).filter(|end| *end >= AT).ok_or(Error::Short)?;
    frame.copy_within(AT..end, AT + TAG);
    frame[AT..AT + TAG].copy_from_slice(&tag.octets());
    Ok(())
}
