//! End station: its memory, and the duty around it.

use arrayvec::ArrayVec;
use bootinfo::{BootFailure, MAX_ADDRESSES, Station as Kind};
use frame::Mac;
use router::Address;
use station::{LEAST_OCTETS, MOST_OCTETS, SocketMemory, Station, StationConfig};

use crate::arena::Arena;
use crate::boot::Vcpu;
use crate::buffer::FrameBuffer;
use crate::halt;
use crate::platform::Firmware;
use crate::roles;
use crate::serve::Duty;

/// Station, or its placeholder on the other vCPUs.
pub(crate) enum StationDuty {
    /// The station, on vCPU 0.
    Station(&'static mut Station<'static, FrameBuffer>),
    /// A vCPU without one.
    Nobody,
}

impl Duty for StationDuty {
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
pub(crate) fn host(vcpu: &mut Vcpu) -> Result<StationDuty, BootFailure> {
    if vcpu.index != 0 {
        return Ok(StationDuty::Nobody);
    }
    let traffic = &vcpu.info.traffic;
    let addresses = addresses(vcpu);
    let orders = StationConfig {
        duty: Kind::from_number(traffic.station).ok_or(BootFailure::BootInfo)?,
        mac: Mac(*vcpu.macs.first().ok_or(BootFailure::Nic)?),
        mtu: vcpu.info.nics[0].mtu as usize,
        addresses: &addresses,
        to_ip: traffic.to_ip,
        write_len: traffic.write_len as usize,
        seed: halt::ticks(),
    };
    let arena = &mut vcpu.arena;
    let places = arena.keep(SocketMemory::default()).ok_or(BootFailure::Memory)?;
    let octets = octets(arena).ok_or(BootFailure::Memory)?;
    let tally = &vcpu.firmware.shared().station;
    let station = Station::new(&orders, (places, octets), tally, &mut vcpu.firmware);
    vcpu.arena
        .keep(station.ok_or(BootFailure::BootInfo)?)
        .map(StationDuty::Station)
        .ok_or(BootFailure::Memory)
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
