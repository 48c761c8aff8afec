//! Drivers with arbitrary behaviour.

use proptest::prelude::*;

use super::*;
use crate::e1000::{Faults, cause};

/// State of the device as derived from effects alone.
#[derive(Default)]
struct World {
    transmits: bool,
    receives: bool,
    bars: Vec<crate::pci::BarWindow>,
}

impl World {
    fn follow(&mut self, effect: Effect) {
        match effect {
            Effect::TransmitStarted(setup) => {
                assert!(!std::mem::replace(&mut self.transmits, true));
                assert!(setup.layout.entries >= 8 && setup.layout.base.is_multiple_of(16));
                assert!(setup.ends.head() < setup.layout.entries && setup.ends.tail() < setup.layout.entries);
            }
            Effect::ReceiveStarted(setup) => {
                assert!(!std::mem::replace(&mut self.receives, true));
                assert!(setup.layout.entries >= 8 && setup.layout.base.is_multiple_of(16));
                assert!(setup.ends.head() < setup.layout.entries && setup.ends.tail() < setup.layout.entries);
                assert!(setup.settings.buffer_len.is_power_of_two());
            }
            Effect::TransmitStopped => assert!(std::mem::take(&mut self.transmits)),
            Effect::ReceiveStopped => assert!(std::mem::take(&mut self.receives)),
            Effect::TransmitTail | Effect::TransmitChanged(_) => assert!(self.transmits),
            Effect::ReceiveTail | Effect::ReceiveChanged(_) => assert!(self.receives),
            Effect::BarsMoved | Effect::LineChanged => {}
        }
    }

    fn check(&mut self, slot: &mut Slot) {
        for effect in slot.nic.take_effects() {
            if matches!(effect, Effect::BarsMoved) {
                self.bars = slot.nic.bars();
            }
            self.follow(effect);
        }
        assert_eq!((self.transmits, self.receives), (slot.nic.transmits(), slot.nic.receives()));
        assert_eq!(self.bars, slot.nic.bars());
        let line = slot.line();
        assert!(!line.asserted || line.next.is_none());
        assert!(line.next.is_none_or(|next| next > slot.now), "what is due is done");
    }
}

/// Offsets, with those of existing registers more often than by chance.
fn offset() -> impl Strategy<Value = u64> {
    let known = [
        r::CTRL,
        r::EECD,
        r::EERD,
        r::MDIC,
        r::ICR,
        r::ITR,
        r::ICS,
        r::IMS,
        r::IMC,
        r::RCTL,
        r::TCTL,
        r::RDLEN,
        r::RDT,
        r::RDH,
        r::RDTR,
        r::RADV,
        r::TDLEN,
        r::TDT,
        r::TDH,
        r::TIDV,
        r::TADV,
        r::CSBAL,
        r::RDBAL,
        r::TDBAL,
    ];
    prop_oneof![
        8 => prop::sample::select(known.to_vec()),
        2 => (0..0x6000_u64 / 4).prop_map(|n| 4 * n),
        1 => 0..0x2_0010_u64,
        1 => any::<u64>(),
    ]
}

/// Values that start, stop and reset functions, and others.
fn value() -> impl Strategy<Value = u64> {
    prop_oneof![
        prop::sample::select(vec![0, 2, 0x80, 0x100, 0x1000, 0xff, 0x0400_0000, 0x8000_0010, 0xffff_ffff]),
        any::<u64>(),
    ]
}

