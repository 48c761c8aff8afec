//! Boot information about IPv6: addresses, router advertisements, static neighbours.

use bootinfo::{Address6, AdvertiseInfo, AdvertisedPrefix, MAX_DNS, MAX_PREFIXES, NeighbourInfo, NicInfo};
use config::Router;
use config::six::{Advertise, Six};

/// Returns the static neighbours of both families.
pub(super) fn neighbours(plan: &Router) -> Vec<NeighbourInfo> {
    let four = plan.neighbours.iter().map(|known| (known.address.to_ipv6_mapped(), known.nic, known.mac));
    let six = plan.forwarding.neighbours6.iter().map(|known| (known.address, known.nic, known.mac));
    let info = |(address, nic, mac): (std::net::Ipv6Addr, usize, config::Mac)| {
        let [a, b, c, d, e, f] = mac.0;
        NeighbourInfo { ip: address.octets(), nic: nic as u32, mac: [a, b, c, d, e, f, 0, 0] }
    };
    four.chain(six).map(info).collect()
}

/// Returns what a NIC is told about IPv6; all other fields are at their defaults.
pub(super) fn nic_info(six: &Six) -> NicInfo {
    let mut info = NicInfo::default();
    for (place, own) in info.addresses6.iter_mut().zip(&six.addresses) {
        *place = Address6 { ip: own.ip.octets(), prefix: own.len.into() };
        info.address6_count += 1;
    }
    info.advertise = six.advertise.as_ref().map_or_else(AdvertiseInfo::default, advertise);
    info
}

fn advertise(wanted: &Advertise) -> AdvertiseInfo {
    let flags = u32::from(wanted.managed) | u32::from(wanted.other) << 1 | u32::from(wanted.mtu) << 2;
    let counts = [wanted.prefixes.len().min(MAX_PREFIXES) as u32, wanted.dns.len().min(MAX_DNS) as u32];
    let mut info = AdvertiseInfo {
        on: 1,
        interval: [wanted.least_interval(), wanted.interval],
        hop_limit: wanted.hop_limit,
        flags,
        lifetime: wanted.lifetime,
        counts,
        ..AdvertiseInfo::default()
    };
    for (place, prefix) in info.prefixes.iter_mut().zip(&wanted.prefixes) {
        *place = AdvertisedPrefix {
            prefix: prefix.network.octets(),
            len: prefix.len.into(),
            // On the link, and hosts form addresses in it.
            flags: 3,
            valid: wanted.valid,
            preferred: wanted.preferred,
        };
    }
    for (place, server) in info.dns.iter_mut().zip(&wanted.dns) {
        *place = server.octets();
    }
    info
}
