//! Main loop of every role: poll while there is work, arm and halt when there is none.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use bootinfo::{BootFailure, Role, VcpuShared};
use ring::meter::{Meter, Timed};
use ring::wake::{Poller, RingServer, Turn};
use router::Both;

use crate::application;
use crate::boot::{self, Vcpu};
use crate::halt::Mailbox;
use crate::hostile;
use crate::platform::Firmware;
use crate::roles;
use crate::station;
use crate::tables;
use crate::tso_source;
use crate::vrfs;

/// Turns of the loop between two checks of the host's words. A vCPU that is kept busy and gets little CPU time must still answer
/// the host: this many turns with full bursts on two NICs take far less time than the interval of the host's challenges, and the
/// cost of a check is negligible in comparison.
const TURNS_A_LOOK: u32 = 256;

/// Behaviour of a role.
pub(crate) trait Duty {
    /// True if it receives frames.
    const LISTENS: bool = true;

    /// Performs one pass over all NICs; returns how many frames were handled.
    fn pass(&mut self, firmware: &mut Firmware) -> usize;

    /// Milliseconds until the duty wants to be called even if no frame arrives; `None`: never.
    fn deadline(&self) -> Option<u64> {
        None
    }

    /// Called when the vCPU is about to sleep; the next call is [`Duty::after_sleep`].
    fn asleep(&mut self, _firmware: &mut Firmware) {}

    /// Called when the vCPU has slept: time has passed.
    fn after_sleep(&mut self, _firmware: &mut Firmware) {}
}

/// Duty in service, with its NICs and the mailbox on which it sleeps.
struct Serving<'a, D> {
    duty: D,
    firmware: &'a mut Firmware,
    mailbox: &'a Mailbox,
    shared: &'static VcpuShared,
    /// Value of the mailbox before the last check for work.
    seen: u32,
    meter: Meter,
}

/// Serves in the role that the host configured, until told to stop.
pub(crate) fn run(vcpu: &mut Vcpu) -> Result<(), BootFailure> {
    if !vcpu.moves {
        serve_for(Aside, vcpu, 0);
        return Ok(());
    }
    match Role::from_number(vcpu.info.role).ok_or(BootFailure::BootInfo)? {
        Role::Router => return route(vcpu),
        Role::Source if vcpu.info.traffic.segment_len != 0 => serve(tso_source::source(vcpu)?, vcpu),
        Role::Source => serve(roles::source(vcpu)?, vcpu),
        Role::Sink => serve(roles::sink(), vcpu),
        Role::Echo => serve(roles::echo(), vcpu),
        Role::SourceSink => serve(roles::source_sink(vcpu)?, vcpu),
        Role::Hostile => return hostile::run(vcpu),
        Role::Station => serve(station::host(vcpu)?, vcpu),
        Role::Application => serve(application::worker(vcpu)?, vcpu),
        Role::Balancer => serve(roles::balancer(vcpu)?, vcpu),
    }
    Ok(())
}

/// Serves as a router. There are four kinds: one without IPv6, or without VRFs, pays nothing for it.
fn route(vcpu: &mut Vcpu) -> Result<(), BootFailure> {
    let six = tables::six_table(vcpu, 0);
    match (vcpu.info.tables > 1, six) {
        (false, None) => serve(roles::router(vcpu)?, vcpu),
        (false, Some(six)) => {
            let routes = Both { four: tables::table(vcpu, 0)?, six };
            serve(roles::forwarding(vcpu, routes)?, vcpu);
        }
        (true, None) => serve(vrfs::routers(vcpu, tables::table)?, vcpu),
        (true, Some(_)) => {
            let both = |vcpu: &Vcpu, number: usize| -> Result<_, BootFailure> {
                let six = tables::six_table(vcpu, number).ok_or(BootFailure::BootInfo)?;
                Ok(Both { four: tables::table(vcpu, number)?, six })
            };
            serve(vrfs::routers(vcpu, both)?, vcpu);
        }
    }
    Ok(())
}

/// Serves a duty, until the host says stop.
pub(crate) fn serve(duty: impl Duty, vcpu: &mut Vcpu) {
    serve_for(duty, vcpu, vcpu.info.spin);
}

/// Duty of a vCPU that moves no frames: it serves interrupts of NICs, and sleeps whenever there is none.
struct Aside;

impl Duty for Aside {
    fn pass(&mut self, _firmware: &mut Firmware) -> usize {
        0
    }
}

fn serve_for<D: Duty>(duty: D, vcpu: &mut Vcpu, spin: u32) {
    let shared = vcpu.firmware.shared();
    if !D::LISTENS {
        vcpu.firmware.disable_receive();
    }
    vcpu.firmware.fill();
    shared.state.0.store(1, Release);
    let (firmware, mailbox, meter) = (&mut vcpu.firmware, &vcpu.mailbox, Meter::default());
    let mut serving = Serving { duty, firmware, mailbox, shared, seen: 0, meter };
    let mut poller = Poller::new(spin);
    let words = boot::shared();
    while words.stop.0.load(Relaxed) == 0 {
        shared.answer.0.store(words.challenge.0.load(Relaxed), Relaxed);
        poller.set_spin(limited(spin, shared.spin_limit.0.load(Relaxed)));
        for _ in 0..TURNS_A_LOOK {
            if poller.turn(&mut serving, Serving::sleep) == Turn::Slept {
                // The host may have woken the vCPU to stop it.
                break;
            }
        }
    }
}

/// Limits the budget of empty passes, if the host has set a limit ([`VcpuShared::spin_limit`]).
fn limited(spin: u32, limit: u32) -> u32 {
    limit.checked_sub(1).map_or(spin, |most| spin.min(most))
}

impl<D: Duty> Serving<'_, D> {
    /// Returns true if the host has requested an end or a sign of life since the last check of its words. Its interrupt may have
    /// come while the vCPU was awake, and will not wake it later.
    fn is_called(&self) -> bool {
        let words = boot::shared();
        let challenged = words.challenge.0.load(Acquire) != self.shared.answer.0.load(Relaxed);
        challenged || words.stop.0.load(Acquire) != 0
    }

    fn sleep(&mut self) {
        let alarm = self.duty.deadline().map_or(0, |ms| ms.clamp(1, u64::from(u32::MAX)) as u32);
        self.shared.alarm.0.store(alarm, Release);
        self.shared.router.sleeps.add(1);
        self.duty.asleep(self.firmware);
        self.mailbox.sleep(self.seen);
        self.shared.alarm.0.store(0, Relaxed);
        self.duty.after_sleep(self.firmware);
    }
}

impl<D: Duty> RingServer for Serving<'_, D> {
    #[inline(always)]
    fn poll(&mut self) -> bool {
        let begun = self.meter.begin();
        let served = self.firmware.attend();
        let frames = self.duty.pass(self.firmware);
        if frames == 0 {
            return served;
        }
        match self.meter.end(begun, frames as u64) {
            None => {}
            Some(Timed::Whole(cycles)) => self.shared.work.add_pass(cycles, frames as u64),
            Some(Timed::Preempted) => self.shared.work.torn.add(1),
        }
        true
    }

    fn arm(&mut self) -> bool {
        self.seen = self.mailbox.seen();
        let called = self.is_called();
        self.firmware.arm() || called
    }

    fn disarm(&mut self) {
        self.firmware.disarm();
    }

    #[inline]
    fn now(&self) -> Option<u64> {
        Some(self.firmware.microseconds())
    }
}
