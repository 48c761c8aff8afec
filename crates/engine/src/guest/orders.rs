//! What a router's file makes of its NICs and of its firmware's orders.

use bootinfo::{
    Address, BootInfo, MAX_ADDRESSES, MAX_NEIGHBOURS, MAX_NICS, NeighbourInfo, NicInfo, Role, TrafficInfo,
};
use config::{Itr, NicModel, Router, Spin, VhostThreads};
use nic::moderation::Moderation;
use nic::virtio_net::NicConfig;
use nic::virtio_net::features::MQ;
use vmm::{E1000Nic, Model};

/// First PCI slot of a NIC; slot 0 is where a host bridge would be.
pub(super) const FIRST_SLOT: usize = 1;
/// Empty passes of a firmware's main loop with two NICs that fit into a microsecond, about.
const PASSES_A_MICROSECOND: u128 = 66;

/// What a guest does, if it is not to be a router.
#[derive(Clone, Copy, Debug)]
pub struct Duty {
    /// Its role.
    pub role: Role,
    /// What it sends, if it is a source.
    pub traffic: TrafficInfo,
}

impl Default for Duty {
    fn default() -> Self {
        Self { role: Role::Router, traffic: TrafficInfo::default() }
    }
}

/// The device of a NIC. The host moderates the interrupts of virtio-net; an e1000's driver does it by ITR, unless the
/// device is to choose.
pub(super) fn model(plan: &Router, nic: &config::Nic, several_senders: bool) -> Model {
    match nic.model {
        NicModel::VirtioNet => Model::VirtioNet {
            in_access: plan.vhost == VhostThreads::Vmm,
            config: virtio_net(plan, nic, several_senders),
            moderation: match nic.itr {
                Itr::Every(0) => Moderation::Off,
                Itr::Every(units) => Moderation::Every(units),
                Itr::Adaptive => Moderation::Adaptive,
            },
        },
        NicModel::E1000 => Model::E1000(E1000Nic {
            config: e1000(nic),
            mode: nic.mode,
            interrupt_vcpu: interrupt_vcpu(plan) as usize,
        }),
    }
}

/// The device of a NIC whose rings a peer serves that can do so much.
pub(super) fn handed(plan: &Router, nic: &config::Nic, features: u64) -> NicConfig {
    // Our firmware has a pair for each vCPU or none at all: a peer with too few is told of when it comes.
    NicConfig { servable: features | MQ, ..virtio_net(plan, nic, false) }
}

fn virtio_net(plan: &Router, nic: &config::Nic, several_senders: bool) -> NicConfig {
    NicConfig {
        mtu: nic.mtu as u16,
        queue_pairs: plan.queue_pairs().max(nic.queues) as u16,
        queue_size_max: nic.ring as u16,
        in_order: !several_senders,
        offloads: nic.offload,
        ..NicConfig::new(nic.mac.0)
    }
}

fn e1000(nic: &config::Nic) -> nic::e1000::Config {
    nic::e1000::Config {
        mtu: nic.mtu as u16,
        moderation: if nic.itr == Itr::Adaptive { Moderation::Adaptive } else { Moderation::Off },
        ..nic::e1000::Config::new(nic.mac.0)
    }
}

/// The vCPU that an e1000 interrupts: the last one, so that of two the first is left to the frames.
fn interrupt_vcpu(plan: &Router) -> u32 {
    plan.vcpus.saturating_sub(1)
}

/// The firmware's orders.
pub(super) fn orders(plan: &Router, duty: Duty) -> BootInfo {
    let mut nics = [NicInfo::default(); MAX_NICS];
    for (slot, (info, nic)) in (FIRST_SLOT..).zip(nics.iter_mut().zip(&plan.nics)) {
        *info = NicInfo { interrupt_vcpu: interrupt_vcpu(plan), ..nic_info(slot, nic) };
    }
    let mut neighbours = [NeighbourInfo::default(); MAX_NEIGHBOURS];
    for (info, known) in neighbours.iter_mut().zip(&plan.neighbours) {
        let [a, b, c, d, e, f] = known.mac.0;
        *info = NeighbourInfo {
            ip: known.address.to_bits(),
            nic: known.nic as u32,
            mac: [a, b, c, d, e, f, 0, 0],
        };
    }
    BootInfo {
        nic_count: plan.nics.len().min(MAX_NICS) as u32,
        neighbour_count: plan.neighbours.len().min(MAX_NEIGHBOURS) as u32,
        spin: match plan.spin {
            Spin::Always => u32::MAX,
            Spin::For(time) => (time.as_micros() * PASSES_A_MICROSECOND).min(u128::from(u32::MAX - 1)) as u32,
        },
        ring_size: plan.nics.iter().map(|nic| nic.ring).max().unwrap_or(1024),
        misdeed: match plan.role {
            config::Role::Hostile(misdeed) => misdeed as u32,
            config::Role::Router | config::Role::Echo => 0,
        },
        traffic: duty.traffic,
        nics,
        neighbours,
        ..BootInfo::new(duty.role, plan.vcpus)
    }
}

fn nic_info(slot: usize, nic: &config::Nic) -> NicInfo {
    let mut addresses = [Address::default(); MAX_ADDRESSES];
    for (place, address) in addresses.iter_mut().zip(&nic.addresses) {
        *place = Address { ip: address.ip.to_bits(), prefix: u32::from(address.len) };
    }
    NicInfo {
        slot: slot as u32,
        mtu: nic.mtu,
        address_count: nic.addresses.len().min(MAX_ADDRESSES) as u32,
        tuned: 1,
        model: nic.model as u32,
        mode: nic.mode as u32,
        itr: match nic.itr {
            Itr::Every(units) => u32::from(units),
            // The device chooses.
            Itr::Adaptive => 0,
        },
        combine: nic.combine,
        combine_above: nic.combine_above,
        offload: u32::from(nic.offload),
        addresses,
        ..NicInfo::default()
    }
}
