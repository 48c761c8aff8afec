//! Initialisation of a virtio-net device over PCI (virtio 1.2, sections 3.1.1 and 4.1.4).

use frame::offload::Offloads;
use ring::split::{Features, Layout};

use crate::pci::{CAP_MSIX, CAP_VENDOR, Device, Registers};
use crate::process::{self, Bell};

const VENDOR: u16 = 0x1af4;
const DEVICE: u16 = 0x1041;

/// Interrupt vector of every message; the VMM's gates treat it like any other.
const INTERRUPT_VECTOR: u32 = 0x40;
const APIC_ADDRESS: u64 = 0xfee0_0000;

/// Types of virtio capabilities (section 4.1.4).
const CFG_COMMON: u8 = 1;
const CFG_NOTIFY: u8 = 2;
const CFG_DEVICE: u8 = 4;
const MSIX_ENABLE: u16 = 1 << 15;

const STATUS_ACKNOWLEDGE: u8 = 1;
const STATUS_DRIVER: u8 = 2;
const STATUS_DRIVER_OK: u8 = 4;
const STATUS_FEATURES_OK: u8 = 8;

const F_CSUM: u64 = 1 << 0;
const F_GUEST_CSUM: u64 = 1 << 1;
const F_MTU: u64 = 1 << 3;
const F_MAC: u64 = 1 << 5;
const F_GUEST_TSO4: u64 = 1 << 7;
const F_GUEST_TSO6: u64 = 1 << 8;
const F_GUEST_ECN: u64 = 1 << 9;
const F_HOST_TSO4: u64 = 1 << 11;
const F_HOST_TSO6: u64 = 1 << 12;
const F_HOST_ECN: u64 = 1 << 13;
const F_MRG_RXBUF: u64 = 1 << 15;
const F_STATUS: u64 = 1 << 16;
const F_CTRL_VQ: u64 = 1 << 17;
const F_MQ: u64 = 1 << 22;
const F_INDIRECT_DESC: u64 = 1 << 28;
const F_EVENT_IDX: u64 = 1 << 29;
const F_VERSION_1: u64 = 1 << 32;
const F_IN_ORDER: u64 = 1 << 35;
const F_GUEST_USO4: u64 = 1 << 54;
const F_GUEST_USO6: u64 = 1 << 55;
const F_HOST_USO: u64 = 1 << 56;

/// Offloads, with the features by which the driver may leave them to the device, and the device to the driver.
const OFFLOADS: [(Offloads, u64, u64); 5] = [
    (Offloads::CSUM, F_CSUM, F_GUEST_CSUM),
    (Offloads::TSO4, F_HOST_TSO4, F_GUEST_TSO4),
    (Offloads::TSO6, F_HOST_TSO6, F_GUEST_TSO6),
    (Offloads::ECN, F_HOST_ECN, F_GUEST_ECN),
    (Offloads::USO, F_HOST_USO, F_GUEST_USO4 | F_GUEST_USO6),
];
/// Features for frames longer than a buffer, received and sent.
const PIECES: u64 = F_MRG_RXBUF | F_INDIRECT_DESC;

/// Registers of the common configuration structure (section 4.1.4.3).
mod common {
    pub(super) const DEVICE_FEATURE_SELECT: u64 = 0x00;
    pub(super) const DEVICE_FEATURE: u64 = 0x04;
    pub(super) const DRIVER_FEATURE_SELECT: u64 = 0x08;
    pub(super) const DRIVER_FEATURE: u64 = 0x0c;
    pub(super) const DEVICE_STATUS: u64 = 0x14;
    pub(super) const QUEUE_SELECT: u64 = 0x16;
    pub(super) const QUEUE_SIZE: u64 = 0x18;
    pub(super) const QUEUE_MSIX_VECTOR: u64 = 0x1a;
    pub(super) const QUEUE_ENABLE: u64 = 0x1c;
    pub(super) const QUEUE_NOTIFY_OFF: u64 = 0x1e;
    pub(super) const QUEUE_DESC: u64 = 0x20;
    pub(super) const QUEUE_DRIVER: u64 = 0x28;
    pub(super) const QUEUE_DEVICE: u64 = 0x30;
}

/// Device between reset and DRIVER_OK, and the few registers that are used while it runs.
pub(crate) struct Transport {
    slot: u32,
    common: Registers,
    device_config: Registers,
    notify: Registers,
    notify_multiplier: u32,
    msix_table: Registers,
    offered: u64,
    features: u64,
}

/// Registers of a queue.
#[derive(Clone, Copy)]
pub(crate) struct QueueRegisters {
    /// Register to which the queue's number is written to notify the device.
    pub(crate) doorbell: Registers,
    /// The queue's number.
    pub(crate) number: u16,
    /// Eventfd that serves as its doorbell if the firmware is a process.
    bell: Option<Bell>,
}