proptest! {

    #[test]
    fn no_sequence_of_accesses_confuses_the_device(
        steps in prop::collection::vec((0_u8..12, offset(), value(), 0_usize..12), 0..200),
        block in any::<bool>(),
        adaptive in any::<bool>(),
    ) {
        let moderation = if adaptive { Moderation::Adaptive } else { Moderation::Off };
        let config = Config { block, moderation, ..Config::new(MAC) };
        let mut slot = Slot::with(&config);
        let mut world = World { bars: slot.nic.bars(), ..World::default() };
        for (kind, offset, value, len) in steps {
            let mut octets = [0_u8; 16];
            octets[..8].copy_from_slice(&value.to_le_bytes());
            match kind {
                0 => slot.nic.memory_read(offset, &mut octets[..len], &mut slot.interrupts, slot.now),
                1 => slot.write_octets(offset, &octets[..len]),
                2 => slot.nic.port_write(offset % 72, &octets[..len], &mut slot.interrupts, slot.now),
                3 => slot.nic.port_read(offset % 72, &mut octets[..len], &mut slot.interrupts, slot.now),
                4 => slot.write_config(offset as u16, &octets[..len]),
                5 => slot.write_config(offset as u16 % 0x48, &octets[..len]),
                6 => slot.interrupts.raise(value as u32, len as u32, slot.now),
                7 => slot.now += value % 100_000,
                8 => slot.nic.set_link(len & 1 != 0, &mut slot.interrupts, slot.now),
                9 if len == 0 => slot.nic.fail_transmit(),
                10 if len == 0 => slot.nic.fail_receive(),
                _ => slot.write(offset, value as u32),
            }
            world.check(&mut slot);
        }
    }

    #[test]
    fn whoever_looks_when_told_to_misses_no_interrupt(
        events in prop::collection::vec((0_u64..40_000, 0_u8..5), 1..300),
        itr in 0_u16..300,
        delays in prop::array::uniform4(0_u16..40),
        adaptive in any::<bool>(),
    ) {
        let moderation = if adaptive { Moderation::Adaptive } else { Moderation::Off };
        let mut slot = Slot::with(&moderated(moderation));
        slot.write(r::IMS, cause::ALL);
        for (register, delay) in [r::RDTR, r::RADV, r::TIDV, r::TADV].into_iter().zip(delays) {
            slot.write(register, u32::from(delay));
        }
        slot.write(r::ITR, u32::from(itr));
        let mut rose: Option<u64> = None;
        let mut untold: Option<u64> = None;
        for (pause, kind) in events {
            let until = slot.now + pause;
            loop {
                let line = slot.line();
                if line.asserted {
                    let gap = rose.map_or(u64::MAX, |rose| slot.now - rose);
                    prop_assert!(gap >= u64::from(itr) * 250, "rose after {gap} ns");
                    rose = Some(slot.now);
                    slot.read(r::ICR);
                    prop_assert!(!slot.asserted());
                    untold = None;
                    continue;
                }
                match line.next {
                    Some(next) if next <= until => slot.now = next.max(slot.now),
                    _ => break,
                }
            }
            // Each frame restarts RDTR: the bound is that of RADV, if it is set.
            let bounded = delays[0] == 0 || delays[1] != 0;
            let bound = 40 * 1024 + u64::from(itr) * 250 + crate::moderation::BULK;
            if let Some(since) = untold.filter(|_| bounded) {
                prop_assert!(until < since + bound + 40_000, "a frame of {since} is not told at {until}");
            }
            slot.now = until;
            let causes = [cause::RXT0, cause::TXDW, cause::TXDW_DELAYED, cause::LSC, cause::RXT0 | cause::TXDW];
            let causes = causes[usize::from(kind)];
            if causes & cause::RXT0 != 0 {
                untold = untold.or(Some(slot.now));
            }
            slot.interrupts.raise(causes, 1, slot.now);
        }
    }

    #[test]
    fn reads_of_any_size_agree(offset in 0_u64..0x6000, len in 0_usize..16) {
        // Excludes registers that reads change.
        let touched = offset & !3..offset + len as u64;
        let special = [r::ICR, r::MDIC];
        prop_assume!(!special.iter().any(|register| touched.contains(register)));
        let mut slot = Slot::running();
        let mut expected = Vec::new();
        for at in offset..offset + len as u64 {
            expected.extend(slot.octets::<1>(at));
        }
        let mut octets = vec![0xee; len];
        slot.nic.memory_read(offset, &mut octets, &mut slot.interrupts, slot.now);
        prop_assert_eq!(octets, expected);
        prop_assert_eq!(slot.nic.faults().partial, Faults::default().partial);
    }
}
