use super::*;

const LOOK: Duration = Duration::from_millis(100);

/// A simulated router: time advances by looks.
struct Played {
    watch: Watch,
    now: Duration,
    sample: Sample,
    /// The last challenge from the host.
    challenge: u32,
    /// Number of challenges.
    asked: u32,
}

impl Played {
    fn new(vcpus: usize) -> Self {
        let vcpu = VcpuSample { state: 1, epoch: 1, ..VcpuSample::default() };
        let nic = |name: &str| NicSample { name: name.to_owned(), ..NicSample::default() };
        let nics = vec![nic("wan.rx"), nic("wan.tx")];
        let sample = Sample { fault: None, vcpus: vec![vcpu; vcpus], nics, epoch: 1 };
        Self { watch: Watch::new(Rules::default()), now: Duration::ZERO, sample, challenge: 0, asked: 0 }
    }

    fn look(&mut self) -> Option<Charge> {
        self.now += LOOK;
        let look = self.watch.look(self.now, &self.sample);
        if let Some(challenge) = look.challenge {
            self.challenge = challenge;
            self.asked += 1;
        }
        look.charge
    }

    /// Simulates for this long, calling `step` between looks; returns the first charge and its time.
    fn play(&mut self, time: Duration, mut step: impl FnMut(&mut Self)) -> Option<(Duration, Charge)> {
        let start = self.now;
        while self.now - start < time {
            step(self);
            if let Some(charge) = self.look() {
                return Some((self.now - start, charge));
            }
        }
        None
    }

    fn answer(&mut self) {
        let challenge = self.challenge;
        self.sample.vcpus.iter_mut().for_each(|vcpu| {
            vcpu.answer = challenge;
            vcpu.cpu += Duration::from_micros(50);
        });
    }
}

const HOUR: Duration = Duration::from_secs(3600);
const MINUTE: Duration = Duration::from_secs(60);

fn seconds(range: std::ops::Range<f64>, at: Duration) {
    assert!(range.contains(&at.as_secs_f64()), "{at:?}");
}

#[test]
fn a_router_that_answers_is_never_charged_and_is_asked_once_a_second() {
    let mut played = Played::new(2);
    assert_eq!(played.play(HOUR, Played::answer), None);
    assert!((3500..=3600).contains(&played.asked), "{}", played.asked);
}

#[test]
fn one_that_spins_is_charged_after_its_grace() {
    let mut played = Played::new(1);
    let (at, charge) = played.play(MINUTE, |played| played.sample.vcpus[0].cpu += LOOK).expect("a charge");
    seconds(2.9..3.5, at);
    assert_eq!(charge.kind, Kind::Silent);
    assert_eq!(charge.line, "vCPU 0 has not answered for 2.0 s: it spins (2.0 s of CPU)");
}

#[test]
fn one_that_gets_little_cpu_is_given_time() {
    let mut played = Played::new(1);
    let gets_a_tenth = |played: &mut Played| played.sample.vcpus[0].cpu += LOOK / 10;
    assert_eq!(played.play(Duration::from_secs(9), gets_a_tenth), None);
    played.answer();
    assert_eq!(
        played.play(Duration::from_secs(9), gets_a_tenth),
        None,
        "the time begins anew with each answer"
    );
    let (_, charge) = played.play(MINUTE, gets_a_tenth).expect("not for ever");
    assert_eq!(charge.line, "vCPU 0 has not answered for 10.0 s: it spins (1.0 s of CPU)");
}

#[test]
fn one_that_sleeps_is_charged_though_it_uses_next_to_no_cpu() {
    let mut played = Played::new(2);
    let (at, charge) = played
        .play(MINUTE, |played| {
            let challenge = played.challenge;
            let [first, second] = &mut played.sample.vcpus[..] else { panic!() };
            first.answer = challenge;
            second.cpu = Duration::from_micros(u64::from(played.asked) * 20);
        })
        .expect("a charge");
    seconds(2.9..3.5, at);
    assert_eq!(charge.line, "vCPU 1 has not answered for 2.0 s: it sleeps, and interrupts do not wake it");
}

#[test]
fn one_whose_thread_gets_no_cpu_is_given_time() {
    let mut played = Played::new(1);
    assert_eq!(played.play(Duration::from_secs(9), |_| {}), None);
    played.answer();
    assert_eq!(played.play(Duration::from_secs(9), |_| {}), None, "the time begins anew with each answer");
    let (_, charge) = played.play(MINUTE, |_| {}).expect("not for ever");
    assert_eq!(charge.line, "vCPU 0 has not answered for 10.0 s: its thread got no CPU");
}