impl Transport {
    /// Finds the device in a slot, resets it, and reads the offered features.
    pub(crate) fn new(slot: u32) -> Option<Self> {
        let device = Device::find(slot, VENDOR, DEVICE)?;
        device.enable();
        let mut transport = Self::locate(slot, device)?;
        transport.reset();
        transport.offered = transport.read_offered();
        Some(transport)
    }

    /// Resets it, and acknowledges it as a driver.
    pub(crate) fn reset(&self) {
        let status = self.common;
        status.write(common::DEVICE_STATUS, 0u8);
        while status.read::<u8>(common::DEVICE_STATUS) != 0 {}
        status.write(common::DEVICE_STATUS, STATUS_ACKNOWLEDGE | STATUS_DRIVER);
    }

    /// Offloads that frames sent by the driver may leave to the device, as offered.
    pub(crate) fn sendable(&self) -> Offloads {
        sendable(self.offered)
    }

    /// Offloads that frames sent by the driver may leave to the device, as negotiated.
    pub(crate) fn agreed(&self) -> Offloads {
        sendable(self.features)
    }

    /// Negotiates features. `tuned` accepts IN_ORDER if it is offered; `offloads` are enabled in both directions. None if the
    /// device does not agree.
    pub(crate) fn negotiate(&mut self, tuned: bool, multi_queue: bool, offloads: Offloads) -> Option<()> {
        let mut wanted = F_MTU | F_MAC | F_STATUS | F_EVENT_IDX | F_VERSION_1;
        wanted |= if tuned { F_IN_ORDER } else { 0 };
        wanted |= if multi_queue { F_CTRL_VQ | F_MQ } else { 0 };
        wanted |= if offloads.segments() { PIECES } else { 0 };
        for (offload, host, guest) in OFFLOADS {
            wanted |= if offloads.has(offload) { host | guest } else { 0 };
        }
        let accepted = self.pick(wanted);
        let usable = !multi_queue || self.features & F_MQ != 0;
        (accepted && usable && self.features & F_VERSION_1 != 0).then_some(())
    }

    /// Negotiates all offered features except IN_ORDER; returns false if the device does not agree.
    pub(crate) fn negotiate_all(&mut self) -> bool {
        self.pick(!F_IN_ORDER)
    }

    /// Accepts those of the wanted features that are offered; returns true if the device agrees.
    fn pick(&mut self, wanted: u64) -> bool {
        self.features = self.offered & wanted;
        self.accept();
        let status = self.common;
        status.write(common::DEVICE_STATUS, STATUS_ACKNOWLEDGE | STATUS_DRIVER | STATUS_FEATURES_OK);
        status.read::<u8>(common::DEVICE_STATUS) & STATUS_FEATURES_OK != 0
    }

    /// Returns true if the device writes offload metadata before each frame, and may use several buffers.
    pub(crate) fn has_rx_headers(&self) -> bool {
        self.features & (F_GUEST_CSUM | F_MRG_RXBUF) != 0
    }

    fn locate(slot: u32, device: Device) -> Option<Self> {
        let mut found = Structures::default();
        // Each read costs an exit, and the structures that a driver needs come first.
        for capability in device.capabilities() {
            found.note(device, capability.id, capability.kind, capability.at);
            if found.complete() {
                break;
            }
        }
        let (notify, notify_multiplier) = found.notify?;
        Some(Self {
            slot,
            common: found.common?,
            device_config: found.device?,
            notify,
            notify_multiplier,
            msix_table: found.msix_table?,
            offered: 0,
            features: 0,
        })
    }

    fn read_offered(&self) -> u64 {
        let half = |select: u32| {
            self.common.write(common::DEVICE_FEATURE_SELECT, select);
            u64::from(self.common.read::<u32>(common::DEVICE_FEATURE))
        };
        half(0) | half(1) << 32
    }

    fn accept(&self) {
        for select in 0..2u32 {
            self.common.write(common::DRIVER_FEATURE_SELECT, select);
            self.common.write(common::DRIVER_FEATURE, (self.features >> (32 * select)) as u32);
        }
    }

    /// Negotiated features that concern rings.
    pub(crate) fn ring_features(&self) -> Features {
        Features {
            event_idx: self.features & F_EVENT_IDX != 0,
            indirect: self.features & F_INDIRECT_DESC != 0,
            in_order: self.features & F_IN_ORDER != 0,
        }
    }

    /// Returns the device's Ethernet address.
    pub(crate) fn mac(&self) -> [u8; 6] {
        let [a, b, c, d, e, f, _, _] = self.device_config.read::<u64>(0).to_le_bytes();
        [a, b, c, d, e, f]
    }

