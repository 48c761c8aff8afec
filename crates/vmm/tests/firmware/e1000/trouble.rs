//! Devices that a driver cannot use: it reports this, and serves nothing.

use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;

use bootinfo::{BootFailure, BootInfo, NicModel, Role, TrafficInfo, TransmitMode};
use nic::e1000::Config;
use nic::moderation::Moderation;
use nic::virtio_net::NicConfig;
use vmm::{E1000Nic, Machine, Model, attach};

use super::bench::{MAC, Wish, info};
use crate::machines::{by_kvm_with, by_process_with, wait_for};

fn e1000(mode: TransmitMode) -> Model {
    Model::E1000(E1000Nic { config: Config::new(MAC), mode, interrupt_vcpu: 0 })
}

/// Checks that with this device the firmware gives up for this reason, on each engine.
fn gives_up(orders: &BootInfo, model: &Model, why: BootFailure) {
    let furnish = |machine: &Arc<Machine>| drop(attach(machine, 1, model, false).expect("a NIC"));
    let running = [by_kvm_with(orders.clone(), furnish), by_process_with(orders.clone(), &[], furnish)];
    for running in running.into_iter().flatten() {
        let shared = running.machine.clone();
        let state = || shared.shared().vcpus[0].state.0.load(Acquire);
        wait_for("the firmware to make up its mind", || state() != 0);
        assert_eq!(state(), why as u32);
        running.stop();
    }
}

#[test]
fn a_device_without_a_block_cannot_be_driven_with_one() {
    gives_up(&info(&Wish::default()), &e1000(TransmitMode::Base), BootFailure::Nic);
}

#[test]
fn the_device_must_be_the_one_that_was_told() {
    gives_up(&info(&Wish::default()), &virtio_net(), BootFailure::Nic);
    let mut orders = info(&Wish::default());
    orders.nics[0].model = NicModel::VirtioNet as u32;
    gives_up(&orders, &e1000(TransmitMode::Csb), BootFailure::Nic);
}

fn virtio_net() -> Model {
    Model::VirtioNet { config: NicConfig::new(MAC), moderation: Moderation::Off, in_access: false }
}

fn large(frame_len: u32, segment_len: u32) -> BootInfo {
    let base = Wish { role: Role::Source, ..Wish::default() };
    info(&Wish { traffic: TrafficInfo { frame_len, segment_len, ..base.traffic }, ..base })
}

#[test]
fn virtio_net_that_may_leave_nothing_to_be_done_sends_no_large_packets() {
    let mut orders = large(15_054, 1514);
    orders.nics[0].model = NicModel::VirtioNet as u32;
    gives_up(&orders, &virtio_net(), BootFailure::Nic);
}

#[test]
fn segments_have_payload_and_a_frame_fits_the_ring() {
    gives_up(&large(15_054, 54), &e1000(TransmitMode::Csb), BootFailure::BootInfo);
    let mut orders = large(65_549, 1514);
    orders.ring_size = 32;
    gives_up(&orders, &e1000(TransmitMode::Csb), BootFailure::BootInfo);
}
