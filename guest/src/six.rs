//! IPv6 settings of a NIC, from the boot information.

use arrayvec::ArrayVec;
use bootinfo::{AdvertiseInfo, AdvertisedPrefix, MAX_ADDRESSES, NicInfo};
use frame::nd::{PrefixInfo, RouterAdvert};
use router::{Address6, Advertise, MAX_DNS, MAX_PREFIXES};

/// Settings in the form that the router reads.
pub(crate) struct Six {
    pub(crate) addresses: ArrayVec<Address6, MAX_ADDRESSES>,
    prefixes: ArrayVec<PrefixInfo, MAX_PREFIXES>,
    dns: ArrayVec<u128, MAX_DNS>,
    info: AdvertiseInfo,
}

impl Six {
    /// Reads the settings of a NIC.
    pub(crate) fn new(nic: &NicInfo) -> Self {
        let info = nic.advertise;
        let [prefixes, dns] = info.counts;
        let addresses = nic.addresses6.iter().take(nic.address6_count as usize);
        Self {
            addresses: addresses
                .map(|own| Address6 { ip: u128::from_be_bytes(own.ip), prefix: own.prefix.min(128) as u8 })
                .collect(),
            prefixes: info.prefixes.iter().take(prefixes as usize).map(prefix).collect(),
            dns: info.dns.iter().take(dns as usize).map(|ip| u128::from_be_bytes(*ip)).collect(),
            info,
        }
    }

    /// Returns what the NIC advertises; `None`: nothing.
    pub(crate) fn advertise(&self) -> Option<Advertise<'_>> {
        let info = &self.info;
        let seconds = info.interval.map(|seconds| seconds.min(0xffff) as u16);
        let advert = RouterAdvert {
            hop_limit: info.hop_limit as u8,
            managed: info.flags & 1 != 0,
            other: info.flags & 2 != 0,
            lifetime: info.lifetime.min(0xffff) as u16,
            ..RouterAdvert::default()
        };
        (info.on != 0).then_some(Advertise {
            advert,
            interval: (seconds[0], seconds[1]),
            tells_mtu: info.flags & 4 != 0,
            prefixes: &self.prefixes,
            dns: &self.dns,
        })
    }
}

fn prefix(info: &AdvertisedPrefix) -> PrefixInfo {
    PrefixInfo {
        prefix: u128::from_be_bytes(info.prefix),
        len: info.len.min(128) as u8,
        on_link: info.flags & 1 != 0,
        autonomous: info.flags & 2 != 0,
        valid: info.valid,
        preferred: info.preferred,
    }
}
