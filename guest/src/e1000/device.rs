//! Initialisation of an 82540EM (its manual, chapter "General Initialization and Reset Operation").

use core::mem::MaybeUninit;

use bootinfo::{BootInfo, NicInfo, TransmitMode};
use frame::offload::Offloads;
use ring::Region;
use ring::combine::{Combiner, RateDetector};
use ring::e1000::{Csb, DESCRIPTOR, Layout, RxDriver, TxDriver, TxSlot, tx};

use super::block::StatusBlockDriver;
use super::interrupt::{InterruptOnly, InterruptPin};
use super::registers as r;
use super::stock::{Combining, InterruptDriver};
use super::tail::Tail;
use crate::arena::Arena;
use crate::buffer::JUMBO;
use crate::nic::Nic;
use crate::pci;
use crate::segments;

const VENDOR: u16 = 0x8086;
const DEVICE: u16 = 0x100e;
/// Offset of the subsystem device ID in configuration space.
const SUBSYSTEM: u64 = 0x2e;
/// Subsystem device ID of a device that has status block registers.
const WITH_BLOCK: u16 = 0x1101;
/// Polls of a register that should change soon, before the device is given up.
const LOOKS: u32 = 1000;
/// Entries of a ring are a multiple of this (82540EM manual, "RDLEN").
const ENTRY_UNIT: u16 = 8;
/// Longest frame in octets, without FCS, that does not need RCTL.LPE.
const LONGEST_PLAIN: u32 = 1518;
/// Delays of interrupts for sent frames, if they are delayed: after the last frame (TIDV), and after the first one (TADV), in
/// units of 1.024 µs. Only senders that wait for room depend on them.
const SENT_DELAY: (u32, u32) = (500, 1000);
/// Octets of a frame in addition to the IP packet: Ethernet header and VLAN tag.
const OVERHEAD: u32 = 18;

/// Device that is configured, but whose rings do not run yet.
pub(crate) struct Device {
    info: &'static NicInfo,
    /// Index among the firmware's NICs.
    index: usize,
    registers: pci::Registers,
    mode: TransmitMode,
    mac: [u8; 6],
    entries: u16,
    /// True if interrupts for sent frames are delayed.
    delay_sent: bool,
    /// Ticks of the time-stamp counter in a millisecond.
    ticks_a_ms: u64,
    /// Send-combining state shared by the vCPU that transmits and the one that serves interrupts.
    combiner: Option<&'static Combiner>,
}

impl Device {
    /// Finds, resets and configures the device in `info.slot`. None if it does not exist, or has no status block although it
    /// is to be used with one.
    pub(crate) fn open(info: &'static NicInfo, index: usize, boot: &BootInfo) -> Option<Self> {
        let mode = TransmitMode::from_number(info.mode)?;
        let device = pci::Device::find(info.slot, VENDOR, DEVICE)?;
        if mode == TransmitMode::Csb && device.config().read::<u16>(SUBSYSTEM) != WITH_BLOCK {
            return None;
        }
        device.enable_with_pin();
        let registers = device.bar(0);
        reset(registers)?;
        let mac = mac(registers)?;
        let entries = (boot.ring_size as u16).max(ENTRY_UNIT) / ENTRY_UNIT * ENTRY_UNIT;
        let (delay_sent, ticks_a_ms) = (boot.traffic.delay_sent != 0, boot.tsc_khz);
        let device =
            Self { info, index, registers, mode, mac, entries, delay_sent, ticks_a_ms, combiner: None };
        device.configure();
        Some(device)
    }

    /// Offloads that frames sent by it may leave to the device. Not for IPv6, which its driver does not support, nor for ECN,
    /// as the device does not know which segment carries CWR.
    pub(crate) fn sendable(&self) -> Offloads {
        let most = 2 + segments::MOST;
        let long = usize::from(self.entries) >= 2 * most;
        if long { Offloads::CSUM | Offloads::TSO4 } else { Offloads::CSUM }
    }

    /// Returns its Ethernet address.
    pub(crate) fn mac(&self) -> [u8; 6] {
        self.mac
    }

    /// Initialises the registers that do not concern rings.
    fn configure(&self) {
        let registers = self.registers;
        registers.write(r::CTRL, r::CTRL_SLU | r::CTRL_FD);
        let [a, b, c, d, e, f] = self.mac;
        registers.write(r::RAL, u32::from_le_bytes([a, b, c, d]));
        registers.write(r::RAH, u32::from(u16::from_le_bytes([e, f])) | r::RAH_AV);
        let (packet, absolute) = if self.delay_sent { SENT_DELAY } else { (0, 0) };
        for (register, value) in [(r::RDTR, 0), (r::RADV, 0), (r::TIDV, packet), (r::TADV, absolute)] {
            registers.write::<u32>(register, value);
        }
        registers.write(r::ITR, self.info.itr);
    }

    /// Returns the part of the device that vCPU `vcpu` serves: the first vCPU moves all frames, another one serves the
    /// interrupts, and others get nothing.
    pub(crate) fn nic(&mut self, vcpu: usize, arena: &mut Arena) -> Option<Nic> {
        let taken = self.info.interrupt_vcpu as usize;
        let mut line = InterruptPin::new(self.registers, self.index, vcpu);
        if vcpu == taken && self.mode != TransmitMode::Csb {
            line.mask_each();
        }
        if vcpu != 0 {
            let line = (vcpu == taken).then_some(line);
            return Some(Nic::Aside(InterruptOnly::new(line, self.mode, self.combiner)));
        }
        let line = (vcpu == taken).then_some(line);
        if self.mode == TransmitMode::Csb {
            return self.block(line, arena).map(Nic::Block);
        }
        self.stock(line, arena).map(Nic::Stock)
    }

