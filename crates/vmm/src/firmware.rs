//! The firmware images that `build.rs` has built.

use bootinfo::BootInfo;

static PLAIN: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/firmware"));
static JUMBO: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/firmware-jumbo"));

/// A build of the firmware. They differ in the length of their frame buffers, which is so a constant in both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Firmware {
    /// For NICs without jumbo frames.
    #[default]
    Plain,
    /// For NICs with jumbo frames, beside others.
    Jumbo,
}

impl Firmware {
    /// Returns the build for this boot information.
    pub fn of(info: &BootInfo) -> Self {
        if info.is_jumbo() { Self::Jumbo } else { Self::Plain }
    }

    /// Returns its image, an ELF.
    pub(crate) const fn image(self) -> &'static [u8] {
        match self {
            Self::Plain => PLAIN,
            Self::Jumbo => JUMBO,
        }
    }
}

#[cfg(test)]
mod tests {
    use bootinfo::{Role, buffers};

    use super::*;

    #[test]
    fn the_mtu_decides_which_build_runs() {
        let mut info = BootInfo::new(Role::Router, 1);
        info.nic_count = 1;
        info.nics[0].mtu = buffers::PLAIN_MTU;
        assert_eq!(Firmware::of(&info), Firmware::Plain);
        info.nics[0].mtu = buffers::MOST_MTU;
        assert_eq!(Firmware::of(&info), Firmware::Jumbo);
        assert!(Firmware::Plain.image() != Firmware::Jumbo.image(), "they were built differently");
    }
}
