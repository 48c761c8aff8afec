//! End station: its memory, and the duty around it.

use arrayvec::ArrayVec;
use bootinfo::{MAX_ADDRESSES, Station as Kind, Trouble};
use frame::Mac;
use router::Address;
use station::{LEAST_OCTETS, MOST_OCTETS, Orders, Places, Station};

use crate::arena::Arena;
use crate::boot::Vcpu;
use crate::buffer::FrameBuffer;
use crate::halt;
use crate::platform::Firmware;
use crate::roles;
use crate::serve::Duty;

/// Station, or its placeholder on the other vCPUs.
pub(crate) enum Host {
    /// The station, on vCPU 0.
    Station(&'static mut Station<'static, FrameBuffer>),
    /// A vCPU without one.
    Nobody,
}

impl Duty for Host {
    fn pass(&mut self, firmware: &mut Firmware) -> usize {
        match self {
            Self::Station(station) => {
                let frames = station.pass(firmware);
                roles::count(firmware, frames)
            }
            Self::Nobody => 0,
        }
    }

    fn deadline(&self) -> Option<u64> {
        match self {
            Self::Station(station) => station.next_deadline(),
            Self::Nobody => None,
        }
    }
}

/// Creates the station that the host configured. It has one network stack, so only vCPU 0 runs it.
pub(crate) fn host(vcpu: &mut Vcpu) -> Result<Host, Trouble> {
    if vcpu.index != 0 {
        return Ok(Host::Nobody);
    }
    let traffic = &vcpu.info.traffic;
    let addresses = addresses(vcpu);
    let orders = Orders {
        duty: Kind::from_number(traffic.station).ok_or(Trouble::BootInfo)?,
        mac: Mac(*vcpu.macs.first().ok_or(Trouble::Nic)?),
        mtu: vcpu.info.nics[0].mtu as usize,
        addresses: &addresses,
        to_ip: traffic.to_ip,
        write_len: traffic.write_len as usize,
        seed: halt::ticks(),
    };
    let arena = &mut vcpu.arena;
    let places = arena.keep(Places::default()).ok_or(Trouble::Memory)?;
    let octets = octets(arena).ok_or(Trouble::Memory)?;
    let tally = &vcpu.firmware.shared().station;
    let station = Station::new(&orders, (places, octets), tally, &mut vcpu.firmware);
    vcpu.arena.keep(station.ok_or(Trouble::BootInfo)?).map(Host::Station).ok_or(Trouble::Memory)
}

/// Returns the addresses of NIC 0, or that of the traffic parameters if the NIC has none.
fn addresses(vcpu: &Vcpu) -> ArrayVec<Address, MAX_ADDRESSES> {
    let mut addresses = roles::addresses(&vcpu.info.nics[0]);
    if addresses.is_empty() {
        addresses.push(Address { ip: vcpu.info.traffic.from_ip, prefix: 24 });
    }
    addresses
}

/// Allocates memory for the sockets' buffers: as much as is useful, halved until it is available.
fn octets(arena: &mut Arena) -> Option<&'static mut [u8]> {
    let mut octets = MOST_OCTETS;
    while octets >= LEAST_OCTETS {
        if let Some(memory) = arena.slice(octets as u64, 0u8) {
            return Some(memory);
        }
        octets /= 2;
    }
    None
}
