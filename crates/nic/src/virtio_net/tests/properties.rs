//! Properties that hold whatever a driver does.

use proptest::prelude::*;

use super::*;

/// One access of a malicious driver, or an external event.
#[derive(Clone, Debug)]
enum Step {
    ConfigRead(u16, usize),
    ConfigWrite(u16, Vec<u8>),
    BarRead(u8, u64, usize),
    BarWrite(u8, u64, Vec<u8>),
    Link(bool),
    Control(Vec<u8>),
    Signal(u16),
    Fail,
}

/// Offsets around existing structures.
fn offset() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0_u64..64,
        1 => 0x7c_u64..0x110,
        1 => 0xffc_u64..0x1020,
        2 => 0x1ffc_u64..0x2080,
        1 => 0x2ffc_u64..0x4010,
        1 => any::<u64>(),
    ]
}

fn octets() -> impl Strategy<Value = Vec<u8>> {
    let small = prop_oneof![3 => 0_u8..16, 1 => any::<u8>()];
    prop::collection::vec(small, 0..9)
}

fn step() -> impl Strategy<Value = Step> {
    let bar = prop_oneof![9 => Just(0_u8), 1 => any::<u8>()];
    let config = prop_oneof![9 => 0_u16..0x108, 1 => any::<u16>()];
    prop_oneof![
        2 => (config.clone(), 0_usize..9).prop_map(|(at, len)| Step::ConfigRead(at, len)),
        4 => (config, octets()).prop_map(|(at, data)| Step::ConfigWrite(at, data)),
        2 => (bar.clone(), offset(), 0_usize..9).prop_map(|(bar, at, len)| Step::BarRead(bar, at, len)),
        8 => (bar, offset(), octets()).prop_map(|(bar, at, data)| Step::BarWrite(bar, at, data)),
        1 => any::<bool>().prop_map(Step::Link),
        1 => octets().prop_map(Step::Control),
        1 => (0_u16..8).prop_map(Step::Signal),
        1 => Just(Step::Fail),
    ]
}

fn take(nic: &mut VirtioNet, step: &Step) {
    let mut data = [0xee; 8];
    match step {
        Step::ConfigRead(at, len) => nic.config_read(*at, &mut data[..*len]),
        Step::ConfigWrite(at, data) => nic.config_write(*at, data),
        Step::BarRead(bar, at, len) => nic.bar_read(*bar, *at, &mut data[..*len]),
        Step::BarWrite(bar, at, data) => nic.bar_write(*bar, *at, data),
        Step::Link(up) => nic.set_link(*up),
        Step::Control(command) => {
            nic.control(command);
        }
        Step::Signal(queue) => nic.signal_queue(*queue),
        Step::Fail => nic.fail(),
    }
}

/// State of the device as derived from effects alone.
#[derive(Default)]
struct World {
    running: bool,
    pairs: u16,
    messages: [Option<Message>; 16],
    bars: Vec<BarWindow>,
}

impl World {
    fn follow(&mut self, nic: &VirtioNet, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Started(start) => {
                    assert!(!std::mem::replace(&mut self.running, true), "started twice");
                    assert_eq!(
                        start.features & !NicConfig::new(MAC).offered() & !(features::MQ | features::CTRL_VQ),
                        0
                    );
                    self.pairs = 1;
                }
                Effect::Stopped => assert!(std::mem::replace(&mut self.running, false), "stopped twice"),
                Effect::VectorChanged(n) => self.messages[usize::from(n)] = nic.message(n),
                Effect::PairsChanged(pairs) => self.pairs = pairs,
                Effect::OffloadsChanged(takes) => assert_eq!(takes, takes.consistent()),
                Effect::BarsMoved => self.bars = nic.bars(),
                Effect::Kicked(queue) => assert!(self.running && queue < nic.queues()),
                Effect::QueueVectorChanged(queue) => assert!(queue < nic.queues()),
                Effect::Interrupt { vector, message } => assert_eq!(nic.message(vector), Some(message)),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn the_effects_tell_all_that_happens(
        from_running in any::<bool>(),
        steps in prop::collection::vec(step(), 0..80),
    ) {
        let mut nic = nic_with_pairs(2);
        let mut world = World::default();
        if from_running {
            nic = Driver::running(nic).nic;
            world = World { running: true, pairs: 1, bars: nic.bars(), ..World::default() };
            (0..nic.vectors()).for_each(|n| world.messages[usize::from(n)] = nic.message(n));
        }
        for step in &steps {
            take(&mut nic, step);
            let effects = nic.take_effects();
            world.follow(&nic, effects);
            prop_assert_eq!(world.running, nic.running());
            prop_assert_eq!(&world.bars, &nic.bars());
            for vector in 0..nic.vectors() {
                prop_assert_eq!(world.messages[usize::from(vector)], nic.message(vector));
            }
            prop_assert_eq!(nic.doorbell(0).is_some(), !nic.bars().is_empty());
            if world.running {
                prop_assert_eq!(world.pairs, nic.active_pairs());
            }
        }
    }

    #[test]
    fn reset_in_any_state_gives_the_power_on_state(steps in prop::collection::vec(step(), 0..80)) {
        let mut nic = Driver::running(nic_with_pairs(2)).nic;
        steps.iter().for_each(|step| take(&mut nic, step));
        nic.bar_write(0, register::DEVICE_STATUS as u64, &[0]);
        let mut fresh = nic_with_pairs(2);
        let (mut common, mut fresh_common) = ([0; 64], [0; 64]);
        nic.bar_read(0, 0, &mut common);
        fresh.bar_read(0, 0, &mut fresh_common);
        // The generation is not reset, so that a driver never mistakes a new configuration for an old one.
        common[register::CONFIG_GENERATION] = 0;
        prop_assert_eq!(common, fresh_common);
        prop_assert_eq!((nic.isr, nic.running(), nic.active_pairs()), (0, false, 1));
    }
}
