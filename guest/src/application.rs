//! Application role: an application behind a bounded queue, with its clock and the duty around it.

use bootinfo::BootFailure;
use router::roles::{Application, Clock, Load};

use crate::boot::Vcpu;
use crate::buffer::FrameBuffer;
use crate::halt;
use crate::platform::Firmware;
use crate::roles;
use crate::serve::Duty;

/// The application, and the number of interrupts already reported to the host.
pub(crate) struct ApplicationDuty {
    application: &'static mut Application<'static, FrameBuffer>,
    told: u64,
}

impl Duty for ApplicationDuty {
    fn pass(&mut self, firmware: &mut Firmware) -> usize {
        let frames = self.application.pass(firmware);
        let served = (0..router::Platform::nics(firmware)).map(|nic| firmware.interrupts(nic)).sum();
        firmware.shared().application.interrupts.add(served - self.told);
        self.told = served;
        roles::count(firmware, frames)
    }
}

impl Clock for Firmware {
    fn ticks(&mut self) -> u64 {
        halt::ticks()
    }

    fn ticks_in(&self, nanoseconds: u64) -> u64 {
        nanoseconds.saturating_mul(self.ticks_a_millisecond()) / 1_000_000
    }
}

/// Creates the application that the host configured. Its queue holds at most one ring's worth of frames, so that the
/// ring keeps its buffers.
pub(crate) fn worker(vcpu: &mut Vcpu) -> Result<ApplicationDuty, BootFailure> {
    let orders = &vcpu.info.traffic;
    let load = Load {
        work_ns: u64::from(orders.work_ns),
        queue_len: orders.queue_len.min(vcpu.info.ring_size) as usize,
        protected: orders.protected != 0,
    };
    if load.protected {
        vcpu.firmware.poll_while_busy();
    }
    let application = Application::new(load, &vcpu.firmware.shared().application, &vcpu.firmware);
    let application = vcpu.arena.keep(application).ok_or(BootFailure::Memory)?;
    Ok(ApplicationDuty { application, told: 0 })
}
