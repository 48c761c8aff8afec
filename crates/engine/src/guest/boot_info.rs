//! Translates a router's file into the models of its NICs and the boot information of its firmware.

use bootinfo::{
    Address, BootInfo, MAX_ADDRESSES, MAX_NEIGHBOURS, MAX_NICS, MAX_TABLES, MAX_VLANS, NeighbourInfo,
    NicInfo, Role, TrafficInfo, VlanInfo, map,
};
use config::forwarding::ReversePath;
use config::{Itr, NicModel, Router, Spin, VhostThreads};
use nic::moderation::Moderation;
use nic::virtio_net::NicConfig;
use nic::virtio_net::features::MQ;
use vmm::{E1000Nic, Model};

use super::six;

/// Approximate number of empty passes of the firmware's main loop, with two NICs, in a microsecond.
const PASSES_A_MICROSECOND: u128 = 66;

/// Task of a guest; by default, to be a router.
#[derive(Clone, Copy, Debug)]
pub struct GuestTask {
    /// Its role.
    pub role: Role,
    /// The traffic that it generates, if it is a source.
    pub traffic: TrafficInfo,
}

impl Default for GuestTask {
    fn default() -> Self {
        Self { role: Role::Router, traffic: TrafficInfo::default() }
    }
}

/// Returns the device model of a NIC. For virtio-net the host moderates interrupts; for an e1000 its driver
/// does so by ITR, unless the device is to choose.
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

/// Returns the device of a NIC whose rings a vhost-user peer with these features serves.
pub(super) fn handed(plan: &Router, nic: &config::Nic, features: u64) -> NicConfig {
    // The firmware uses one queue pair for each vCPU or none at all: a peer with too few is reported when it
    // connects.
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

/// Returns the vCPU that an e1000 interrupts: the last one, so that with two vCPUs the first is left to the
/// frames.
fn interrupt_vcpu(plan: &Router) -> u32 {
    plan.vcpus.saturating_sub(1)
}

/// Returns the firmware's boot information.
pub(super) fn boot_info(plan: &Router, duty: GuestTask) -> BootInfo {
    let mut nics = [NicInfo::default(); MAX_NICS];
    for (number, (info, nic)) in nics.iter_mut().zip(&plan.nics).enumerate() {
        let (interrupt_vcpu, table) = (interrupt_vcpu(plan), plan.table_of(number) as u32);
        *info = NicInfo { interrupt_vcpu, table, ..nic_info(map::nic_slot(number), nic) };
    }
    let mut neighbours = [NeighbourInfo::default(); MAX_NEIGHBOURS];
    let known = six::neighbours(plan);
    for (info, known) in neighbours.iter_mut().zip(&known) {
        *info = *known;
    }
    BootInfo {
        nic_count: plan.nics.len().min(MAX_NICS) as u32,
        neighbour_count: known.len().min(MAX_NEIGHBOURS) as u32,
        neighbour_table: plan.forwarding.neighbours,
        redirects: u32::from(plan.forwarding.redirects),
        shares_addresses: u32::from(plan.membership().is_some()),
        tables: plan.tables().min(MAX_TABLES) as u32,
        vlan_count: plan.forwarding.interfaces.len().min(MAX_VLANS) as u32,
        vlans: vlans(plan),
        spin: match plan.spin {
            Spin::Always => u32::MAX,
            Spin::For(time) => (time.as_micros() * PASSES_A_MICROSECOND).min(u128::from(u32::MAX - 1)) as u32,
        },
        ring_size: plan.nics.iter().map(|nic| nic.ring).max().unwrap_or(1024),
        misdeed: match plan.role {
            config::Role::Hostile(misdeed) => misdeed as u32,
            config::Role::Router | config::Role::Echo | config::Role::Balancer => 0,
        },
        traffic: duty.traffic,
        nics,
        neighbours,
        ..BootInfo::new(duty.role, plan.vcpus)
    }
}

/// Returns the interfaces for VLANs.
fn vlans(plan: &Router) -> [VlanInfo; MAX_VLANS] {
    let mut vlans = [VlanInfo::default(); MAX_VLANS];
    let numbered = (plan.nics.len()..).zip(&plan.forwarding.interfaces);
    for (place, (number, own)) in vlans.iter_mut().zip(numbered) {
        *place = VlanInfo {
            nic: own.nic as u32,
            outer: own.tags.outer.unwrap_or(0).into(),
            id: own.tags.id.into(),
            info: NicInfo {
                mtu: own.mtu,
                address_count: own.addresses.len().min(MAX_ADDRESSES) as u32,
                addresses: addresses(&own.addresses),
                reverse_path: reverse_path(own.reverse_path),
                table: plan.table_of(number) as u32,
                ..six::nic_info(&own.six)
            },
        };
    }
    vlans
}

const fn reverse_path(wanted: ReversePath) -> u32 {
    match wanted {
        ReversePath::Off => 0,
        ReversePath::Loose => 1,
        ReversePath::Strict => 2,
    }
}

fn addresses(own: &[config::Address]) -> [Address; MAX_ADDRESSES] {
    let mut addresses = [Address::default(); MAX_ADDRESSES];
    for (place, address) in addresses.iter_mut().zip(own) {
        *place = Address { ip: address.ip.to_bits(), prefix: u32::from(address.len) };
    }
    addresses
}

fn nic_info(slot: usize, nic: &config::Nic) -> NicInfo {
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
        addresses: addresses(&nic.addresses),
        reverse_path: reverse_path(nic.reverse_path),
        ..six::nic_info(&nic.six)
    }
}

#[cfg(test)]
mod tests;
