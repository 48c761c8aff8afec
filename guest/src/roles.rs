//! The duties that a firmware can have.

use arrayvec::ArrayVec;
use bootinfo::Trouble;
use router::{Buffer, Burst, Platform};

use crate::boot::Vcpu;
use crate::platform::Firmware;
use crate::serve::Duty;

pub(crate) struct Echo {
    burst: Burst<crate::buffer::FrameBuffer>,
}
pub(crate) fn echo() -> Echo {
    Echo { burst: ArrayVec::new() }
}
impl Duty for Echo {
    #[inline(always)]
    fn pass(&mut self, fw: &mut Firmware) -> usize {
        let mut n = 0;
        for nic in 0..fw.nics() {
            fw.receive(nic, &mut self.burst);
            if self.burst.is_empty() {
                continue;
            }
            n += self.burst.len();
            for b in &mut self.burst {
                let h = b.head();
                for i in 0..6 {
                    h.swap(i, i + 6);
                }
            }
            fw.transmit(nic, &mut self.burst);
        }
        n
    }
}
pub(crate) fn router(_: &mut Vcpu) -> Result<Echo, Trouble> {
    Ok(echo())
}
pub(crate) fn source(_: &mut Vcpu) -> Result<Echo, Trouble> {
    Ok(echo())
}
pub(crate) fn sink(_: &mut Vcpu) -> Result<Echo, Trouble> {
    Ok(echo())
}
