//! A Linux guest that reads and writes arbitrary ports: those of a PC (serial port, clock, power, reset, PCI configuration),
//! those of an e1000's I/O BAR, and any other, with any number of octets, as string instructions do. Finds panics, hangs,
//! accesses not counted exactly once, an interrupt line that differs from the serial port's state, and panic reasons that are
//! not one line.
//!
//! The input consists of steps of 8 octets: the kind, the port (16 bits), the number of octets, and 4 octets of data, which
//! are repeated.

use bootinfo::TransmitMode;

use super::*;
use crate::attach::{E1000Nic, Model, attach};
use crate::linux::host_bridge::HostBridge;
use crate::machine::{Machine, Memory};
use crate::memory::GuestRam;

/// Most steps of an input: few enough that no access is so costly that it must be paid for by sleeping.
const STEPS: usize = 256;
/// Ports that respond.
const PLACES: [u16; 10] =
    [KEYBOARD, CLOCK, CLOCK_DATA, SERIAL, EVENTS, CONTROL, PCI_ADDRESS, PCI_DATA, 0xc000, 0xfff8];
/// Slot of the NIC.
const SLOT: usize = 1;

/// Runs one input.
pub(crate) fn run(input: &[u8]) {
    let ram = GuestRam::with_words_outside("ports", 1 << 20).expect("memory");
    let memory = Memory { ram: Arc::new(ram), fib: None, group: None, vcpus: 1, pc: true };
    let machine = Machine::new(memory, None).expect("a machine");
    machine.bus().insert(0, Box::new(HostBridge::new()));
    let config = nic::e1000::Config::new([2, 0, 0, 0, 0, 1]);
    let nic = Model::E1000(E1000Nic { config, mode: TransmitMode::Base, interrupt_vcpu: 0 });
    let _queues = attach(&machine, SLOT, &nic, false).expect("a NIC");
    let world = World { ports: Ports::new(None, machine.bus().clone(), None), exits: VcpuExits::default() };
    world.bring_up();
    for step in input.as_chunks::<8>().0.iter().take(STEPS) {
        world.step(step);
    }
    world.write(PCI_ADDRESS, &PCI_ENABLE.to_le_bytes());
    assert_eq!(world.read(PCI_DATA, 4), 0x1237_8086_u32.to_le_bytes(), "the host bridge is where it was");
    machine.bus().clear();
}

struct World {
    ports: Ports,
    exits: VcpuExits,
}

impl World {
    /// Enables the I/O BAR of the NIC at 0xc000.
    fn bring_up(&self) {
        for (register, value) in [(0x14_u32, 0xc000_u32), (0x18, 0xc000), (0x04, 7)] {
            self.write(PCI_ADDRESS, &(PCI_ENABLE | (SLOT as u32) << 11 | register).to_le_bytes());
            self.write(PCI_DATA, &value.to_le_bytes());
        }
    }

    fn step(&self, step: &[u8; 8]) {
        let [what, low, high, len, data @ ..] = *step;
        let port = match what & 0xf {
            place @ 0..10 => PLACES[usize::from(place)].wrapping_add(u16::from(low & 7)),
            _ => u16::from_le_bytes([low, high]),
        };
        // Usually the length of an instruction's operand; sometimes as many octets as a page holds.
        let len = if len < 250 { [1, 2, 4, 1, 2, 4, 0, 3][usize::from(len & 7)] } else { 4096 };
        if what & 0x80 == 0 {
            let data: Vec<u8> = data.into_iter().cycle().take(len).collect();
            let end = self.write(port, &data);
            assert!(end.is_none() || self.ports.state().end.is_some());
            if let Some(End::Panic(reason)) = end {
                assert!(reason.len() <= 256 && !reason.contains(char::is_control), "{reason:?}");
            }
            if port == PCI_ADDRESS && len == 4 {
                assert_eq!(self.read(PCI_ADDRESS, 4), data);
            }
        } else {
            self.read(port, len);
        }
    }

    fn read(&self, port: u16, len: usize) -> Vec<u8> {
        let (mut data, before) = (vec![0; len], self.counted());
        self.ports.read(port, &mut data, &self.exits);
        self.check(before);
        data
    }

    fn write(&self, port: u16, data: &[u8]) -> Option<End> {
        let before = self.counted();
        let end = self.ports.write(port, data, &self.exits);
        self.check(before);
        end
    }

    fn counted(&self) -> u64 {
        let VcpuExits { port_io, pci_config_read, pci_config_write, .. } = &self.exits;
        [port_io, pci_config_read, pci_config_write].map(ledger::Counter::get).iter().sum()
    }

    fn check(&self, before: u64) {
        assert_eq!(self.counted(), before + 1, "an access is counted once");
        assert_eq!(self.exits.paced.get(), 0);
        let state = self.ports.state();
        assert_eq!(state.interrupt, state.serial.interrupts());
    }
}