    fn block(&self, line: Option<InterruptPin>, arena: &mut Arena) -> Option<StatusBlockDriver> {
        let at = arena.take(u64::from(Csb::OCTETS), u64::from(Csb::ALIGN))?;
        // SAFETY: RAM of the arena, permanently mapped one to one, that only ring code accesses.
        let region = unsafe { Region::new(at as *mut u8, at, u64::from(Csb::OCTETS)) };
        let csb = Csb::map(&region, at).ok()?;
        self.registers.write(r::CSBAH, (at >> 32) as u32);
        self.registers.write(r::CSBAL, at as u32);
        let (rx, tx) = (self.rx(Some(csb), arena)?, self.tx(Some(csb), arena)?);
        let bell = |register, queue| Tail::with_bell(self.registers, register, self.info.slot, queue);
        let tails = [bell(r::RX_RING, 0), bell(r::TX_RING, 1)];
        Some(StatusBlockDriver::new(rx, tx, self.registers, tails, line))
    }

    fn stock(&mut self, line: Option<InterruptPin>, arena: &mut Arena) -> Option<InterruptDriver> {
        let combining = if self.mode == TransmitMode::SendCombining {
            let shared: &'static Combiner = arena.keep(Combiner::default())?;
            self.combiner = Some(shared);
            let above = u64::from(self.info.combine_above);
            let onset = (1000 * self.ticks_a_ms).checked_div(above).map(RateDetector::new);
            Some(Combining::new(shared, self.info.combine, onset))
        } else {
            None
        };
        let (rx, tx) = (self.rx(None, arena)?, self.tx(None, arena)?);
        // A descriptor with report status (RS) set raises an interrupt, at once or after a delay (IDE).
        let report = if self.delay_sent { tx::RS | tx::IDE } else { tx::RS };
        Some(InterruptDriver::new(self.registers, (rx, tx), line, combining, report))
    }

    fn rx(&self, csb: Option<Csb>, arena: &mut Arena) -> Option<RxDriver<'static, u64>> {
        let (region, layout) = self.ring(r::RX_RING, arena)?;
        let tokens = arena.slice(u64::from(self.entries), MaybeUninit::uninit())?;
        RxDriver::new(region, &layout, csb, tokens).ok()
    }

    fn tx(&self, csb: Option<Csb>, arena: &mut Arena) -> Option<TxDriver<'static, u64>> {
        let (region, layout) = self.ring(r::TX_RING, arena)?;
        let slots = arena.slice(u64::from(self.entries), TxSlot::EMPTY)?;
        TxDriver::new(region, &layout, csb, slots).ok()
    }

    /// Allocates a ring and tells the device its location.
    fn ring(&self, registers: u64, arena: &mut Arena) -> Option<(Region, Layout)> {
        let octets = u32::from(self.entries) * DESCRIPTOR;
        let at = arena.take(u64::from(octets), 4096)?;
        let layout = Layout::new(at, octets).ok()?;
        // SAFETY: RAM of the arena, permanently mapped one to one, that only ring code accesses.
        let region = unsafe { Region::new(at as *mut u8, at, u64::from(octets)) };
        let write = |register, value: u32| self.registers.write(registers + register, value);
        write(r::ring::BASE_LOW, at as u32);
        write(r::ring::BASE_HIGH, (at >> 32) as u32);
        write(r::ring::LENGTH, octets);
        write(r::ring::HEAD, 0);
        write(r::ring::TAIL, 0);
        Some((region, layout))
    }

    /// Starts both rings. The receiver is promiscuous, like a virtio-net device: the router decides which frames are
    /// addressed to it.
    pub(crate) fn run(&self) {
        let long = if self.info.mtu + OVERHEAD > LONGEST_PLAIN { r::RCTL_LPE } else { 0 };
        // The device knows no length between this one and twice as much, which is more than a buffer has.
        let buffers = if JUMBO { r::RCTL_8192 } else { 0 };
        self.registers.write(r::TCTL, r::TCTL_EN | r::TCTL_PSP | r::TCTL_COLLISIONS);
        let anybody = r::RCTL_UPE | r::RCTL_MPE | r::RCTL_BAM;
        self.registers.write(r::RCTL, r::RCTL_EN | r::RCTL_SECRC | anybody | long | buffers);
    }
}

/// Masks all interrupts and resets the device.
fn reset(registers: pci::Registers) -> Option<()> {
    registers.write(r::IMC, u32::MAX);
    registers.write(r::CTRL, r::CTRL_RST);
    (0..LOOKS).find(|_| registers.read::<u32>(r::CTRL) & r::CTRL_RST == 0)?;
    registers.write(r::IMC, u32::MAX);
    let _causes: u32 = registers.read(r::ICR);
    Some(())
}

/// Reads the address in the first three words of the EEPROM.
fn mac(registers: pci::Registers) -> Option<[u8; 6]> {
    let [a, b] = word(registers, 0)?;
    let [c, d] = word(registers, 1)?;
    let [e, f] = word(registers, 2)?;
    Some([a, b, c, d, e, f])
}

fn word(registers: pci::Registers, address: u32) -> Option<[u8; 2]> {
    registers.write(r::EERD, r::EERD_START | address << 8);
    let done = (0..LOOKS).find_map(|_| {
        let value: u32 = registers.read(r::EERD);
        (value & r::EERD_DONE != 0).then_some(value)
    })?;
    Some(((done >> 16) as u16).to_le_bytes())
}