/// As with the vCPUs of a process, whose CPU time is known only as a whole.
#[test]
fn one_beside_a_busy_one_may_have_got_no_cpu_and_is_given_time() {
    let mut played = Played::new(2);
    played.sample.vcpus.iter_mut().for_each(|vcpu| vcpu.is_shared = true);
    let one_is_busy = |played: &mut Played| {
        let challenge = played.challenge;
        played.sample.vcpus[0].answer = challenge;
        played.sample.vcpus.iter_mut().for_each(|vcpu| vcpu.cpu += LOOK);
    };
    assert_eq!(played.play(Duration::from_secs(9), one_is_busy), None);
    let (_, charge) = played.play(MINUTE, one_is_busy).expect("not for ever");
    let line = "vCPU 1 has not answered for 10.0 s: it spins or sleeps, or its thread got no CPU";
    assert_eq!((charge.kind, charge.line.as_str()), (Kind::Silent, line));
}

#[test]
fn a_host_that_was_suspended_makes_nobody_guilty() {
    let mut played = Played::new(1);
    played.play(Duration::from_secs(5), Played::answer);
    for _ in 0..4 {
        played.sample.vcpus[0].cpu += Duration::from_millis(1);
        played.now += HOUR;
        assert_eq!(played.look(), None, "an hour without a look counts as a quarter of a second");
    }
    played.answer();
    assert_eq!(played.play(MINUTE, Played::answer), None);
}

#[test]
fn a_fault_is_passed_on_at_once() {
    let mut played = Played::new(1);
    played.sample.fault = Some("the guest shut down (triple fault)".to_owned());
    let charge = played.look().expect("a charge");
    assert_eq!(
        (charge.kind, charge.to_string().as_str()),
        (Kind::Fault, "the guest shut down (triple fault)")
    );
}

#[test]
fn a_firmware_that_does_not_come_up_is_charged_and_one_that_did_cannot_go_back() {
    let mut played = Played::new(2);
    played.sample.vcpus[1].state = 0;
    let (at, charge) = played.play(MINUTE, |played| played.sample.vcpus[1].cpu += LOOK).expect("a charge");
    seconds(29.9..30.5, at);
    assert_eq!(
        charge.line,
        "the firmware does not come up within 30s (vCPU 1: 30.1 s of CPU, 0 register accesses)"
    );

    let mut played = Played::new(1);
    played.play(Duration::from_secs(1), Played::answer);
    played.sample.vcpus[0].state = 0;
    let (at, _) = played.play(MINUTE, |played| played.sample.vcpus[0].cpu += LOOK).expect("a charge");
    seconds(1.0..4.0, at);
}

#[test]
fn a_broken_ring_is_charged_at_once() {
    let mut played = Played::new(1);
    played.look();
    played.sample.nics[1] = played.sample.nics[1].clone().with_broken(Some(Broken::Loop));
    let charge = played.look().expect("a charge");
    assert_eq!(charge.kind, Kind::BrokenRing);
    let why = "descriptor chain is longer than 256 descriptors, or runs in a circle";
    assert_eq!(charge.line, format!("it broke the ring of wan.tx, which the host has stopped: {why}"));
}

#[test]
fn who_keeps_to_an_old_epoch_is_charged() {
    let mut played = Played::new(1);
    played.play(Duration::from_secs(5), Played::answer);
    played.sample.epoch = 7;
    let (at, charge) = played.play(MINUTE, Played::answer).expect("a charge");
    seconds(2.0..2.3, at);
    assert_eq!(charge.kind, Kind::OldEpoch);
    assert_eq!(charge.line, "vCPU 0 still reads epoch 1 of the routes, 2.0 s after epoch 7 was published");
}

#[test]
fn who_follows_a_table_that_moves_all_the_time_is_not() {
    let mut played = Played::new(1);
    let charge = played.play(MINUTE, |played| {
        played.answer();
        // One second behind at every look.
        played.sample.vcpus[0].epoch = played.sample.epoch.saturating_sub(100);
        played.sample.epoch += 10;
    });
    assert_eq!(charge, None);
}

#[test]
fn who_sleeps_or_starves_does_not_hold_an_epoch() {
    let mut played = Played::new(1);
    played.sample.vcpus[0].epoch = fib::OFFLINE;
    played.sample.epoch = 9;
    assert_eq!(played.play(MINUTE, Played::answer), None);
    played.sample.vcpus[0].epoch = 8;
    assert_eq!(played.play(Duration::from_secs(9), |_| {}), None, "its thread got no CPU");
}

#[test]
fn epochs_wrap_around() {
    let mut played = Played::new(1);
    played.sample.vcpus[0].epoch = u32::MAX;
    played.sample.epoch = 3;
    let (_, charge) = played.play(MINUTE, Played::answer).expect("3 comes after the largest number");
    assert_eq!(charge.kind, Kind::OldEpoch);
    let mut played = Played::new(1);
    played.sample.vcpus[0].epoch = 3;
    played.sample.epoch = u32::MAX;
    assert_eq!(played.play(MINUTE, Played::answer), None);
}

#[test]
fn doorbells_for_nothing_are_charged_and_doorbells_for_frames_are_not() {
    let mut played = Played::new(1);
    let busy = |played: &mut Played| {
        played.answer();
        played.sample.nics[0].kicks += 30_000;
        played.sample.nics[0].frames += 30_000;
    };
    assert_eq!(played.play(MINUTE, busy), None);
    let (at, charge) = played
        .play(MINUTE, |played| {
            busy(played);
            played.sample.nics[1].kicks += 5_000;
        })
        .expect("a charge");
    seconds(2.0..4.5, at);
    assert_eq!(charge.kind, Kind::Kicks);
    assert_eq!(charge.line, "it rang the doorbell of wan.tx 50000 times a second for nothing");
}

