//! Features of interfaces by the family `ethtool` (`linux/ethtool_netlink.h`), as `ethtool -k` shows them.

use std::io;

use netlink_packet_core::NLM_F_ACK;

use super::{Generic, Request};
use crate::attribute::{Attributes, attributes, text};

const FAMILY: &str = "ethtool";
/// `ETHTOOL_MSG_FEATURES_GET` and `_SET`.
const GET: u8 = 11;
const SET: u8 = 12;
/// Attributes of both commands (`ETHTOOL_A_FEATURES_*`).
const HEADER: u16 = 1;
const WANTED: u16 = 3;
const ACTIVE: u16 = 4;
/// Attributes of a header (`ETHTOOL_A_HEADER_*`), and a flag in it: acknowledge without a detailed reply.
const INDEX: u16 = 1;
const FLAGS: u16 = 3;
const OMIT_REPLY: u32 = 2;
/// Attributes of a bit set (`ETHTOOL_A_BITSET_*`), of its list, and of one bit.
const ALL_SET: u16 = 1;
const BITS: u16 = 3;
const BIT: u16 = 1;
const BIT_NAME: u16 = 2;
const BIT_VALUE: u16 = 3;

impl Generic {
    /// Returns the names of the active features of an interface, such as `rx-gro`.
    ///
    /// # Errors
    /// ENODEV: there is no such interface. ENOENT: this kernel has no ethtool netlink (Linux before 5.6).
    pub fn features(&self, index: u32) -> io::Result<Vec<String>> {
        let asked = Attributes::default().nest(HEADER, &Attributes::default().number(INDEX, index));
        let question = Request { family: self.family(FAMILY)?, command: GET, attributes: &asked };
        let answer = self.ask(question, NLM_F_ACK)?;
        let sets = answer.iter().flat_map(|body| attributes(body)).filter(|(kind, _)| *kind == ACTIVE);
        Ok(sets.flat_map(|(_, set)| names(set)).collect())
    }

    /// Turns features of an interface on or off; others are unchanged. A driver may ignore a feature silently.
    ///
    /// # Errors
    /// ENODEV: there is no such interface. EOPNOTSUPP: this kernel does not know a name. ENOENT: this kernel has no ethtool
    /// netlink.
    pub fn set_features(&self, index: u32, features: &[(&str, bool)]) -> io::Result<()> {
        let header = Attributes::default().number(INDEX, index).number(FLAGS, OMIT_REPLY);
        let bits = features.iter().fold(Attributes::default(), |bits, (name, on)| {
            let bit = Attributes::default().text(BIT_NAME, name);
            bits.nest(BIT, &if *on { bit.with(BIT_VALUE, &[]) } else { bit })
        });
        let set = Attributes::default().nest(BITS, &bits);
        let asked = Attributes::default().nest(HEADER, &header).nest(WANTED, &set);
        let question = Request { family: self.family(FAMILY)?, command: SET, attributes: &asked };
        self.ask(question, NLM_F_ACK).map(drop)
    }
}

/// Names of the set bits of a bit set. A flag (`ETHTOOL_A_BITSET_NOMASK`) says that the set lists only these.
pub(super) fn names(set: &[u8]) -> Vec<String> {
    let lists_ones = attributes(set).any(|(kind, _)| kind == ALL_SET);
    let lists = attributes(set).filter(|(kind, _)| *kind == BITS);
    let bits = lists.flat_map(|(_, list)| attributes(list)).filter(|(kind, _)| *kind == BIT);
    let ones = bits.filter(|(_, bit)| lists_ones || attributes(bit).any(|(kind, _)| kind == BIT_VALUE));
    ones.filter_map(|(_, bit)| attributes(bit).find(|(kind, _)| *kind == BIT_NAME))
        .filter_map(|(_, name)| text(name).map(str::to_owned))
        .collect()
}
