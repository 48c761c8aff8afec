//! Interrupt vectors of a virtio-net device (MSI-X).

use std::io::{self, Write as _};

use anyhow::Result;

use super::NicDevice;
use crate::irq::Message;

impl NicDevice {
    /// Sets or masks a vector. Before DRIVER_OK, when a driver sets one after the other, messages are only noted:
    /// the device interrupts nobody yet. Afterwards it may even if it has failed (DEVICE_NEEDS_RESET).
    pub(super) fn vector_changed(&mut self, vector: u16) {
        let Some(line) = self.lines.get(usize::from(vector)).cloned() else { return };
        let has_message = self.message(vector).is_some();
        if has_message {
            self.unrouted.insert(vector);
        } else {
            self.unrouted.remove(&vector);
        }
        let routed = if has_message && self.model.driver_ok() {
            self.route_vectors()
        } else {
            self.irqs.route(&line, None).inspect_err(|error| self.tell(error))
        };
        if routed.is_err() {
            self.give_up();
        }
    }

    /// Sets the vectors whose messages were only noted. If the host refuses, they remain noted.
    pub(super) fn route_vectors(&mut self) -> Result<()> {
        let message = |vector| Some((&**self.lines.get(usize::from(vector))?, self.message(vector)?));
        let lines: Vec<_> = self.unrouted.iter().copied().filter_map(message).collect();
        let routed = self.irqs.route_all(&lines);
        if routed.is_ok() {
            self.unrouted.clear();
        }
        routed.inspect_err(|error| self.tell(error))
    }

    fn message(&self, vector: u16) -> Option<Message> {
        self.model.message(vector).map(|m| Message { address: m.address, data: m.data })
    }

    /// Reports a fault of the host once: a guest can cause it any number of times.
    fn tell(&mut self, error: &anyhow::Error) {
        if !std::mem::replace(&mut self.told, true) {
            let _ = writeln!(io::stderr(), "ringroad: {error:#}");
        }
    }

    pub(super) fn queue_vector_changed(&mut self, index: u16) {
        let line = self.line(self.model.queue_vector(index));
        let pair = usize::from(index / 2);
        if let Some(control) = self.control.as_mut().filter(|control| control.index == index) {
            control.line = line;
        } else if index.is_multiple_of(2) {
            self.queues.rx.set_line(pair, line);
        } else {
            self.queues.tx.set_line(pair, line);
        }
    }
}