    /// Number of queue pairs that the device has.
    pub(crate) fn max_queue_pairs(&self) -> u16 {
        self.device_config.read(8)
    }

    /// Routes MSI-X vector `vector` to vCPU `vcpu`.
    pub(crate) fn route(&self, vector: u16, vcpu: usize) {
        let entry = 16 * u64::from(vector);
        self.msix_table.write(entry, APIC_ADDRESS | (vcpu as u64) << 12);
        self.msix_table.write(entry + 8, u64::from(INTERRUPT_VECTOR));
    }

    /// Selects a queue and returns its largest size; 0 if the device has no such queue.
    pub(crate) fn select(&self, number: u16) -> u16 {
        self.common.write(common::QUEUE_SELECT, number);
        self.common.read(common::QUEUE_SIZE)
    }

    /// Sets up the selected queue and enables it.
    pub(crate) fn start_queue(&self, number: u16, layout: &Layout, vector: u16) -> QueueRegisters {
        self.common.write(common::QUEUE_SIZE, layout.size);
        self.common.write(common::QUEUE_MSIX_VECTOR, vector);
        self.common.write(common::QUEUE_DESC, layout.descriptors);
        self.common.write(common::QUEUE_DRIVER, layout.available);
        self.common.write(common::QUEUE_DEVICE, layout.used);
        let offset: u16 = self.common.read(common::QUEUE_NOTIFY_OFF);
        self.common.write(common::QUEUE_ENABLE, 1u16);
        let doorbell = self.notify.address(u64::from(offset) * u64::from(self.notify_multiplier));
        QueueRegisters {
            doorbell: Registers::at(doorbell),
            number,
            bell: process::doorbell(self.slot, number),
        }
    }

    /// Sets DRIVER_OK: the driver is ready.
    pub(crate) fn run(&self) {
        let all = STATUS_ACKNOWLEDGE | STATUS_DRIVER | STATUS_FEATURES_OK | STATUS_DRIVER_OK;
        self.common.write(common::DEVICE_STATUS, all);
    }
}

/// Offloads that frames sent by the driver may leave to a device with these features.
fn sendable(features: u64) -> Offloads {
    let all = OFFLOADS.iter().filter(|(_, host, _)| features & host == *host);
    let all = all.fold(Offloads::NONE, |all, (offload, ..)| all | *offload);
    let kept = if features & PIECES == PIECES { all } else { all & Offloads::CSUM };
    kept.consistent()
}

impl QueueRegisters {
    /// Notifies the device (section 4.1.5.2).
    pub(crate) fn kick(&self) {
        match self.bell {
            Some(bell) => bell.ring(),
            None => self.doorbell.write(0, self.number),
        }
    }
}

/// Register blocks of a device, as far as its capabilities have been read.
#[derive(Default)]
struct Structures {
    common: Option<Registers>,
    notify: Option<(Registers, u32)>,
    device: Option<Registers>,
    msix_table: Option<Registers>,
    /// BAR that was read last: most devices have all blocks behind one.
    bar: Option<(u8, Registers)>,
}

impl Structures {
    fn complete(&self) -> bool {
        self.common.is_some() && self.notify.is_some() && self.device.is_some() && self.msix_table.is_some()
    }

    fn note(&mut self, device: Device, id: u8, kind: u8, at: u64) {
        let config = device.config();
        match (id, kind) {
            (CAP_VENDOR, CFG_COMMON) => self.common = Some(self.block(device, at)),
            (CAP_VENDOR, CFG_NOTIFY) => self.notify = Some((self.block(device, at), config.read(at + 16))),
            (CAP_VENDOR, CFG_DEVICE) => self.device = Some(self.block(device, at)),
            (CAP_MSIX, _) => {
                let table: u32 = config.read(at + 4);
                config.write(at + 2, MSIX_ENABLE);
                self.msix_table = Some(self.behind(device, (table & 7) as u8, u64::from(table & !7)));
            }
            _ => {}
        }
    }

    /// Locates the block that a virtio capability describes.
    fn block(&mut self, device: Device, at: u64) -> Registers {
        // One access reads the BAR's number (low octet) and the offset in it (high word).
        let place: u64 = device.config().read(at + 4);
        self.behind(device, place as u8 & 7, place >> 32)
    }

    fn behind(&mut self, device: Device, bar: u8, offset: u64) -> Registers {
        let registers = match self.bar {
            Some((known, registers)) if known == bar => registers,
            _ => device.bar(bar),
        };
        self.bar = Some((bar, registers));
        Registers::at(registers.address(offset))
    }
}