#[test]
fn doorbells_for_frames_that_the_host_loses_are_not_charged() {
    for (drops, charge) in [(true, None), (false, Some(Kind::Kicks))] {
        let (ledger, mut played) = (NicDirection::default(), Played::new(1));
        let unplugged = |played: &mut Played| {
            played.answer();
            ledger.kicks.add(1_000);
            ledger.drop_not_running.add(if drops { 1_000 } else { 0 });
            played.sample.nics[1] = NicSample::read_transmit("wan.tx".to_owned(), &ledger);
        };
        assert_eq!(played.play(MINUTE, unplugged).map(|(_, charge)| charge.kind), charge);
    }
    // Towards the router a lost frame has taken no buffer.
    let (ledger, mut played) = (NicDirection::default(), Played::new(1));
    let flooded = |played: &mut Played| {
        played.answer();
        ledger.kicks.add(1_000);
        ledger.drop_not_running.add(1_000);
        played.sample.nics[0] = NicSample::read("wan.rx".to_owned(), &ledger);
    };
    assert_eq!(played.play(MINUTE, flooded).map(|(_, charge)| charge.kind), Some(Kind::Kicks));
}

#[test]
fn a_short_burst_of_doorbells_is_not() {
    let mut played = Played::new(1);
    for _ in 0..20 {
        played.sample.nics[1].kicks += 1_000_000;
        assert_eq!(played.play(Duration::from_secs(3), Played::answer), None);
    }
}

#[test]
fn register_accesses_are_charged_but_not_those_that_are_doorbells() {
    let mut played = Played::new(2);
    played.sample.vcpus[1].accesses = 5_000;
    let exits = |played: &mut Played| {
        played.answer();
        played.sample.nics[1].kicks += 1_000;
        played.sample.nics[1].frames += 1_000;
        played.sample.vcpus[1].accesses += 1_000;
    };
    assert_eq!(played.play(MINUTE, exits), None, "nor what happened while it came up");
    let (at, charge) = played
        .play(MINUTE, |played| {
            exits(played);
            played.sample.vcpus[1].accesses += 10;
        })
        .expect("a charge");
    seconds(2.0..4.5, at);
    assert_eq!(charge.kind, Kind::Registers);
    let line = "vCPU 1 accessed device registers 100 times a second while it should forward";
    assert_eq!(charge.line, line);
}

/// A router with e1000s that forwards, each frame with an interrupt at both NICs.
fn busy(played: &mut Played) {
    played.answer();
    for nic in &mut played.sample.nics {
        *nic = std::mem::take(nic).of(NicModel::E1000);
        nic.frames += 150;
    }
    // Two thousand a second, as much as a vCPU can do.
    played.sample.vcpus[0].accesses += 2 * 150 * 7;
}

#[test]
fn register_accesses_of_an_e1000_are_not_charged_as_long_as_frames_move() {
    let mut played = Played::new(1);
    assert_eq!(played.play(MINUTE, busy), None);
    // At rest there is a challenge a second, and its interrupt.
    let rest = |played: &mut Played| {
        played.answer();
        played.sample.vcpus[0].accesses += u64::from(played.asked.is_multiple_of(2)) + 1;
    };
    assert_eq!(played.play(MINUTE, rest), None);
    let reset = |played: &mut Played| {
        rest(played);
        played.sample.vcpus[0].accesses += 1000;
    };
    let (at, charge) = played.play(MINUTE, reset).expect("a charge");
    seconds(2.0..4.5, at);
    assert_eq!(charge.kind, Kind::Registers);
}

#[test]
fn frames_are_no_excuse_for_more_accesses_than_they_need_nor_with_another_nic() {
    let mut played = Played::new(1);
    let more = |played: &mut Played| {
        busy(played);
        played.sample.vcpus[0].accesses += 10;
    };
    assert_eq!(played.play(MINUTE, more).map(|(_, charge)| charge.kind), Some(Kind::Registers));
    let mut played = Played::new(1);
    let virtio_net = |played: &mut Played| {
        played.answer();
        played.sample.nics[0].frames += 1000;
        played.sample.vcpus[0].accesses += 10;
    };
    assert_eq!(played.play(MINUTE, virtio_net).map(|(_, charge)| charge.kind), Some(Kind::Registers));
}

#[test]
fn samples_of_any_shape_are_looked_at() {
    let mut played = Played::new(1);
    for n in 0..40 {
        played.sample.vcpus.resize(n % 5, VcpuSample { state: 1, ..VcpuSample::default() });
        played.sample.nics.resize(n % 3, NicSample::default());
        for vcpu in &mut played.sample.vcpus {
            vcpu.epoch = vcpu.epoch.wrapping_sub(1 << 31);
        }
        played.look();
    }
}
